package email

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// mails returns the mails in testdata, and what people read in them.
func mails(tb testing.TB) (mails map[string][]byte, want map[string]Data) {
	tb.Helper()
	raw, err := os.ReadFile("testdata/mails/want.json")
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		tb.Fatal(err)
	}
	files, err := filepath.Glob("testdata/mails/*.eml")
	if err != nil || len(files) != len(want) {
		tb.Fatalf("%d files, %d wanted: %v", len(files), len(want), err)
	}
	mails = make(map[string][]byte)
	for _, file := range files {
		if mails[strings.TrimSuffix(filepath.Base(file), ".eml")], err = os.ReadFile(file); err != nil {
			tb.Fatal(err)
		}
	}
	return mails, want
}

// judge compares what people read in a mail.
func judge(t *testing.T, name string, raw json.RawMessage, want Data) {
	t.Helper()
	var got Data
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	read := Data{Subject: got.Subject, From: got.From, Text: got.Text, TextType: got.TextType, HTML: got.HTML, References: got.References, Attachments: got.Attachments, Damaged: got.Damaged}
	if want.To != nil {
		read.To = got.To
	}
	if !reflect.DeepEqual(read, want) || got.Truncated {
		t.Errorf("%s:\ngot  %+v\nwant %+v", name, read, want)
	}
}

// Mails as QQ, NetEase, Outlook and broken software write them.
func TestMails(t *testing.T) {
	all, want := mails(t)
	for name, mail := range all {
		judge(t, name, Parse(mail, int64(len(mail))).Encode(), want[name])
	}
}
