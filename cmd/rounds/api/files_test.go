package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/png"
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

func (s *shelf) Most() int64 { return 64 << 10 }

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
		Of: message, Place: place, Name: name, Type: mediaType, Hash: fmt.Sprintf("%x", sha256.Sum256([]byte(content))), Size: int64(len(content)), Object: name + "/" + content, Found: now,
	}
	if len(content) > 64 {
		f.Object = name + "/" + f.Hash
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
	content, err := io.ReadAll(io.LimitReader(from, 64<<10))
	sum := sha256.Sum256(content)
	f := circulate.File{
		Account: u.Account, Kind: u.Kind, Holder: circulate.FileOfUpload, Of: u.Name + u.Type, Name: u.Name, Type: u.Type, Hash: hex.EncodeToString(sum[:]), Size: int64(len(content)),
	}
	f.ID, f.Object = circulate.NewFileID(f.Account, f.Holder, f.Of, 0), f.Hash
	switch {
	case err != nil:
		return f, &FileRefused{Reason: "broke off before its end", Err: err}
	case u.SHA256 != "" && u.SHA256 != f.Hash:
		return f, &FileRefused{Reason: "is not what its SHA-256 says: something was lost or changed on its way"}
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

// A kept image has a thumbnail, whatever its sender called it, and other files have none.
func TestThumbnailsAreServed(t *testing.T) {
	f, store := filesFixture(t)
	f.find("a", "x1234")
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 600, 300))); err != nil {
		t.Fatal(err)
	}
	for place, content := range []string{drawn.String(), "<svg xmlns='http://www.w3.org/2000/svg'/>", drawn.String()} {
		mediaType := []string{"", "image/jpeg", "image/svg+xml"}[place]
		if err := store.keep(t.Context(), "a", "x1234", place, fmt.Sprint("f", place), mediaType, content); err != nil {
			t.Fatal(err)
		}
	}
	var list MessageList
	f.call("GET", "/v1/messages", "", 200, &list)
	files := list.Messages[0].Files
	if len(files) != 4 || files[0].Thumbnail != files[0].URL+"/thumbnail" || files[2].Thumbnail != "" || files[3].Thumbnail != "" {
		t.Fatalf("%+v", files)
	}
	got := f.do(f.request("GET", files[0].Thumbnail, ""))
	c, format, err := image.DecodeConfig(strings.NewReader(got.body))
	if got.status != 200 || err != nil || format != "jpeg" || c.Width != 256 || c.Height != 128 {
		t.Errorf("%d: %s %d × %d, %v", got.status, format, c.Width, c.Height, err)
	}
	for name, want := range map[string]string{
		"Content-Type": "image/jpeg", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox", "Cache-Control": "private, max-age=86400, immutable",
	} {
		if is := got.header.Get(name); is != want {
			t.Errorf("%s: %q, want %q", name, is, want)
		}
	}
	again := f.request("GET", files[0].Thumbnail, "")
	again.Header.Set("If-None-Match", got.header.Get("ETag"))
	if got := f.do(again); got.status != 304 || got.body != "" {
		t.Errorf("%d %s", got.status, got.body)
	}
	for _, place := range []int{1, 2, 3, 4} {
		if p := f.errorReply("GET", fmt.Sprintf("/v1/messages/%d:%s/files/%d/thumbnail", list.Messages[0].Shard, list.Messages[0].Position, place), "", 404); !strings.Contains(p.Detail, "thumbnail") {
			t.Errorf("%d: %s", place, p.Detail)
		}
	}
	if read, err := f.ring.Files().Read(t.Context(), "a", 9); err != nil || len(read) != 0 {
		t.Errorf("looking counts as reading: %v, %v", read, err)
	}
	clear(store.bytes)
	if got := f.do(f.request("GET", files[0].Thumbnail, "")); got.status != 200 {
		t.Errorf("it is not remembered: %d %s", got.status, got.body)
	}
	if strings.Contains(f.logs.String(), "ERROR") {
		t.Error(f.logs)
	}
}

// A dead letter has the files of its message, which are read where the letter is.
func TestDeadLettersHaveFiles(t *testing.T) {
	f, store := filesFixture(t)
	f.find("a", "x1")
	if err := store.keep(t.Context(), "a", "x1", 0, "note.txt", "text/plain", "kept"); err != nil {
		t.Fatal(err)
	}
	f.buries("crm")
	var list DeadList
	f.call("GET", "/v1/dead", "", 200, &list)
	var one DeadLetter
	f.call("GET", "/v1/dead/"+list.Dead[0].DeadID, "", 200, &one)
	want := File{ID: circulate.NewFileID("a", circulate.FileOfMessage, "x1", 0), Name: "note.txt", Type: "text/plain", Size: 4, State: "kept", URL: "/v1/dead/" + one.DeadID + "/files/0"}
	if len(list.Dead[0].Files) != 1 || list.Dead[0].Files[0] != want || len(one.Files) != 1 || one.Files[0] != want {
		t.Fatalf("%+v, %+v", list.Dead[0].Files, one.Files)
	}
	if got := f.do(f.request("GET", want.URL, "")); got.status != 200 || got.body != "kept" {
		t.Errorf("%d %s", got.status, got.body)
	}
	f.call("GET", "/v1/dead/"+one.DeadID+"/files/1", "", 404, nil)
	f.call("GET", "/v1/dead/0:1-1/files/0", "", 404, nil)
	f.call("GET", "/v1/dead/x/files/0", "", 422, nil)
	f.call("GET", "/v1/dead/"+one.DeadID+"/files/x", "", 422, nil)
}

// A link that a stream brings reads its file without a key, until it ends, and nothing else. It
// outlives its message.
func TestLinksNeedNoKey(t *testing.T) {
	store := &shelf{when: FilesAll, bytes: make(map[string]string)}
	f := newFixture(t, func(o *Options) {
		store.ring = o.Ring
		o.Files, o.FileLinks, o.Token = store, time.Hour, "token-of-the-service"
	})
	f.find("a", "x12")
	if err := store.keep(t.Context(), "a", "x12", 0, "note.txt", "text/plain", "kept"); err != nil {
		t.Fatal(err)
	}
	var batch GroupBatch
	f.call("POST", "/v1/groups/crm/read", `{"from":"start"}`, 200, &batch)
	files := batch.Messages[0].Files
	if len(files) != 2 || files[0].State != "kept" || files[1].State != "waiting" || files[0].Until.IsZero() {
		t.Fatalf("%+v", files)
	}
	anybody := func(path string) reply {
		r := f.request("GET", path, "")
		r.Header.Del("Authorization")
		return f.do(r)
	}
	if got := anybody(files[0].URL); got.status != 401 {
		t.Errorf("without a link: %d", got.status)
	}
	got := anybody(files[0].Link)
	if got.status != 200 || got.body != "kept" || got.header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%d %s %v", got.status, got.body, got.header)
	}
	if got := anybody(files[1].Link); got.status != 202 || !strings.Contains(got.body, `"state":"waiting"`) || !strings.Contains(got.body, "/v1/links/") {
		t.Errorf("%d %s", got.status, got.body)
	}
	other := strings.SplitN(files[1].Link, "file=", 2)[1]
	for name, link := range map[string]string{
		"another file":  strings.SplitN(files[0].Link, "file=", 2)[0] + "file=" + other,
		"a later end":   strings.Replace(files[0].Link, "until=", "until=9", 1),
		"another place": strings.Replace(files[0].Link, "/0?", "/1?", 1),
		"no signature":  strings.Split(files[0].Link, "&signature")[0],
		"nothing":       strings.Split(files[0].Link, "?")[0],
	} {
		if got := anybody(link); got.status != 403 || strings.Contains(got.body, "kept") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	ended, err := FileLink(t.Context(), key.NewKeyring(f.ring, nil), &circulate.Found{Account: "a", Message: circulate.Message{ID: "x12"}, Position: "1-1"}, 0, time.Now().Add(-time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if got := anybody(ended); got.status != 403 || !strings.Contains(got.body, "has ended") {
		t.Errorf("%d %s", got.status, got.body)
	}
	gone, err := FileLink(t.Context(), key.NewKeyring(f.ring, nil), &circulate.Found{Account: "a", Message: circulate.Message{ID: "x12"}, Position: "1-1"}, 0, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if got := anybody(gone); got.status != 200 || got.body != "kept" {
		t.Errorf("without its message: %d %s", got.status, got.body)
	}
	var list MessageList
	f.call("GET", "/v1/messages", "", 200, &list)
	if list.Messages[0].Files[0].Link != "" {
		t.Error("a page has links")
	}
}

// A backup reads the bytes of objects by their names in the store.
func TestStoredBytesAreForBackups(t *testing.T) {
	f, store := filesFixture(t)
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte("kept")))
	store.bytes[hash[:2]+"/"+hash+"-random"] = "kept"
	at := "/v1/backup/files/" + hash[:2] + "/" + hash + "-random"
	got := f.do(f.request("GET", at, ""))
	if got.status != 200 || got.body != "kept" || got.header.Get("ETag") != `"`+hash+`"` || got.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%d %s %v", got.status, got.body, got.header)
	}
	f.call("GET", at+"x", "", 404, nil)
	viewer := f.as(f.key(key.New{Name: "viewer", Role: access.Viewer}))
	viewer.errorReply("GET", at, "", 403)
}
