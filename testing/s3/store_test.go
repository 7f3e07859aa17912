//go:build night

package s3test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/poller/files"
	"github.com/rounds-dev/rounds/poller/files/s3"
	"github.com/rounds-dev/rounds/testing/filestest"
	"github.com/rounds-dev/rounds/testing/versitygw"
)

// partSize is the size from which an object is uploaded in parts.
const partSize = 5 << 20

// server is the server of all tests, each of which has a prefix of its own.
var server *versitygw.Server

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "s3")
	if err == nil {
		server, err = versitygw.Launch(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		server.Close()
		_ = os.RemoveAll(dir) // what stays is in a temporary directory
		os.Exit(code)
	}), goleak.IgnoreCurrent())
}

// Store returns a store with a prefix of its own. The URL is the server's or a proxy's.
func Store(t testing.TB, url, prefix string) *s3.Store {
	t.Helper()
	store, err := s3.New(Options(url, prefix))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// Options are those of Store.
func Options(url, prefix string) s3.Options {
	return s3.Options{Endpoint: url, Region: versitygw.Region, Bucket: versitygw.Bucket, Prefix: prefix, AccessKey: versitygw.AccessKey, SecretKey: versitygw.SecretKey}
}

func TestStore(t *testing.T) {
	filestest.Run(t, filestest.Options{Store: Store(t, server.URL, "suite"), Part: partSize, Memory: partSize + 1<<20})
}

// A bucket may be the store's alone.
func TestWithoutPrefix(t *testing.T) {
	store := Store(t, server.URL, "")
	o, err := store.Put(t.Context(), strings.NewReader("x"), files.Want{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(server.Dir, o.Name)); err != nil {
		t.Error(err)
	}
	if got := listed(t, store); !slices.Equal(got, []string{o.Name}) {
		t.Errorf("got %v", got)
	}
	if err := store.Remove(t.Context(), o.Name); err != nil {
		t.Error(err)
	}
}

// listed returns the names of all objects.
func listed(t *testing.T, store files.Store) (names []string) {
	t.Helper()
	for o, err := range store.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, o.Name)
	}
	return names
}

// stored returns the paths of all objects that the server has below a prefix, temporary ones among them.
func stored(t *testing.T, prefix string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(server.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.Contains(path, prefix) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// puts are the requests of a Put, for a file of one part and for one of two.
var puts = map[int64][]string{
	1000:         {"PUT"},
	partSize + 1: {"POST uploads", "PUT partNumber uploadId", "PUT partNumber uploadId", "POST uploadId", "PUT copy", "HEAD", "DELETE"},
}

// each runs a test for each request of each Put, with a prefix of its own.
func each(t *testing.T, test func(t *testing.T, prefix string, content []byte, number int)) {
	for size, requests := range puts {
		content := filestest.Bytes(1, size)
		for n, request := range requests {
			t.Run(fmt.Sprintf("%d bytes, %s %d", size, request, n+1), func(t *testing.T) {
				t.Parallel()
				test(t, fmt.Sprintf("%s-%d-%d", strings.ToLower(strings.Split(t.Name(), "/")[0]), size, n+1), content, n+1)
			})
		}
	}
}

func TestRequests(t *testing.T) {
	for size, want := range puts {
		proxy := NewProxy(t, server.URL, func(int, *http.Request) Fault { return None })
		if _, err := Store(t, proxy.URL, "requests").Put(t.Context(), bytes.NewReader(filestest.Bytes(1, size)), files.Want{}); err != nil {
			t.Error(err)
		}
		if got := proxy.Requests(); !slices.Equal(got, want) {
			t.Errorf("%d bytes: got %q", size, got)
		}
	}
}

// The file is stored once although a request, or its answer, does not arrive.
func TestFaults(t *testing.T) {
	each(t, func(t *testing.T, prefix string, content []byte, number int) {
		faults := []Fault{Lose}
		if number <= 2 {
			faults = append(faults, Drop)
		}
		for _, fault := range faults {
			prefix := fmt.Sprintf("%s-%d", prefix, fault)
			proxy := NewProxy(t, server.URL, func(n int, _ *http.Request) Fault {
				if n == number {
					return fault
				}
				return None
			})
			store := Store(t, proxy.URL, prefix)
			o, err := store.Put(t.Context(), bytes.NewReader(content), files.Want{})
			if err != nil {
				t.Error(err)
				continue
			}
			if got := listed(t, store); !slices.Equal(got, []string{o.Name}) {
				t.Errorf("got %v", got)
			}
			whole(t, prefix, o.Name, content)
			left := 0
			if len(content) > partSize && number == 1 && fault == Lose {
				left = 1 // an upload whose id nobody has learned
			}
			if n, err := store.Tidy(t.Context(), time.Now().Add(time.Hour)); n != left || err != nil {
				t.Errorf("tidied %d leftovers and not %d, %v", n, left, err)
			}
			if got := stored(t, prefix); len(got) != 1 {
				t.Errorf("there are %v", got)
			}
		}
	})
}

// whole demands that an object has its bytes.
func whole(t *testing.T, prefix, name string, content []byte) {
	t.Helper()
	if got, err := os.ReadFile(filepath.Join(server.Dir, prefix, name)); !bytes.Equal(got, content) {
		t.Errorf("%s has %d bytes and not %d, %v", name, len(got), len(content), err)
	}
}

// A process may be killed after any request, before it sees the answer. It leaves a complete object or
// none, and Tidy removes the rest.
func TestKilled(t *testing.T) {
	each(t, func(t *testing.T, prefix string, content []byte, number int) {
		ctx, cancel := context.WithCancel(t.Context())
		proxy := NewProxy(t, server.URL, func(n int, _ *http.Request) Fault {
			switch {
			case n < number:
				return None
			case n == number:
				return Lose
			}
			return Drop
		})
		proxy.Lost = cancel
		o, err := Store(t, proxy.URL, prefix).Put(ctx, bytes.NewReader(content), files.Want{})
		if last := number == 7; (err == nil) != last { // the last one removes the temporary object
			t.Errorf("it was stored as %q, %v", o.Name, err)
		}
		store := Store(t, server.URL, prefix)
		objects := listed(t, store)
		if len(objects) > 1 {
			t.Errorf("got %v", objects)
		}
		for _, name := range objects {
			whole(t, prefix, name, content)
		}
		if n, err := store.Tidy(t.Context(), time.Now().Add(-files.LeftoverAge)); n != 0 || err != nil {
			t.Errorf("tidied %d leftovers of today, %v", n, err)
		}
		left := 0
		if len(content) > partSize && number < 7 {
			left = 1 // an upload or a temporary object
		}
		if n, err := store.Tidy(t.Context(), time.Now().Add(time.Hour)); n != left || err != nil {
			t.Errorf("tidied %d leftovers and not %d, %v", n, left, err)
		}
		if got := stored(t, prefix); len(got) != len(objects) {
			t.Errorf("there are %v", got)
		}
	})
}

// Services may not know a completed upload when they are asked to complete it again. Then the object is looked up.
func TestCompletedUnseen(t *testing.T) {
	completed := false
	proxy := NewProxy(t, server.URL, func(_ int, r *http.Request) Fault {
		switch {
		case r.Method != http.MethodPost || !r.URL.Query().Has("uploadId"):
			return None
		case completed:
			return Forget
		}
		completed = true
		return Lose
	})
	content := filestest.Bytes(1, partSize+1)
	o, err := Store(t, proxy.URL, "unseen").Put(t.Context(), bytes.NewReader(content), files.Want{})
	if err != nil {
		t.Fatal(err)
	}
	whole(t, "unseen", o.Name, content)
}

// A server that is killed between two parts of a file, and started again, gets the rest.
func TestServerKilled(t *testing.T) {
	own, err := versitygw.Launch(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	content := filestest.Bytes(1, partSize+1)
	parts := io.MultiReader(bytes.NewReader(content[:partSize]), once(func() error { return own.Restart() }), bytes.NewReader(content[partSize:]))
	store := Store(t, own.URL, "killed")
	o, err := store.Put(t.Context(), parts, files.Want{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(own.Dir, "killed", o.Name)); !bytes.Equal(got, content) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// once is a reader of nothing, which does something.
type once func() error

// Read implements io.Reader.
func (do once) Read([]byte) (int, error) {
	if err := do(); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// A service that is overloaded is asked again.
func TestOverloaded(t *testing.T) {
	proxy := NewProxy(t, server.URL, func(n int, _ *http.Request) Fault {
		if n%2 == 1 {
			return Refuse
		}
		return None
	})
	store := Store(t, proxy.URL, "overloaded")
	o, err := store.Put(t.Context(), strings.NewReader("x"), files.Want{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Remove(t.Context(), o.Name); err != nil {
		t.Error(err)
	}
}

// A read goes on after its connection broke, and fails if it breaks again and again.
func TestCutReads(t *testing.T) {
	content := filestest.Bytes(1, 300_000)
	o, err := Store(t, server.URL, "cut").Put(t.Context(), bytes.NewReader(content), files.Want{})
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	halves := NewProxy(t, server.URL, func(_ int, r *http.Request) Fault {
		if r.Method == http.MethodGet {
			if reads++; reads < 4 {
				return Halve
			}
		}
		return None
	})
	r, err := Store(t, halves.URL, "cut").Open(t.Context(), o.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); !bytes.Equal(got, content) || err != nil || reads != 4 {
		t.Errorf("got %d bytes by %d requests, %v", len(got), reads, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	none := NewProxy(t, server.URL, func(_ int, r *http.Request) Fault {
		if r.Method != http.MethodGet {
			return None
		}
		cancel() // it would be tried for some seconds otherwise
		return Drop
	})
	if r, err = Store(t, none.URL, "cut").Open(ctx, o.Name); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); len(got) > 0 || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// An error says where the bucket is and what to do, and shows no key, even if the service does.
func TestErrors(t *testing.T) {
	talkative := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>%s does not sign with %s</Message></Error>", versitygw.AccessKey, versitygw.SecretKey)
	}))
	t.Cleanup(talkative.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		change func(o *s3.Options)
		want   string
	}{
		"bucket":      {func(o *s3.Options) { o.Bucket = "no-such-bucket" }, "NoSuchBucket"},
		"secret":      {func(o *s3.Options) { o.SecretKey = "wrong-horse" }, "see ROUNDS_FILES_ACCESS_KEY and ROUNDS_FILES_SECRET_KEY"},
		"access key":  {func(o *s3.Options) { o.AccessKey = "AKIANOBODY" }, "No user exists with the provided access key ID"},
		"region":      {func(o *s3.Options) { o.Region = "mars-1" }, "see region and endpoint in ROUNDS_FILES"},
		"talkative":   {func(o *s3.Options) { o.Endpoint = talkative.URL }, "does not sign with"},
		"unreachable": {func(o *s3.Options) { o.Endpoint = gone.URL }, "connection refused; see ROUNDS_FILES and the network"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options(server.URL, "errors")
			c.change(&o)
			store, err := s3.New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			_, checked := func() (files.Room, error) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return store.Check(ctx)
			}()
			host := strings.TrimPrefix(o.Endpoint, "http://")
			if checked == nil || !strings.HasPrefix(checked.Error(), "files bucket "+o.Bucket+" at "+host+": cannot store a file: ") || !strings.Contains(checked.Error(), c.want) {
				t.Errorf("got %v", checked)
			}
			if name != "unreachable" {
				// A bucket that is missing or closed says nothing about its objects.
				_, opened := store.Open(t.Context(), files.NewName(strings.Repeat("0", 64)))
				if opened == nil || errors.Is(opened, files.ErrNotFound) {
					t.Errorf("opened: %v", opened)
				}
				checked = errors.Join(checked, opened)
			}
			for _, key := range []string{o.AccessKey, o.SecretKey} {
				if strings.Contains(checked.Error(), key) {
					t.Errorf("%v has %s", checked, key)
				}
			}
		})
	}
}
