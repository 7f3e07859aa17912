// Package examples runs the connectors below it and holds each to the protocol.
package examples

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/connector"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/processes"
)

const signingKey = "whsec_c2lnbmluZy1rZXktb2YtMjQtYnl0ZXMh"

// connectors are the examples, each with the command that runs it.
var connectors = []struct {
	language string
	command  func(t *testing.T) []string
}{
	{"Python", interpreted("python3", "connector-python/connector.py")},
	{"Node", interpreted("node", "connector-node/connector.mjs")},
	{"Go", compiled("./connector-go")},
}

// interpreted runs a file by its interpreter, which may be missing on a developer's machine.
func interpreted(interpreter, file string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		path, err := exec.LookPath(interpreter)
		if err != nil {
			if os.Getenv("CI") != "" || os.Getenv("ROUNDS_TEST_REQUIRE_REDIS") != "" {
				t.Fatalf("%s is not installed, and here it must be", interpreter)
			}
			t.Skipf("%s is not installed: the connector did not run", interpreter)
		}
		return []string{path, file}
	}
}

func compiled(folder string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		path := filepath.Join(t.TempDir(), "connector")
		if out, err := processes.Go(t.Context(), "build", "-ldflags=-w", "-o", path, folder).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return []string{path}
	}
}

// each runs a test with each connector; start runs it on a directory and returns its URL.
func each(t *testing.T, test func(t *testing.T, start func(t *testing.T, dir string) string)) {
	t.Helper()
	for _, c := range connectors {
		t.Run(c.language, func(t *testing.T) {
			t.Parallel()
			test(t, func(t *testing.T, dir string) string { return start(t, c.command(t), dir) })
		})
	}
}

func start(t *testing.T, command []string, dir string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], "--dir", dir, "--port", "0")...)
	cmd.Env = append(os.Environ(), "CONNECTOR_SECRET="+signingKey)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it matters only that the process has ended
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the connector did not start: %v", err)
	}
	return strings.TrimSpace(line)
}

func write(t *testing.T, dir, account, text string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(dir, account+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func checker(t *testing.T) *connector.Checker {
	t.Helper()
	return connector.New(checktest.Client(t, fetch.Options{}), secrets.Source{Lookup: func(name string) (string, bool) {
		return signingKey, name == secrets.EnvPrefix+"FILES"
	}})
}

func config(url string) json.RawMessage {
	return fmt.Appendf(nil, `{"url":%q,"signing_secret":{"secret":"FILES"},"send_url":%q,"deduplicates":true}`, url, url+"send")
}

func TestConnectorKeepsTheProtocol(t *testing.T) { each(t, keepsTheProtocol) }

func keepsTheProtocol(t *testing.T, start func(*testing.T, string) string) {
	dir := t.TempDir()
	url := start(t, dir)
	for n := range 120 {
		write(t, dir, "a", fmt.Sprintf("line %d\n", n))
	}
	store(t, dir, "a", "plan.pdf", "a plan")
	write(t, dir, "a", "@plan.pdf Here it is.\n")
	findings, err := checker(t).Verify(t.Context(), connector.Trial{Config: config(url), Account: "a", SendTo: "anna"})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		want := connector.Pass
		if f.Name == "hold" {
			want = connector.NotJudged // the config has none
		}
		if f.Verdict != want {
			t.Errorf("%s: %s: %s", f.Verdict, f.Rule, f.Seen)
		}
	}
}

// store puts a file into an account's folder.
func store(t *testing.T, dir, account, name, text string) {
	t.Helper()
	folder := filepath.Join(dir, account+".files")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestConnectorGivesFiles(t *testing.T) { each(t, givesFiles) }

func givesFiles(t *testing.T, start func(*testing.T, string) string) {
	dir := t.TempDir()
	url := start(t, dir)
	large := strings.Repeat("a plan ", 100_000)
	store(t, dir, "a", "plan.pdf", large)
	write(t, dir, "a", "@plan.pdf Here it is.\n@other.pdf There is none.\nno file\n@../a.log\n")
	c := checker(t)
	result, err := c.Check(t.Context(), poller.Request{Account: "a", CheckID: "c", Config: config(url), Limit: 9, Attempt: 1})
	if err != nil || len(result.Messages) != 4 {
		t.Fatalf("got %+v, %v", result, err)
	}
	for i := range result.Messages {
		files := c.Files(&result.Messages[i])
		if i > 0 && len(files) > 0 || i == 0 && (len(files) != 1 || files[0] != poller.File{Name: "plan.pdf", Size: int64(len(large))}) {
			t.Errorf("message %d has %+v", i, files)
		}
	}
	r := poller.FileRequest{Account: "a", Config: config(url), Message: &result.Messages[0]}
	body, err := c.FetchFile(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = body.Close() }()
	if got, err := io.ReadAll(body); err != nil || string(got) != large {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	unsigned := r
	unsigned.Config = fmt.Appendf(nil, `{"url":%q}`, url)
	if _, err := c.FetchFile(t.Context(), unsigned); checktest.Failure(t, err).Code != "http_401" {
		t.Errorf("without a signature: %v", err)
	}
	for _, path := range []string{"/files/a/other.pdf", "/files/a/..%2Fa.log", "/files/../a.log", "/files/a", "/a.log"} {
		elsewhere := r
		elsewhere.Message = &poller.Message{Data: fmt.Appendf(nil, `{"files":[{"url":%q}]}`, path)}
		if body, err := c.FetchFile(t.Context(), elsewhere); err == nil {
			_ = body.Close()
			t.Errorf("%s: there is a file", path)
		}
	}
}

func TestConnectorReportsEachLineOnce(t *testing.T) { each(t, reportsEachLineOnce) }

func reportsEachLineOnce(t *testing.T, start func(*testing.T, string) string) {
	dir := t.TempDir()
	url := start(t, dir)
	check := func(account string, cursor []byte) (texts []string, _ poller.Result, _ error) {
		result, err := checker(t).Check(context.Background(), poller.Request{Account: account, CheckID: "c", Config: config(url), Cursor: cursor, Limit: 2, Attempt: 1})
		for _, m := range result.Messages {
			var data struct{ Text string }
			if err := json.Unmarshal(m.Data, &data); err != nil {
				t.Error(err)
			}
			texts = append(texts, data.Text)
		}
		return texts, result, err
	}
	write(t, dir, "a", "one\ntwo\nthree\nnot yet")
	first, result, err := check("a", nil)
	if err != nil || !slices.Equal(first, []string{"one", "two"}) || !result.HasMore {
		t.Fatalf("got %q, %+v, %v", first, result, err)
	}
	second, result, err := check("a", result.Cursor)
	if err != nil || !slices.Equal(second, []string{"three"}) || result.HasMore {
		t.Fatalf("got %q, %+v, %v", second, result, err)
	}
	cursor := result.Cursor
	if none, result, err := check("a", cursor); err != nil || none != nil || result.Cursor != nil {
		t.Errorf("nothing new: got %q, %+v, %v", none, result, err)
	}
	write(t, dir, "a", ", but now\n")
	if third, _, err := check("a", cursor); err != nil || !slices.Equal(third, []string{"not yet, but now"}) {
		t.Errorf("got %q, %v", third, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.log"), []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if anew, result, err := check("a", cursor); err != nil || !slices.Equal(anew, []string{"new"}) || !result.CursorReset {
		t.Errorf("begun anew: got %q, %+v, %v", anew, result, err)
	}
	for account, kind := range map[string]poller.ErrorKind{"nobody": poller.Gone, "../a": poller.ConfigInvalid} {
		_, _, err := check(account, nil)
		if got := checktest.Failure(t, err); got.Kind != kind || got.Scope != poller.ScopeAccount {
			t.Errorf("%s: got %v", account, got)
		}
	}
}

func TestConnectorDeliversEachSendOnce(t *testing.T) { each(t, deliversEachSendOnce) }

func deliversEachSendOnce(t *testing.T, start func(*testing.T, string) string) {
	dir := t.TempDir()
	url := start(t, dir)
	write(t, dir, "a", "one\n")
	send := func(url, account, id, kind, text string) (poller.Sent, error) {
		data, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		return checker(t).Send(context.Background(), poller.SendRequest{Account: account, Config: config(url), ID: id, Attempt: 1, Peer: "anna", Type: kind, Data: data})
	}
	again := start(t, dir) // another copy, as after a crash
	for _, url := range []string{url, url, again} {
		for _, id := range []string{"S1", "S2"} {
			if sent, err := send(url, "a", id, "text", "你好 "+id); err != nil || sent.VendorID != id {
				t.Errorf("%s: got %+v, %v", id, sent, err)
			}
		}
	}
	files, err := os.ReadDir(filepath.Join(dir, "a.sent"))
	if err != nil || len(files) != 2 {
		t.Fatalf("delivered %v, %v", files, err)
	}
	for i, id := range []string{"S1", "S2"} {
		var got struct{ To, Text string }
		text, err := os.ReadFile(filepath.Join(dir, "a.sent", id+".json"))
		if err != nil || json.Unmarshal(text, &got) != nil || got.To != "anna" || got.Text != "你好 "+id || files[i].Name() != id+".json" {
			t.Errorf("%s: delivered %s, %v", id, text, err)
		}
	}
	for name, c := range map[string]struct{ account, id, kind, code string }{
		"another type": {"a", "S3", "location", "rejected"}, "no such account": {"nobody", "S3", "text", "gone"}, "a wrong account": {"../a", "S3", "text", "config"},
		"a wrong id": {"a", "../S3", "text", "http_400"},
	} {
		_, err := send(url, c.account, c.id, c.kind, "x")
		var refused *poller.SendError
		if !errors.As(err, &refused) || !refused.Final || refused.Code != c.code {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
