package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// pack returns a text in a coding.
func pack(t *testing.T, coding string, text []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	var into io.WriteCloser
	switch coding {
	case "gzip":
		into = gzip.NewWriter(&packed)
	case "br":
		into = brotli.NewWriterOptions(&packed, brotli.WriterOptions{Quality: 5, LGWin: 24})
	case "zstd":
		encoder, err := zstd.NewWriter(&packed, zstd.WithWindowSize(zstdWindow), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		into = encoder
	default:
		return text
	}
	if _, err := into.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := into.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// Answers that brotli 1.0.9 and zstd 1.5.4 have packed are read, by held calls and others, whatever
// their status, and also behind a redirect to another origin. Their header then does not mention
// the coding any more.
func TestPackedAnswersAreRead(t *testing.T) {
	const text = "hello, reader of feeds"
	for packed, coding := range map[string]string{
		"IVQABGhlbGxvLCByZWFkZXIgb2YgZmVlZHMD":                           "br",
		"jwqAaGVsbG8sIHJlYWRlciBvZiBmZWVkcwM=":                           "br",
		"KLUv/SAWsQAAaGVsbG8sIHJlYWRlciBvZiBmZWVkcw==":                   "zstd",
		"KLUv/SAWsQAAaGVsbG8sIHJlYWRlciBvZiBmZWVkcw==KLUv":               "zstd, of which another begins",
		base64.StdEncoding.EncodeToString(pack(t, "gzip", []byte(text))): "GZIP",
		base64.StdEncoding.EncodeToString([]byte(text)):                  "identity",
	} {
		body, err := base64.StdEncoding.DecodeString(strings.SplitAfter(packed, "==")[0])
		if err != nil {
			t.Fatal(err)
		}
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if accepted := r.Header.Get("Accept-Encoding"); accepted != "gzip, br, zstd" {
				t.Errorf("%s: asked for %q", r.URL.Path, accepted)
			}
			coding, _, _ := strings.Cut(coding, ",")
			w.Header().Set("Content-Encoding", coding)
			if r.URL.Path == "/missing" {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = w.Write(body)
		})
		away := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, http.StatusFound) })
		for _, call := range []Call{{URL: url}, {URL: url, Held: true}, {URL: url + "/missing"}, {URL: away, MaxRedirects: 1}} {
			got, err := client(t, Options{}).Do(t.Context(), call)
			if err != nil || string(got.Body) != text || coding != "identity" && (got.Header.Get("Content-Encoding") != "" || got.Header.Get("Content-Length") != "") {
				t.Errorf("%s, %+v: got %v, %v", coding, call, got, err)
			}
		}
	}
}

// The size of an answer is that of its unpacked text.
func TestPackedBodyLimit(t *testing.T) {
	for _, coding := range []string{"gzip", "br", "zstd"} {
		for most, sizes := range map[int64][]int{1000: {999, 1000, 1001, 5 << 20}, 1 << 20: {smallBody, smallBody + 1, 1 << 20, 1<<20 + 1, 20 << 20}} {
			for _, size := range sizes {
				packed := pack(t, coding, make([]byte, size))
				url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Encoding", coding)
					_, _ = w.Write(packed)
				})
				c := client(t, Options{})
				got, err := c.Do(t.Context(), Call{URL: url, MaxBody: most})
				switch {
				case size > int(most) && !errors.Is(err, ErrTooLarge), size <= int(most) && (err != nil || len(got.Body) != size):
					t.Errorf("%s, %d of %d: got %v", coding, size, most, err)
				}
				if !c.room.answers.TryAcquire(answerRoom) || !c.room.large.TryAcquire(largeRoom) {
					t.Errorf("%s, %d of %d: room is lost", coding, size, most)
				}
			}
		}
		noise := make([]byte, 300<<10)
		_, _ = rand.Read(noise)
		for most, fits := range map[int64]bool{1 << 20: true, 200 << 10: false} {
			packed := pack(t, coding, noise)
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", coding)
				_, _ = w.Write(packed)
			})
			got, err := client(t, Options{}).Do(t.Context(), Call{URL: url, MaxBody: most})
			if fits && (err != nil || !bytes.Equal(got.Body, noise)) || !fits && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s, noise: got %v", coding, err)
			}
		}
	}
}

func TestBrokenPacking(t *testing.T) {
	text := []byte(strings.Repeat("hello, reader of feeds", 1000))
	zeros := pack(t, "zstd", make([]byte, 3<<20))
	huge := bytes.Clone(zeros)
	huge[5] = 0x88 // a window of 128 MiB, for which zstd --long=27 asks
	for name, c := range map[string]struct {
		coding string
		body   []byte
	}{
		"br, cut":            {"br", pack(t, "br", text)[:20]},
		"br, with a tail":    {"br", append(pack(t, "br", text), "tail"...)},
		"br, none":           {"br", []byte("<rss></rss>")},
		"zstd, cut":          {"zstd", pack(t, "zstd", text)[:20]},
		"zstd, none":         {"zstd", []byte("<rss></rss>")},
		"zstd, huge windows": {"zstd", huge},
	} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", c.coding)
			if r.URL.Path == "/missing" {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = w.Write(c.body)
		})
		var failed *Error
		if got, err := client(t, Options{}).Do(t.Context(), Call{URL: url}); !errors.As(err, &failed) || failed.Code != CodeHTTP || !strings.Contains(err.Error(), "compression") {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
		if got, err := client(t, Options{}).Do(t.Context(), Call{URL: url + "/missing"}); err != nil || got.Status != http.StatusNotFound {
			t.Errorf("%s: %v, %v; only the status counts", name, got, err)
		}
	}
}

// A few bytes can ask for a large window. The size of a window is bounded, and so is the number of
// windows in use. A slow host has none while it sends.
func TestWindowsAreBounded(t *testing.T) {
	for _, coding := range []string{"br", "zstd"} {
		packed := pack(t, coding, make([]byte, 20<<20))
		asked, rest := make(chan struct{}), make(chan struct{})
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", coding)
			_, _ = w.Write(packed[:len(packed)/2])
			_ = http.NewResponseController(w).Flush()
			close(asked)
			<-rest
			_, _ = w.Write(packed[len(packed)/2:])
		})
		c := client(t, Options{})
		done := make(chan error)
		go func() {
			_, err := c.Do(t.Context(), Call{URL: url})
			done <- err
		}()
		<-asked
		if !c.room.large.TryAcquire(largeRoom) {
			t.Errorf("%s: a slow host has room", coding)
		}
		close(rest)
		c.room.large.Release(largeRoom)
		if err := <-done; !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: got %v", coding, err)
		}

		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.unpack(t.Context(), coding, packed, smallBody)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrTooLarge) || took > unpackRoom {
			t.Errorf("%s: %d bytes gave %v and took %d KiB, want %d at most", coding, len(packed), err, took>>10, unpackRoom>>10)
		}

		taken, err := c.Reserve(t.Context(), largeRoom)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := c.unpack(ctx, coding, packed, smallBody); !errors.Is(err, ErrBusy) {
			t.Errorf("%s: without room: %v", coding, err)
		}
		cancel()
		taken()
	}
}

// Whatever a host packs, the answer is at most as large as wanted, or the error says why it is not.
func FuzzUnpack(f *testing.F) {
	for _, seed := range []string{"IVQABGhlbGxvLCByZWFkZXIgb2YgZmVlZHMD", "KLUv/SAWsQAAaGVsbG8sIHJlYWRlciBvZiBmZWVkcw=="} {
		packed, err := base64.StdEncoding.DecodeString(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	c := New(Options{})
	f.Fuzz(func(t *testing.T, packed []byte) {
		for _, coding := range []string{"br", "zstd"} {
			body, err := c.unpack(t.Context(), coding, packed, 1<<20)
			if len(body) > 1<<20 || err != nil && !errors.Is(err, ErrTooLarge) && !errors.Is(err, errCoding) {
				t.Errorf("%s: %d bytes, %v", coding, len(body), err)
			}
		}
	})
}

// A call that wants no body returns the head of one that is plain or packed by gzip, and reads none
// of it otherwise.
func TestTheHeadOfABody(t *testing.T) {
	for _, c := range []struct {
		coding string
		head   int
		want   string
	}{{"", 5, "hello"}, {"gzip", 5, "hello"}, {"", 0, ""}, {"br", 5, ""}, {"", 100, "hello, reader"}} {
		site := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if c.coding != "" {
				w.Header().Set("Content-Encoding", c.coding)
			}
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write(pack(t, c.coding, []byte("hello, reader")))
		})
		answer, err := client(t, Options{}).Do(t.Context(), Call{URL: site, NoBody: true, Head: c.head})
		if err != nil || answer.Status != http.StatusBadRequest || string(answer.Body) != c.want {
			t.Errorf("%q, %d bytes: %+v, %v", c.coding, c.head, answer, err)
		}
	}
}
