package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

// shelf is a FileStore whose messages carry as many files as their ids have letters.
type shelf struct {
	ring  *circulate.Ring
	when  string
	bytes map[string]string // by object
	err   error             // of Fetch
}

func (s *shelf) Carried(_ string, m *circulate.Message) []CarriedFile {
	carried := make([]CarriedFile, len(m.ID)-1)
	for i := range carried {
		carried[i] = CarriedFile{Name: fmt.Sprint("claimed ", i), Type: "image/png", Size: 7}
	}
	return carried
}

func (s *shelf) When(context.Context, string) string { return s.when }

func (s *shelf) Fetch(ctx context.Context, found *circulate.Found, place int) error {
	if s.err != nil {
		return s.err
	}
	return s.keep(ctx, found.Account, found.Message.ID, place, "note.txt", "text/plain", "fetched now")
}

func (s *shelf) keep(ctx context.Context, account, message string, place int, name, mediaType, content string) error {
	now, err := s.ring.Files().Now(ctx)
	if err != nil {
		return err
	}
	f := circulate.File{
		ID: circulate.NewFileID(account, circulate.FileOfMessage, message, place), Account: account, Kind: "plain", Holder: circulate.FileOfMessage,
		Of: message, Place: place, Name: name, Type: mediaType, Hash: fmt.Sprintf("%064x", content), Size: int64(len(content)), Object: name + "/" + content, Found: now,
	}
	s.bytes[f.Object] = content
	_, err = s.ring.Files().Keep(ctx, f, circulate.Keeping{Began: now})
	return err
}

type page struct{ *bytes.Reader }

func (page) Close() error { return nil }

func (s *shelf) Open(_ context.Context, object string) (io.ReadSeekCloser, error) {
	content, ok := s.bytes[object]
	if !ok {
		return nil, ErrNoFile
	}
	return page{bytes.NewReader([]byte(content))}, nil
}

func (s *shelf) Upload(ctx context.Context, u Upload, from io.Reader) (circulate.File, error) {
	content, err := io.ReadAll(io.LimitReader(from, 100))
	sum := sha256.Sum256(content)
	f := circulate.File{
		Account: u.Account, Kind: u.Kind, Holder: circulate.FileOfUpload, Of: u.Name + u.Type, Name: u.Name, Type: u.Type, Hash: hex.EncodeToString(sum[:]), Size: int64(len(content)),
	}
	f.ID, f.Object = circulate.NewFileID(f.Account, f.Holder, f.Of, 0), f.Hash
	switch {
	case err != nil:
		return f, &FileRefused{Reason: "broke off before its end", Err: err}
	case u.SHA256 != "" && u.SHA256 != f.Hash:
		return f, &FileRefused{Reason: "is not what sha256 says: something was lost or changed on its way"}
	case s.err != nil:
		return f, s.err
	}
	if f.Found, err = s.ring.Files().Now(ctx); err != nil {
		return f, err
	}
	s.bytes[f.Object] = string(content)
	_, err = s.ring.Files().Keep(ctx, f, circulate.Keeping{Began: f.Found})
	return f, err
}

func (s *shelf) Share(ctx context.Context, row circulate.File, from string) (bool, error) {
	return s.ring.Files().Share(ctx, row, from, circulate.FileBounds{})
}

func filesFixture(t *testing.T) (*fixture, *shelf) {
	store := &shelf{when: FilesAll, bytes: make(map[string]string)}
	f := newFixture(t, func(o *Options) {
		store.ring = o.Ring
		o.Files = store
	})
	return f, store
}

// A message tells of its files, and a kept one is read in full or in parts, as an attachment that no
// browser runs.
func TestFilesAreRead(t *testing.T) {
	f, store := filesFixture(t)
	f.find("a", "x12")
	if err := store.keep(t.Context(), "a", "x12", 0, "ca\"t é.svg", "image/svg+xml", "<svg/>"); err != nil {
		t.Fatal(err)
	}
	var list MessageList
	f.call("GET", "/v1/messages", "", 200, &list)
	m := list.Messages[0]
	at := fmt.Sprintf("/v1/messages/%d:%s/files/", m.Shard, m.Position)
	want := []File{
		{N: 0, ID: circulate.NewFileID("a", circulate.FileOfMessage, "x12", 0), Name: "ca\"t é.svg", Type: "image/svg+xml", Size: 6, State: "kept", URL: at + "0"},
		{N: 1, Name: "claimed 1", Type: "image/png", Size: 7, State: "waiting", URL: at + "1"},
	}
	if len(m.Files) != 2 || m.Files[0] != want[0] || m.Files[1] != want[1] {
		t.Errorf("%+v", m.Files)
	}
	var one DeliveredMessage
	f.call("GET", strings.TrimSuffix(at, "/files/"), "", 200, &one)
	if len(one.Files) != 2 || one.Files[0] != want[0] {
		t.Errorf("%+v", one.Files)
	}

	got := f.do(f.request("GET", at+"0", ""))
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Content-Length": "6", "Accept-Ranges": "bytes",
		"Content-Disposition": "attachment; filename*=utf-8''ca%22t%20%C3%A9.svg", "Content-Security-Policy": "default-src 'none'; sandbox",
	} {
		if is := got.header.Get(name); is != want {
			t.Errorf("%s: %q, want %q", name, is, want)
		}
	}
	if got.status != 200 || got.body != "<svg/>" {
		t.Errorf("%d %s", got.status, got.body)
	}
	tag := got.header.Get("ETag")
	ask := func(method string, header ...string) reply {
		r := f.request(method, at+"0", "")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return f.do(r)
	}
	if got := ask("GET", "Range", "bytes=2-3", "If-Range", tag); got.status != 206 || got.body != "vg" || got.header.Get("Content-Range") != "bytes 2-3/6" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := ask("GET", "Range", "bytes=2-", "If-Range", `"other"`); got.status != 200 || got.body != "<svg/>" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := ask("GET", "Range", "bytes=9-"); got.status != 416 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := ask("GET", "If-None-Match", tag); got.status != 304 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := ask("HEAD"); got.status != 200 || got.body != "" || got.header.Get("Content-Length") != "6" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if read, err := f.ring.Files().Read(t.Context(), "a", 1); err != nil || len(read) != 1 {
		t.Errorf("nobody has read it: %v, %v", read, err)
	}
}

// Where a file is not there, the reply says why.
func TestFilesThatAreNotThere(t *testing.T) {
	f, store := filesFixture(t)
	f.find("a", "x12345")
	var list MessageList
	f.call("GET", "/v1/messages", "", 200, &list)
	at := fmt.Sprintf("/v1/messages/%d:%s/files/", list.Messages[0].Shard, list.Messages[0].Position)
	lost := circulate.File{ID: circulate.NewFileID("a", circulate.FileOfMessage, "x12345", 1), Account: "a", Kind: "plain", Holder: circulate.FileOfMessage,
		Of: "x12345", Place: 1, Found: time.Now(), Reason: "the third party has it no more"}
	if _, err := f.ring.Files().Lose(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	if err := store.keep(t.Context(), "a", "x12345", 2, "gone", "", "gone"); err != nil {
		t.Fatal(err)
	}
	delete(store.bytes, "gone/gone")
	expect := func(path string, status int, says string) reply {
		t.Helper()
		got := f.do(f.request("GET", path, ""))
		if got.status != status || !strings.Contains(got.body, says) {
			t.Errorf("%s: %d %s; want %d %s", path, got.status, got.body, status, says)
		}
		return got
	}
	if got := expect(at+"0", 202, `"state":"waiting"`); got.header.Get("Retry-After") != "5" {
		t.Errorf("%v", got.header)
	}
	expect(at+"1", 410, "the third party has it no more")
	expect(at+"2", 410, "the store has lost the file")
	expect(at+"5", 404, "no such file")
	expect(at+"-1", 422, "path.n")
	expect(at+"x", 422, "path.n")
	expect("/v1/messages/x/files/0", 422, "path.ref")
	expect("/v1/messages/0:1-1/files/0", 404, "no such message")
	store.when = FilesNone
	expect(at+"0", 404, "are not fetched")
	store.when, store.err = FilesDemand, &FileLater{After: 90 * time.Second, Reason: "the host is down"}
	if got := expect(at+"0", 503, "the host is down"); got.header.Get("Retry-After") != "90" {
		t.Errorf("%v", got.header)
	}
	store.err = nil
	expect(at+"0", 200, "fetched now")
	var now MessageList
	f.call("GET", "/v1/messages", "", 200, &now)
	if files := now.Messages[0].Files; files[0].State != "kept" || files[1].State != "lost" || files[1].URL != "" || files[1].Reason == "" || files[3].State != "demand" {
		t.Errorf("%+v", files)
	}
	if strings.Contains(f.logs.String(), "ERROR") {
		t.Error(f.logs)
	}
}

// Whoever does not see a message does not see its files, and a service without a store has no such
// route.
func TestFilesHaveTheRightsOfTheirMessage(t *testing.T) {
	with, store := filesFixture(t)
	with.find("a", "x1")
	if err := store.keep(t.Context(), "a", "x1", 0, "a", "", "secret"); err != nil {
		t.Fatal(err)
	}
	var all MessageList
	with.call("GET", "/v1/messages", "", 200, &all)
	bound := with.as(with.key(key.New{Name: "press", Role: access.Viewer, Labels: access.Labels{"team": "press"}}))
	if got := bound.errorReply("GET", all.Messages[0].Files[0].URL, "", 404); strings.Contains(got.Detail, "secret") {
		t.Error(got)
	}

	f := newFixture(t, nil)
	f.find("a", "x1")
	var list MessageList
	got := f.call("GET", "/v1/messages", "", 200, &list)
	if strings.Contains(got.body, "files") {
		t.Error(got.body)
	}
	f.call("GET", fmt.Sprintf("/v1/messages/%d:%s/files/0", list.Messages[0].Shard, list.Messages[0].Position), "", http.StatusNotFound, nil)
}
