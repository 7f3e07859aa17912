package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

// sendsFiles makes accounts of the kind plain send images of up to nine bytes.
func sendsFiles(o *Options) {
	o.Sending = func(string, json.RawMessage) Sending {
		return Sending{Types: []string{"text", "image"}, Files: []string{"image"}, Windowed: true, Prepare: func(out *Outgoing, _ *circulate.Message) error {
			if out.Type == "image" && (out.File == nil || out.File.Size > 9) {
				return errors.Join(accounts.Fault{Field: "data.file", Reason: "must have nine bytes at most"})
			}
			return nil
		}}
	}
}

func TestUpload(t *testing.T) {
	f, store := filesFixture(t)
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 201, nil)
	sum := sha256.Sum256([]byte("a cat"))
	digest := hex.EncodeToString(sum[:])
	r := f.request("POST", "/v1/files?account=a&name=cat.png&sha256="+strings.ToUpper(digest), "a cat")
	r.Header.Set("Content-Type", "image/png; q=1")
	var up UploadedFile
	if got := f.do(r); got.status != 201 || json.Unmarshal([]byte(got.body), &up) != nil {
		t.Fatalf("%d %s", got.status, got.body)
	}
	row, err := f.ring.Files().Look(t.Context(), false, up.ID)
	if err != nil || row[0].Name != "cat.png" || row[0].Type != "image/png" || row[0].Hash != digest || up.SHA256 != digest || up.Size != 5 || !up.Until.Equal(row[0].Found.Add(circulate.UploadLasts)) {
		t.Errorf("%+v, %+v, %v", up, row, err)
	}
	if e := f.trail("limit=1"); e[0].Action != "upload-file" || e[0].Account != "a" {
		t.Errorf("the trail has %+v", e)
	}
	for query, want := range map[string]string{"name=dog.PDF": "application/pdf", "name=dog.PDF&type=a/b": "a/b", "name=dog": ""} {
		up = UploadedFile{}
		f.call("POST", "/v1/files?account=a&"+query, "a dog", 201, &up)
		if up.Type != want {
			t.Errorf("%s: the type %q, want %q", query, up.Type, want)
		}
	}
	whole, other := base64.StdEncoding.EncodeToString(sum[:]), base64.StdEncoding.EncodeToString(append([]byte{sum[0] ^ 1}, sum[1:]...))
	for _, c := range []struct {
		query  string
		header http.Header
		status int
		where  string
	}{
		{"", http.Header{"Content-Digest": {"sha-256=:" + whole + ":"}}, 201, ""},
		{"", http.Header{"Repr-Digest": {"sha-256=:" + whole + ":"}}, 201, ""},
		{"&sha256=" + digest, http.Header{"Content-Digest": {"md5=:AA==:", "SHA-256=:" + whole + ":"}, "Repr-Digest": {"sha-256=:" + whole + ":"}}, 201, ""},
		{"", http.Header{"Content-Digest": {"sha-512=:AA==:"}, "Content-Encoding": {"identity"}}, 201, ""},
		{"", http.Header{"Content-Digest": {"sha-256=:" + other + ":"}}, 422, "body"},
		{"", http.Header{"Repr-Digest": {"sha-256=:" + other + ":"}}, 422, "body"},
		{"", http.Header{"Content-Digest": {"sha-256=:" + base64.StdEncoding.EncodeToString(sum[:31]) + ":"}}, 422, "header.Content-Digest"},
		{"", http.Header{"Content-Digest": {"sha-256=" + whole}}, 422, "header.Content-Digest"},
		{"", http.Header{"Repr-Digest": {"sha-256=:" + digest + ":"}}, 422, "header.Repr-Digest"},
		{"", http.Header{"Content-Digest": {"sha-256=:" + whole + ":"}, "Repr-Digest": {"sha-256=:" + other + ":"}}, 422, "header.Repr-Digest"},
		{"&sha256=" + digest, http.Header{"Content-Digest": {"sha-256=:" + other + ":"}}, 422, "header.Content-Digest"},
		{"", http.Header{"Content-Range": {"bytes 0-4/9"}}, 422, "header.Content-Range"},
		{"", http.Header{"Content-Encoding": {"gzip"}}, 422, "header.Content-Encoding"},
	} {
		r := f.request("POST", "/v1/files?account=a&name=digest"+c.query, "a cat")
		maps.Copy(r.Header, c.header)
		before := len(f.uploads())
		got := f.do(r)
		if got.status != c.status || !strings.Contains(got.body, c.where) || c.status == 422 && len(f.uploads()) != before {
			t.Errorf("%v: %d, want %d: %s", c, got.status, c.status, got.body)
		}
	}
	for query, want := range map[string]struct {
		status int
		where  string
	}{
		"":                     {422, "query.account"},
		"account=a&sha256=7":   {422, "query.sha256"},
		"account=a&colour=red": {422, "query.colour"},
		"account=b":            {404, ""},
		"account=a&sha256=" + strings.Repeat("0", 64): {422, "body"},
	} {
		got := f.errorReply("POST", "/v1/files?"+query, "a dog", want.status)
		if want.where != "" && (len(got.Errors) != 1 || got.Errors[0].Location != want.where) {
			t.Errorf("%s: %+v", query, got)
		}
	}
	for err, status := range map[error]int{circulate.ErrFilesFull: 507, circulate.ErrAccountFilesFull: 507, errors.New("sesame"): 503} {
		store.err = err
		if got := f.errorReply("POST", "/v1/files?account=a", "a dog", status); strings.Contains(got.Detail, "sesame") {
			t.Error(got.Detail)
		}
	}
}

// uploads returns the ids of all uploads.
func (f *fixture) uploads() (ids []string) {
	f.Helper()
	if err := f.ring.Files().Walk(f.T.Context(), func(some []circulate.File) error {
		for _, row := range some {
			if row.Holder == circulate.FileOfUpload {
				ids = append(ids, row.ID)
			}
		}
		return nil
	}); err != nil {
		f.Fatal(err)
	}
	return ids
}

// A send that names a file has its bytes from before it is queued. A send that is not queued leaves
// nothing.
func TestASendNamesAFile(t *testing.T) {
	store := &shelf{when: FilesAll, bytes: make(map[string]string)}
	f := newFixture(t, func(o *Options) {
		sendsFiles(o)
		store.ring, o.Files = o.Ring, store
	})
	for _, id := range []string{"a", "b"} {
		f.call("POST", "/v1/accounts", fmt.Sprintf(`{"id":%q,"kind":"plain"}`, id), 201, nil)
	}
	upload := func(account, content string) string {
		var up UploadedFile
		f.call("POST", "/v1/files?account="+account+"&name="+content, content, 201, &up)
		return up.ID
	}
	small, large, other := upload("a", "small"), upload("a", "much-too-large"), upload("b", "others")
	body := func(file string) string {
		return fmt.Sprintf(`{"to":"anna","type":"image","data":{"file":%q},"when":"open"}`, file)
	}
	rows := func() (n int) {
		if err := f.ring.Files().Walk(t.Context(), func(some []circulate.File) error {
			for _, row := range some {
				if row.Holder == circulate.FileOfSend {
					n++
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	var first, again Send
	f.send("a", "1", body(small), 202, &first)
	f.send("a", "1", body(small), 202, &again)
	if first.ID != again.ID || rows() != 1 {
		t.Errorf("%s, %s, %d files of sends", first.ID, again.ID, rows())
	}
	row, err := f.ring.Files().Look(t.Context(), false, circulate.NewFileID("a", circulate.FileOfSend, first.ID, 0))
	if err != nil || row[0].Name != "small" || store.bytes[row[0].Object] != "small" {
		t.Errorf("%+v, %v", row, err)
	}
	for _, file := range []string{large, other, "nothing", circulate.NewFileID("a", circulate.FileOfMessage, "m", 0)} {
		got := f.send("a", "2", body(file), 422, nil)
		if !strings.Contains(got.body, "body.data.file") {
			t.Errorf("%s: %s", file, got.body)
		}
	}
	f.send("a", "1", body(large), 409, nil)
	f.send("a", "3", strings.Replace(body(small), "open", "now", 1), 409, nil) // no window is known
	if n := rows(); n != 1 {
		t.Errorf("sends that were not queued left %d files", n-1)
	}
	if err := store.keep(t.Context(), "a", "m", 0, "of a message", "image/png", "carried"); err != nil {
		t.Fatal(err)
	}
	f.send("a", "4", body(circulate.NewFileID("a", circulate.FileOfMessage, "m", 0)), 202, nil)
	f.api.options.Files = nil
	if got := f.send("a", "5", body(small), 422, nil); !strings.Contains(got.body, "ROUNDS_FILES") {
		t.Error(got.body)
	}
}

// A reply with a send tells of its file. A caller who sees the send can read the file, and a small image
// of it.
func TestSendsTellTheirFiles(t *testing.T) {
	store := &shelf{when: FilesAll, bytes: make(map[string]string)}
	f := newFixture(t, func(o *Options) {
		o.Sending = func(string, json.RawMessage) Sending {
			return Sending{Types: []string{"text", "image"}, Files: []string{"image"}, Prepare: func(*Outgoing, *circulate.Message) error { return nil }}
		}
		store.ring, o.Files = o.Ring, store
	})
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain","labels":{"team":"x"}}`, 201, nil)
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 600, 300))); err != nil {
		t.Fatal(err)
	}
	var up UploadedFile
	f.call("POST", "/v1/files?account=a&name=cat.png&type=image/png", drawn.String(), 201, &up)
	var image, text, made, one Send
	f.send("a", "1", fmt.Sprintf(`{"to":"anna","type":"image","data":{"file":%q}}`, up.ID), 202, &image)
	f.send("a", "2", `{"to":"anna","data":{"text":"a cat","file":"none"}}`, 202, &text)
	var list SendList
	f.call("GET", "/v1/sends", "", 200, &list)
	var talk Conversations
	f.call("GET", "/v1/accounts/a/conversations", "", 200, &talk)
	f.call("GET", "/v1/sends/"+image.ID, "", 200, &one)
	for _, send := range list.Sends {
		if send.ID == image.ID {
			made = send
		} else if send.File != nil {
			t.Errorf("a text has a file: %+v", send.File)
		}
	}
	var said []*File
	for _, e := range talk.Entries {
		if e.Send != nil && e.Send.File != nil {
			said = append(said, e.Send.File)
		}
	}
	at := "/v1/sends/" + image.ID + "/file"
	want := File{ID: sendFileID("a", image.ID), Name: "cat.png", Type: "image/png", Size: int64(drawn.Len()), State: "kept", URL: at, Thumbnail: at + "/thumbnail"}
	for name, got := range map[string]*File{"the list": made.File, "the send": one.File, "the conversation": slices.Concat(said, []*File{nil})[0]} {
		if got == nil || *got != want {
			t.Errorf("%s has %+v", name, got)
		}
	}
	if got := f.do(f.request("GET", at, "")); got.status != 200 || got.body != drawn.String() || got.header.Get("Content-Disposition") != "attachment; filename=cat.png" {
		t.Errorf("%d, %d bytes, %v", got.status, len(got.body), got.header)
	}
	if got := f.do(f.request("GET", at+"/thumbnail", "")); got.status != 200 || got.header.Get("Content-Type") != "image/jpeg" || len(got.body) == drawn.Len() {
		t.Errorf("%d %v", got.status, got.header)
	}
	stranger := f.as(f.key(key.New{Name: "y", Role: access.Admin, Labels: access.Labels{"team": "y"}}))
	for _, path := range []string{at, at + "/thumbnail"} {
		stranger.errorReply("GET", path, "", 404)
		f.errorReply("GET", strings.Replace(path, image.ID, text.ID, 1), "", 404)
		f.errorReply("GET", strings.Replace(path, image.ID, "none", 1), "", 404)
	}
	clear(store.bytes)
	f.errorReply("GET", at, "", 410)
}

// Conversations say which types of sends are files, and whether files take captions. They do not where no
// files are kept.
func TestConversationsSayWhichFilesMayBeSent(t *testing.T) {
	captions := true
	store := &shelf{when: FilesAll, bytes: make(map[string]string)}
	f := newFixture(t, func(o *Options) {
		o.Sending = func(string, json.RawMessage) Sending {
			return Sending{Types: []string{"text", "image"}, Files: []string{"image"}, Prepare: func(o *Outgoing, _ *circulate.Message) error {
				if strings.Contains(string(o.Data), "caption") && !captions {
					return errors.Join(errors.New("data.caption: WeCom takes a file without a caption: send a text besides"))
				}
				return nil
			}}
		}
		store.ring, o.Files = o.Ring, store
	})
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 201, nil)
	read := func() (c Conversations) {
		t.Helper()
		f.call("GET", "/v1/accounts/a/conversations", "", 200, &c)
		return c
	}
	if c := read(); !slices.Equal(c.Files, []string{"image"}) || !c.Captions || c.FileMost != store.Most() {
		t.Errorf("with captions: %+v", c)
	}
	captions = false
	if c := read(); !slices.Equal(c.Files, []string{"image"}) || c.Captions {
		t.Errorf("without captions: %+v", c)
	}
	f.api.options.Files = nil
	if c := read(); len(c.Files) > 0 || c.FileMost != 0 {
		t.Errorf("without a store: %+v", c)
	}
}

// The reply to an upload has time of its own, however long the upload took.
func TestALongUploadIsAnswered(t *testing.T) {
	f, _ := filesFixture(t)
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 201, nil)
	server := httptest.NewUnstartedServer(f.api)
	server.Config.WriteTimeout = 1 // over as soon as the request's header is read
	server.Start()
	defer server.Close()
	reply, err := server.Client().Post(server.URL+"/v1/files?account=a", "text/plain", strings.NewReader("a cat"))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusCreated {
		t.Errorf("answered %d", reply.StatusCode)
	}
}

// Keys that may send upload for the accounts that they see, and for no others.
func TestUploadsAreBound(t *testing.T) {
	f, _ := filesFixture(t)
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain","labels":{"team":"x"}}`, 201, nil)
	f.call("POST", "/v1/accounts", `{"id":"b","kind":"plain","labels":{"team":"y"}}`, 201, nil)
	bound := f.as(f.key(key.New{Name: "x", Role: access.Sender, Labels: access.Labels{"team": "x"}}))
	bound.call("POST", "/v1/files?account=a", "bytes", 201, nil)
	bound.errorReply("POST", "/v1/files?account=b", "bytes", 404)
}
