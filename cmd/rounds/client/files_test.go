package client

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A download that breaks off goes on where it stopped, and its bytes are verified.
func TestFileGoesOn(t *testing.T) {
	content := strings.Repeat("0123456789", 10_000)
	var asked atomic.Int32
	tag := tagOf(content)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		switch r.URL.Path {
		case "/pending":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, `{"n":0,"state":"waiting","retry_after":5}`)
			return
		case "/wrong":
			w.Header().Set("ETag", tagOf("other"))
			fmt.Fprint(w, content)
			return
		case "/gone":
			http.Error(w, "gone", http.StatusGone)
			return
		}
		w.Header().Set("ETag", tag)
		if n == 1 && r.Header.Get("Range") != "" {
			t.Error("the first request has a range")
		}
		if n < 4 {
			w = &torn{w, 30_000}
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
	}))
	defer server.Close()
	c := New(server.URL, "")
	c.firstPause = time.Millisecond
	defer c.Close()
	var got bytes.Buffer
	size, err := c.File(t.Context(), "/file", &got)
	if err != nil || size != int64(len(content)) || got.String() != content || asked.Load() != 4 {
		t.Errorf("%d bytes in %d requests, %v", size, asked.Load(), err)
	}
	if _, err := c.File(t.Context(), "/pending", &got); err == nil || err.Error() != "the file is still being fetched" {
		t.Error(err)
	}
	if _, err := c.File(t.Context(), "/wrong", &got); !errors.Is(err, errOther) {
		t.Error(err)
	}
	if _, err := c.File(t.Context(), "/gone", &got); Status(err) != http.StatusGone {
		t.Error(err)
	}
}

func tagOf(content string) string { return fmt.Sprintf("\"%x\"", sha256.Sum256([]byte(content))) }

// torn is a reply whose connection breaks after some bytes.
type torn struct {
	http.ResponseWriter
	left int
}

func (w *torn) Write(p []byte) (int, error) {
	n, _ := w.ResponseWriter.Write(p[:min(len(p), w.left)])
	if w.left -= n; w.left == 0 {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// An upload that breaks off is made again, with all bytes and their digest. A refusal ends it.
func TestUploadIsRepeated(t *testing.T) {
	content := strings.Repeat("0123456789", 10_000)
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if q := r.URL.Query(); err != nil || string(body) != content || r.ContentLength != int64(len(content)) || q.Get("sha256") != strings.Trim(tagOf(content), `"`) || q.Get("name") != "a b" {
			t.Errorf("%d bytes of %d, %v: %s", len(body), r.ContentLength, err, r.URL)
		}
		switch {
		case r.URL.Query().Get("account") == "none":
			http.Error(w, "none", http.StatusNotFound)
		case asked.Add(1) < 3:
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"id":"f1"}`)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer server.Close()
	c := New(server.URL, "")
	c.firstPause = time.Millisecond
	defer c.Close()
	f, err := c.Upload(t.Context(), "a", "a b", "text/plain", strings.NewReader(content))
	if err != nil || f.ID != "f1" || asked.Load() != 3 {
		t.Errorf("%+v, %v, after %d requests", f, err, asked.Load())
	}
	if _, err := c.Upload(t.Context(), "none", "a b", "", strings.NewReader(content)); Status(err) != http.StatusNotFound {
		t.Error(err)
	}
}
