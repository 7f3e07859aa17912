package command

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/poller/files"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// stored is the API's view of a store whose messages carry no files, and into which nobody uploads any.
type stored struct {
	api.FileStore // nil
	store         files.Store
}

func (stored) Carried(string, *circulate.Message) []api.CarriedFile { return nil }
func (stored) When(context.Context, string) string                  { return api.FilesAll }
func (stored) Most() int64                                          { return 1 << 20 }
func (stored) Fetch(context.Context, *circulate.Found, int) error   { return api.ErrNoFile }
func (s stored) Open(ctx context.Context, name string) (io.ReadSeekCloser, error) {
	reader, err := s.store.Open(ctx, name)
	if errors.Is(err, files.ErrNotFound) {
		return nil, api.ErrNoFile
	}
	return reader, err
}

// A backup takes the bytes of files along if it is asked to, each once and only new ones, and restore
// stores them where ROUNDS_FILES says.
func TestBackupTakesFilesAlong(t *testing.T) {
	store, err := files.OpenDirectory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := startAPI(t, func(o *api.Options) { o.Files = stored{store: store} })
	keep := func(place int, content string) string {
		object, err := store.Put(t.Context(), strings.NewReader(content), files.Want{})
		if err != nil {
			t.Fatal(err)
		}
		list := s.ring.Files()
		now, err := list.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		name, err := list.Keep(t.Context(), circulate.File{
			ID: circulate.NewFileID("a", circulate.FileOfMessage, "1", place), Account: "a", Kind: "feed", Holder: circulate.FileOfMessage, Of: "1", Place: place,
			Hash: object.SHA256, Size: object.Size, Object: object.Name, Found: now,
		}, circulate.Keeping{Began: now})
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	keep(0, "one")
	keep(1, "one")
	lost := keep(2, "lost")
	file, dir := filepath.Join(t.TempDir(), "b.ndjson.zst"), filepath.Join(t.TempDir(), "copies")
	if got := s.must("backup", file, "--files", dir); !strings.Contains(got, dir+" has their files: 2 files copied now, ") || !strings.Contains(got, "; 1 file there already") {
		t.Errorf("%q", got)
	}
	if err := store.Remove(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	gone := keep(3, "gone")
	keep(4, "four")
	if err := store.Remove(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if got := s.must("backup", file, "--files", dir); !strings.Contains(got, "1 file copied now, ") || !strings.Contains(got, "; 3 files there already") || !strings.Contains(got, "1 file had no bytes any more") {
		t.Errorf("%q", got)
	}
	if _, err := s.rounds("backup", "-", "--files", dir); err == nil || !strings.Contains(err.Error(), "--files") {
		t.Errorf("to standard output: %v", err)
	}

	process, to := redistest.Start(t), t.TempDir()
	env := map[string]string{"ROUNDS_REDIS_URL": "redis://" + process.Addr(), "ROUNDS_FILES": to}
	got, err := runWith(t.Context(), env, "", "restore", file, "--files", dir)
	if err != nil || !strings.Contains(got.out, "3 files stored; 1 file without their bytes") {
		t.Fatalf("%+v, %v", got, err)
	}
	after, err := circulate.Open(t.Context(), redistest.Connect(t, process), circulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	target, err := files.OpenDirectory(to)
	if err != nil {
		t.Fatal(err)
	}
	for place, want := range []string{"one", "one", "lost", "", "four"} {
		rows, err := after.Files().Look(t.Context(), false, circulate.NewFileID("a", circulate.FileOfMessage, "1", place))
		if err != nil || rows[0].State != circulate.FileKept {
			t.Fatalf("%+v, %v", rows, err)
		}
		reader, err := target.Open(t.Context(), rows[0].Object)
		if want == "" && errors.Is(err, files.ErrNotFound) {
			continue
		}
		if err != nil {
			t.Errorf("%d: %v", place, err)
			continue
		}
		if content, err := io.ReadAll(reader); string(content) != want || errors.Join(err, reader.Close()) != nil {
			t.Errorf("%d: %q, %v", place, content, err)
		}
	}
	delete(env, "ROUNDS_FILES")
	if _, err := runWith(t.Context(), env, "", "restore", file, "--files", dir, "--namespace", "other"); err == nil || !strings.Contains(err.Error(), "ROUNDS_FILES must name the store") {
		t.Errorf("without a store: %v", err)
	}
	if _, err := runWith(t.Context(), env, "", "restore", file, "--files", filepath.Join(dir, "none"), "--namespace", "other"); err == nil || !strings.Contains(err.Error(), "must be the directory") {
		t.Errorf("without copies: %v", err)
	}
}
