// Package filestest is the suite that every store of files passes. It holds a store to what files.Store
// promises, and to a bound of its memory.
package filestest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rounds-dev/rounds/poller/files"
)

// Options say what is special about a store.
type Options struct {
	// Store is empty.
	Store files.Store
	// Part is the size above which the store stores a file in several parts; 0: it never does.
	Part int64
	// Memory is how many bytes a Put may need at once.
	Memory uint64
}

// Run holds a store to the suite.
func Run(t *testing.T, o Options) {
	s := suite{o.Store, o.Part}
	sizes := []int64{0, 1, 64 << 10, 64<<10 + 1}
	if o.Part > 0 {
		sizes = append(sizes, o.Part, o.Part+1)
	}
	for _, size := range sizes {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) { s.stores(t, size) })
	}
	t.Run("large", func(t *testing.T) { s.large(t, 20<<20, o.Memory) })
	t.Run("ranges", s.ranges)
	t.Run("the same bytes four times", s.same)
	t.Run("faults of the reader", s.readers)
	t.Run("what was expected", s.expected)
	t.Run("canceled", s.canceled)
	t.Run("names of others", s.names)
	t.Run("list", s.list)
	t.Run("check", s.check)
}

type suite struct {
	store files.Store
	part  int64
}

// Bytes returns bytes that follow from a seed.
func Bytes(seed byte, size int64) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b) // it cannot fail
	return b
}

func sum(b []byte) string {
	hash := sha256.Sum256(b)
	return hex.EncodeToString(hash[:])
}

// put stores bytes.
func (s suite) put(t *testing.T, b []byte) files.Object {
	t.Helper()
	o, err := s.store.Put(t.Context(), bytes.NewReader(b), files.Want{})
	if err != nil {
		t.Fatal(err)
	}
	if o.SHA256 != sum(b) || o.Size != int64(len(b)) {
		t.Fatalf("got %+v for %d bytes with SHA-256 %s", o, len(b), sum(b))
	}
	if hash, ok := files.HashOf(o.Name); !ok || hash != o.SHA256 {
		t.Fatalf("%q is no name for SHA-256 %s", o.Name, o.SHA256)
	}
	return o
}

// get reads an object.
func (s suite) get(t *testing.T, name string) []byte {
	t.Helper()
	r, err := s.store.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if r.Object().Name != name || r.Object().Size != int64(len(b)) || r.Object().Modified.IsZero() {
		t.Errorf("%s has %d bytes and is described as %+v", name, len(b), r.Object())
	}
	return b
}

// remove removes an object, and finds it gone.
func (s suite) remove(t *testing.T, name string) {
	t.Helper()
	for range 2 { // the second time there is none
		if err := s.store.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := s.store.Open(t.Context(), name); !errors.Is(err, files.ErrNotFound) {
		t.Fatalf("a removed object is opened: %v, %v", r, err)
	}
}

// all returns every object by its name.
func (s suite) all(t *testing.T) map[string]files.Object {
	t.Helper()
	all := make(map[string]files.Object)
	for o, err := range s.store.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all[o.Name] = o
	}
	return all
}

// empty demands that a failed Put has left nothing, not even under a temporary name.
func (s suite) empty(t *testing.T) {
	t.Helper()
	if all := s.all(t); len(all) > 0 {
		t.Errorf("there are %v", all)
	}
	if n, err := s.store.Tidy(t.Context(), time.Now().Add(time.Hour)); n != 0 || err != nil {
		t.Errorf("tidied %d leftovers, %v", n, err)
	}
}

func (s suite) stores(t *testing.T, size int64) {
	b := Bytes(1, size)
	o := s.put(t, b)
	if got := s.get(t, o.Name); !bytes.Equal(got, b) {
		t.Errorf("got other bytes, %d of %d", len(got), size)
	}
	s.remove(t, o.Name)
	s.empty(t)
}

// drawn reads bytes that follow from a seed, and looks at the memory now and then.
type drawn struct {
	from *rand.ChaCha8
	left int64
	next int64
	most uint64
}

// Read implements io.Reader.
func (d *drawn) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	if d.left <= d.next {
		d.next = d.left - 4<<20
		d.most = max(d.most, live())
	}
	n, err := d.from.Read(p[:min(int64(len(p)), d.left)])
	d.left -= int64(n)
	return n, err
}

// live returns how many bytes are in use.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (s suite) large(t *testing.T, size int64, memory uint64) {
	before := live()
	from := &drawn{from: rand.NewChaCha8([32]byte{2}), left: size, next: size}
	o, err := s.store.Put(t.Context(), from, files.Want{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes needed %d bytes of memory", size, int64(from.most)-int64(before))
	if from.most > before+memory {
		t.Errorf("%d bytes needed %d bytes of memory, and %d are allowed", size, from.most-before, memory)
	}
	r, err := s.store.Open(t.Context(), o.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	hash := sha256.New()
	if n, err := io.Copy(hash, r); n != size || err != nil || hex.EncodeToString(hash.Sum(nil)) != o.SHA256 {
		t.Errorf("read %d bytes of %d, %v", n, size, err)
	}
	s.remove(t, o.Name)
	s.empty(t)
}

// ranges are read by seeking, at several places at once, and over HTTP.
func (s suite) ranges(t *testing.T) {
	b := Bytes(3, 100_000)
	o := s.put(t, b)
	r, err := s.store.Open(t.Context(), o.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for _, at := range []int64{99_990, 0, 50_000, 50_000, 99_999, 100_000} {
		if got, err := r.Seek(at, io.SeekStart); got != at || err != nil {
			t.Fatalf("sought %d: %d, %v", at, got, err)
		}
		got, err := io.ReadAll(io.LimitReader(r, 10))
		if err != nil || !bytes.Equal(got, b[at:min(at+10, int64(len(b)))]) {
			t.Errorf("from %d: %d bytes, %v", at, len(got), err)
		}
	}
	if size, err := r.Seek(0, io.SeekEnd); size != o.Size || err != nil {
		t.Errorf("sought the end: %d, %v", size, err)
	}
	if _, err := r.Seek(-1, io.SeekStart); err == nil {
		t.Error("sought before the beginning")
	}
	var readers sync.WaitGroup
	for _, at := range []int64{0, 7, 65_530, 99_995, 100_000, 200_000} {
		readers.Go(func() {
			got := make([]byte, 10)
			n, err := r.ReadAt(got, at)
			want := b[min(at, int64(len(b))):min(at+10, int64(len(b)))]
			if !bytes.Equal(got[:n], want) || (n < len(got)) != errors.Is(err, io.EOF) || n == len(got) && err != nil {
				t.Errorf("at %d: %d bytes, %v", at, n, err)
			}
		})
	}
	readers.Wait()
	for header, want := range map[string]string{"bytes=5-9": string(b[5:10]), "bytes=-4": string(b[len(b)-4:])} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		request.Header.Set("Range", header)
		reply := httptest.NewRecorder()
		http.ServeContent(reply, request, "", r.Object().Modified, r)
		if reply.Code != http.StatusPartialContent || reply.Body.String() != want {
			t.Errorf("%s: %d with %d bytes", header, reply.Code, reply.Body.Len())
		}
	}
	s.remove(t, o.Name)
}

func (s suite) same(t *testing.T) {
	b := Bytes(4, 100_000)
	names := make(chan string, 4)
	var puts sync.WaitGroup
	for range cap(names) {
		puts.Go(func() {
			o, err := s.store.Put(t.Context(), bytes.NewReader(b), files.Want{SHA256: sum(b)})
			if err != nil {
				t.Error(err)
			}
			names <- o.Name
		})
	}
	puts.Wait()
	if all := s.all(t); len(all) != cap(names) {
		t.Errorf("there are %d objects", len(all))
	}
	for range cap(names) {
		name := <-names
		if !bytes.Equal(s.get(t, name), b) {
			t.Errorf("%s has other bytes", name)
		}
		s.remove(t, name)
	}
	s.empty(t)
}

func (s suite) readers(t *testing.T) {
	broken := errors.New("the third party hung up")
	for _, size := range []int64{0, 1, 100_000, s.part + 1} {
		_, err := s.store.Put(t.Context(), io.MultiReader(bytes.NewReader(Bytes(5, size)), iotest.ErrReader(broken)), files.Want{})
		if at, ok := errors.AsType[*files.ReadError](err); !ok || !errors.Is(at, broken) {
			t.Errorf("after %d bytes: %v", size, err)
		}
		// A cut connection is no end, whatever it wraps.
		_, err = s.store.Put(t.Context(), io.MultiReader(bytes.NewReader(Bytes(5, size)), iotest.ErrReader(fmt.Errorf("cut: %w", io.EOF))), files.Want{})
		if _, ok := errors.AsType[*files.ReadError](err); !ok {
			t.Errorf("after %d bytes: %v", size, err)
		}
	}
	s.empty(t)
}

func (s suite) expected(t *testing.T) {
	b := Bytes(6, 1000)
	for _, c := range []struct {
		want files.Want
		err  error
	}{
		{files.Want{Most: 1000, SHA256: sum(b)}, nil},
		{files.Want{Most: 999}, files.ErrTooLarge},
		{files.Want{SHA256: sum(b[1:])}, files.ErrDiffers},
		{files.Want{SHA256: "?"}, files.ErrDiffers},
	} {
		o, err := s.store.Put(t.Context(), iotest.OneByteReader(bytes.NewReader(b)), c.want)
		if !errors.Is(err, c.err) {
			t.Errorf("%+v: %v", c.want, err)
		}
		if err == nil {
			s.remove(t, o.Name)
		}
	}
	s.empty(t)
}

func (s suite) canceled(t *testing.T) {
	why := errors.New("the lease has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	n := 0
	endless := readerFunc(func(p []byte) (int, error) {
		if n++; n == 3 {
			cancel(why)
		}
		return len(p), nil
	})
	if _, err := s.store.Put(ctx, endless, files.Want{}); !errors.Is(err, why) {
		t.Error(err)
	}
	s.empty(t)
}

type readerFunc func(p []byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// names of others reach nothing, whatever they look like.
func (s suite) names(t *testing.T) {
	o := s.put(t, []byte("x"))
	for _, name := range []string{"", "tmp", "../" + o.Name, o.Name + "/", "/" + o.Name, o.Name[:len(o.Name)-1], o.Name + "a", "00" + o.Name[2:], files.NewTemp(), files.NewName(o.SHA256)} {
		if _, err := s.store.Open(t.Context(), name); !errors.Is(err, files.ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
		if err := s.store.Remove(t.Context(), name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if got := s.get(t, o.Name); string(got) != "x" {
		t.Errorf("got %q", got)
	}
	s.remove(t, o.Name)
}

func (s suite) list(t *testing.T) {
	want := make(map[string]int64)
	for n := range byte(5) {
		o := s.put(t, Bytes(10+n, int64(n)))
		want[o.Name] = o.Size
	}
	all := s.all(t)
	if len(all) != len(want) {
		t.Errorf("got %d objects of %d", len(all), len(want))
	}
	for name, size := range want {
		if o := all[name]; o.Size != size || o.Modified.IsZero() || name[3:67] != o.SHA256 {
			t.Errorf("%s with %d bytes is listed as %+v", name, size, o)
		}
	}
	for _, err := range s.store.List(t.Context()) {
		if err != nil {
			t.Error(err)
		}
		break // whoever has seen enough may stop
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	failed := false
	for _, err := range s.store.List(ctx) {
		failed = failed || err != nil
	}
	if !failed {
		t.Error("a canceled list seems complete")
	}
	for name := range want {
		s.remove(t, name)
	}
}

func (s suite) check(t *testing.T) {
	room, err := s.store.Check(t.Context())
	if err != nil || room.Known && room.Free <= 0 || s.store.String() == "" {
		t.Errorf("%s: %+v, %v", s.store, room, err)
	}
	s.empty(t)
}
