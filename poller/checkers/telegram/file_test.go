package telegram

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/telegram"
)

func startFileParty(t *testing.T, kind string, local bool) checktest.FileParty {
	w, stop, err := telegram.Serve(telegram.Options{Local: local})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	client := checktest.Client(t, fetch.Options{})
	fault := func(name string, f telegram.Fault, kind poller.ErrorKind, code string, download bool) checktest.FileFault {
		return checktest.FileFault{
			Name: name, Kind: kind, Code: code, Cuts: f.Cut, Hangs: f.Hang, Endless: f.Endless,
			Break: func(account string) { w.FailFiles(tokenOf(account), download, f) },
		}
	}
	return checktest.FileParty{
		New: func() poller.FileKeeper { return New(client, source()) },
		Config: func(account string) json.RawMessage {
			w.AddBot(tokenOf(account))
			return configOf(w.URL(), account, "")
		},
		Post: func(account string, data []byte) poller.Message {
			w.AddBot(tokenOf(account))
			m, _, _ := readUpdate(w.SendFile(tokenOf(account), kind, "报价.pdf", data))
			return m
		},
		Heal: func(string) { w.Heal() },
		Faults: []checktest.FileFault{
			fault("garbage", telegram.Fault{Garbage: true}, poller.Protocol, "protocol", false),
			fault("no path", telegram.Fault{Body: `{"ok":true,"result":{"file_id":"x"}}`}, poller.Protocol, "protocol", false),
			fault("another path", telegram.Fault{Body: `{"ok":true,"result":{"file_path":"../../getUpdates"}}`}, poller.Protocol, "protocol", false),
			fault("too large", telegram.Fault{Bytes: 9 << 20}, poller.Protocol, "too_large", false),
			fault("too big", telegram.Fault{Body: `{"ok":false,"error_code":400,"description":"Bad Request: file is too big"}`}, poller.Gone, "file_too_large", false),
			fault("for now", telegram.Fault{Body: `{"ok":false,"error_code":400,"description":"Bad Request: wrong file_id or the file is temporarily unavailable"}`}, poller.Transient, "telegram_400", false),
			fault("400", telegram.Fault{Code: 400}, poller.Gone, "file_id", false),
			fault("401", telegram.Fault{Code: 401}, poller.AuthFailed, "telegram_401", false),
			fault("429", telegram.Fault{RetryAfter: 17}, poller.RateLimited, "telegram_429", false),
			fault("reset", telegram.Fault{Reset: true}, poller.Transient, "reset", false),
			fault("hang", telegram.Fault{Hang: true}, "", "", false),
			fault("cut", telegram.Fault{Cut: true}, poller.Transient, "reset", true),
			fault("404 of a file", telegram.Fault{Code: 404}, poller.Transient, "telegram_path", true),
			fault("503 of a file", telegram.Fault{Status: 503}, poller.Transient, "http_503", true),
			fault("a file that hangs", telegram.Fault{Hang: true}, "", "", true),
			fault("endless", telegram.Fault{Endless: true}, "", "", true),
		},
		Secrets: []string{tokenOf("a"), tokenOf("many1")},
	}
}

func TestFileSuite(t *testing.T) {
	for kind, local := range map[string]bool{"photo": false, "document": true} {
		t.Run(kind, func(t *testing.T) {
			checktest.RunFiles(t, checktest.FileKind{Start: func(t *testing.T) checktest.FileParty { return startFileParty(t, kind, local) }})
		})
	}
}

func TestFileAddresses(t *testing.T) {
	t.Parallel()
	fetching := func(c *Checker) poller.Checker {
		return checktest.Fetching(c, func(json.RawMessage) poller.Message {
			return poller.Message{Type: "message", Data: json.RawMessage(`{"update_id":1,"message":{"document":{"file_id":"f"}}}`)}
		})
	}
	checktest.RunAddresses(t, checktest.HTTP{
		New:         func(client *fetch.Client) poller.Checker { return fetching(New(client, source())) },
		WithSecrets: func(client *fetch.Client, s secrets.Source) poller.Checker { return fetching(New(client, s)) },
		Values:      source().Lookup,
		Config: func(url string) json.RawMessage {
			base, _, _ := strings.Cut(url, "?")
			return configOf(base, "a", "")
		},
		Secret: tokenOf("a"),
	})
}

// Each sort of file is found once, with what the update says of it.
func TestFilesOfAnUpdate(t *testing.T) {
	w := telegram.New(telegram.Options{})
	w.AddBot(tokenOf("a"))
	c := New(fetch.New(fetch.Options{Transport: w}), source())
	for kind, want := range map[string]poller.File{
		"photo": {Type: "image/jpeg"}, "document": {Name: "a.pdf", Type: "application/pdf", Size: 3}, "animation": {Name: "a.pdf", Type: "application/pdf", Size: 3},
		"voice": {Size: 3}, "video_note": {Type: "video/mp4", Size: 3}, "sticker": {Type: "video/webm", Size: 3},
	} {
		m, _, _ := readUpdate(w.SendFile(tokenOf("a"), kind, "a.pdf", []byte("abc")))
		if files := c.Files(&m); len(files) != 1 || files[0] != want {
			t.Errorf("%s: %+v", kind, files)
		}
		body, err := c.FetchFile(t.Context(), poller.FileRequest{Account: "a", Config: configOf("", "a", ""), Message: &m})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, []byte("abc")) {
			t.Errorf("%s: %q, %v", kind, got, err)
		}
		_ = body.Close()
	}
	for _, tt := range []struct {
		content string
		want    []poller.File
	}{
		{`{"text":"x"}`, nil},
		{`{"photo":[]}`, nil},
		{`{"photo":[{"file_id":"a","width":-9,"height":-9},{"file_id":"b","width":4611686018427387904,"height":4}]}`, []poller.File{{Type: "image/jpeg"}}},
		{`{"document":{"file_id":"a","file_unique_id":"1"},"video":{"file_id":"b","file_unique_id":"2"}}`, []poller.File{{}, {}}},
		{`{"document":{"file_id":""}}`, nil},
		{`{"document":{"file_id":"` + strings.Repeat("x", maxFileID+1) + `"}}`, nil},
	} {
		m, _, _ := readUpdate(json.RawMessage(`{"update_id":1,"edited_channel_post":` + tt.content + `}`))
		if files := c.Files(&m); fmt.Sprint(files) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %+v", tt.content, files)
		}
	}
}

// Telegram gives bots no file of more than 20 MB, and a server of one's own gives any.
func TestLargeFiles(t *testing.T) {
	for _, local := range []bool{false, true} {
		w := telegram.New(telegram.Options{Local: local})
		w.AddBot(tokenOf("a"))
		m, _, _ := readUpdate(w.SendFile(tokenOf("a"), "video", "a.mp4", make([]byte, 20<<20+1)))
		body, err := New(fetch.New(fetch.Options{Transport: w}), source()).FetchFile(t.Context(), poller.FileRequest{Account: "a", Config: configOf("", "a", ""), Message: &m})
		if local {
			if err != nil || body.Size != 20<<20+1 {
				t.Errorf("%+v, %v", body, err)
			}
			continue
		}
		if failed := checktest.Failure(t, err); failed.Kind != poller.Gone || failed.Code != "file_too_large" {
			t.Errorf("%v", err)
		}
	}
}

func FuzzFiles(f *testing.F) {
	w := telegram.New(telegram.Options{})
	w.AddBot(tokenOf("a"))
	for _, kind := range fileFields() {
		f.Add([]byte(w.SendFile(tokenOf("a"), kind, "a.pdf", nil)))
	}
	c := New(fetch.New(fetch.Options{Transport: w}), source())
	f.Fuzz(func(t *testing.T, data []byte) {
		checktest.JudgeFiles(t, c, &poller.Message{Type: "message", Data: data})
	})
}
