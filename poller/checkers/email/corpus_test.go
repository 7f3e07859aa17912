package email

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// reader prints what Python's library reads in mails: one object for each mail, in their
// order.
const reader = `
import email, email.policy, json, sys
for name in sys.argv[1:]:
    with open(name, "rb") as file:
        m = email.message_from_binary_file(file, policy=email.policy.default)
    read = {}
    try:
        read["subject"] = m["subject"]
        body = m.get_body(("plain", "html"))
        read["text"] = body.get_content() if body else ""
        read["names"] = [p.get_filename() for p in m.walk() if p.get_filename() and p.get_content_disposition() == "attachment"]
    except Exception as e:
        read = {"fault": repr(e)}
    print(json.dumps(read))
`

// ROUNDS_TEST_MAILS names a folder of mails that others wrote to test their own software.
// They are read as Python's library reads them: the subject, the text if it finds one,
// and attachments' names. Where that library fails, only the bounds are judged. The night
// run fetches such mails.
func TestCorpus(t *testing.T) {
	dir := os.Getenv("ROUNDS_TEST_MAILS")
	if dir == "" {
		t.Skip("ROUNDS_TEST_MAILS names no folder of mails")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no mails: %v", dir, err)
	}
	command := exec.CommandContext(t.Context(), "python3", append([]string{"-c", reader}, files...)...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	judged := 0
	for answers := json.NewDecoder(strings.NewReader(string(out))); len(files) > 0; files = files[1:] {
		var want struct {
			Subject, Text, Fault string
			Names                []string
		}
		if err := answers.Decode(&want); err != nil {
			t.Fatal(err)
		}
		mail, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		var got Data
		raw := Parse(mail[:min(len(mail), MaxRaw)], int64(len(mail))).Encode()
		if err := json.Unmarshal(raw, &got); err != nil || len(raw) > maxData {
			t.Errorf("%s: %d bytes: %v", files[0], len(raw), err)
		}
		if want.Fault != "" || got.Truncated {
			continue
		}
		judged++
		if words(got.Subject) != words(want.Subject) || want.Text != "" && words(got.Text) != words(want.Text) {
			t.Errorf("%s:\ngot  %q, %q\nwant %q, %q", files[0], got.Subject, got.Text, want.Subject, want.Text)
		}
		for _, name := range want.Names {
			found := false
			for _, a := range got.Attachments {
				found = found || a.Name == name
			}
			if !found {
				t.Errorf("%s: no attachment %q in %+v", files[0], name, got.Attachments)
			}
		}
	}
	t.Logf("%d mails judged", judged)
}
