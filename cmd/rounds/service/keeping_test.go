package service

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/processes"
)

// postmen are a kind whose one message carries a file.
type postmen struct{}

func (postmen) Kind() string                   { return "postman" }
func (postmen) Validate(json.RawMessage) error { return nil }
func (postmen) RateKey(json.RawMessage) string { return "" }
func (postmen) Forgets() bool                  { return true }

func (postmen) Check(_ context.Context, r poller.Request) (poller.Result, error) {
	if r.Cursor != nil {
		return poller.Result{}, nil
	}
	return poller.Result{Messages: []poller.Message{{ID: "1", Type: "letter"}}, Cursor: []byte("1")}, nil
}

func (postmen) Files(*poller.Message) []poller.File {
	return []poller.File{{Name: "letter.txt", Type: "text/plain"}}
}

func (postmen) FetchFile(context.Context, poller.FileRequest) (*poller.FileBody, error) {
	return &poller.FileBody{ReadCloser: io.NopCloser(strings.NewReader("Dear reader"))}, nil
}

// What a message carries is fetched into the directory that the settings name, and read through the
// API. Without the role delivery it is fetched when somebody reads it.
func TestFilesOfMessagesAreKept(t *testing.T) {
	for _, roles := range []string{"api,poller,monitor,delivery", "api,poller,monitor"} {
		dir := filepath.Join(t.TempDir(), "files")
		variables := map[string]string{"ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ROLES": roles, "ROUNDS_FILES": dir, "ROUNDS_DATA_DIR": "memory"}
		s, err := read(variables)
		if err != nil {
			t.Fatal(err)
		}
		addr := make(chan string, 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Run(ctx, s, Options{
				Lookup: lookupIn(variables), Log: slog.New(slog.DiscardHandler),
				Kinds: []Kind{func(Tools) (poller.Checker, error) { return postmen{}, nil }}, Serving: func(a string) { addr <- a },
			})
		}()
		base := "http://" + <-addr
		processes.AwaitStatus(t, base+"/readyz", http.StatusOK)
		calls := client.New(base, "")
		if _, err := calls.Add(t.Context(), accounts.Account{ID: "a", Kind: "postman", Cadence: "every 1h"}, ""); err != nil {
			t.Fatal(err)
		}
		var f api.File
		want := "kept"
		if !strings.Contains(roles, "delivery") {
			want = "demand"
		}
		for f.State != want { // the first message is awaited, and then what becomes of its file
			if err := calls.Tail(t.Context(), client.FromStart, func(m api.Message) error {
				f = m.Files[0]
				return io.EOF
			}, func(error, time.Duration) {}); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		var text strings.Builder
		if _, err := calls.File(t.Context(), f.URL, &text); err != nil || text.String() != "Dear reader" {
			t.Errorf("%s: %q, %v", roles, text.String(), err)
		}
		objects, err := filepath.Glob(filepath.Join(dir, "*", "*-*"))
		if err != nil || len(objects) != 1 {
			t.Fatalf("%s: %q, %v", roles, objects, err)
		}
		if content, err := os.ReadFile(objects[0]); err != nil || string(content) != "Dear reader" {
			t.Errorf("%q, %v", content, err)
		}
		calls.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// couriers are postmen that also send.
type couriers struct {
	postmen
	sent chan string
}

func (couriers) Sending(json.RawMessage) poller.Sending {
	return poller.Sending{Types: []string{"file"}, Files: []string{"file"}}
}

func (couriers) PrepareSend(_ json.RawMessage, s *poller.Outgoing, _ *poller.Message) error {
	if s.File == nil || s.File.Name != "letter.txt" || s.File.Size != 11 {
		return fmt.Errorf("data.file: is %+v", s.File)
	}
	return nil
}

func (c couriers) Send(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	from, err := r.File.Open(ctx)
	if err != nil {
		return poller.Sent{}, poller.Beforehand(err)
	}
	defer func() { _ = from.Close() }()
	text, err := io.ReadAll(from)
	c.sent <- r.File.Name + ": " + string(text)
	return poller.Sent{}, err
}

// A file that was uploaded through the API is sent by the poller, from the store that both have.
func TestFilesAreSent(t *testing.T) {
	variables := map[string]string{"ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ROLES": "api,poller,monitor", "ROUNDS_FILES": filepath.Join(t.TempDir(), "files"), "ROUNDS_DATA_DIR": "memory"}
	s, err := read(variables)
	if err != nil {
		t.Fatal(err)
	}
	kind := couriers{sent: make(chan string, 1)}
	addr := make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, s, Options{
			Lookup: lookupIn(variables), Log: slog.New(slog.DiscardHandler),
			Kinds: []Kind{func(Tools) (poller.Checker, error) { return kind, nil }}, Serving: func(a string) { addr <- a },
		})
	}()
	base := "http://" + <-addr
	processes.AwaitStatus(t, base+"/readyz", http.StatusOK)
	calls := client.New(base, "")
	if _, err := calls.Add(t.Context(), accounts.Account{ID: "a", Kind: "postman", Cadence: "every 1h"}, ""); err != nil {
		t.Fatal(err)
	}
	refusesHalfFiles(t, strings.TrimPrefix(base, "http://"), variables["ROUNDS_FILES"])
	up, err := calls.Upload(t.Context(), "a", "letter.txt", "text/plain", strings.NewReader("Dear writer"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := calls.Send(t.Context(), "a", "1", api.SendRequest{To: "anna", Type: "file", Data: json.RawMessage(`{"file":"` + up.ID + `"}`)}); err != nil {
		t.Fatal(err)
	}
	if got := <-kind.sent; got != "letter.txt: Dear writer" {
		t.Error(got)
	}
	calls.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// refusesHalfFiles uploads files of which too little or too much comes. It expects that the answer says why,
// if there still is one, and that nothing is stored.
func refusesHalfFiles(t *testing.T, address, directory string) {
	t.Helper()
	sum := sha256.Sum256([]byte("Dear writer"))
	digest := "Content-Digest: sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":\r\n"
	for _, c := range []struct{ name, request, want string }{
		{"shorter than it says", "Content-Length: 11\r\n\r\nDear", "broke off before its end: only 4 of 11 bytes came"},
		{"shorter, with a digest", digest + "Content-Length: 11\r\n\r\nDear", "only 4 of 11 bytes came"},
		{"cut between two chunks", "Transfer-Encoding: chunked\r\n\r\n4\r\nDear\r\n", "broke off before its end"},
		{"cut within a chunk", "Transfer-Encoding: chunked\r\n\r\nb\r\nDear", "broke off before its end"},
		{"longer than it says", digest + "Content-Length: 4\r\n\r\nDear writer", "is not what its SHA-256 says"},
		{"whole, but longer than its digest", digest + "Content-Length: 12\r\n\r\nDear writers", "is not what its SHA-256 says"},
		{"gone", "Content-Length: 11\r\n\r\nDear", ""},
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "POST /v1/files?account=a HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s", address, c.request)
		if c.want == "" {
			_ = conn.Close() // nobody waits for an answer
			continue
		}
		_ = conn.(*net.TCPConn).CloseWrite()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		text, _ := io.ReadAll(answer.Body) // it may be cut
		if answer.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: %s, %s; want %q", c.name, answer.Status, text, c.want)
		}
		_ = conn.Close()
	}
	objects, err := filepath.Glob(filepath.Join(directory, "[0-9a-f][0-9a-f]", "*"))
	if err != nil || len(objects) > 0 {
		t.Errorf("stored %q, %v", objects, err)
	}
}
