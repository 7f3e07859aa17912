package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/poller/files"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// The store of files is compared with the list: what either lacks is named. Young objects, which
// may be about to be kept, are no difference.
func TestTheStoreIsComparedWithTheList(t *testing.T) {
	t.Parallel()
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store, err := files.OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	put := func(content string) files.Object {
		object, err := store.Put(t.Context(), strings.NewReader(content), files.Want{})
		if err != nil {
			t.Fatal(err)
		}
		return object
	}
	keep := func(place int, object files.Object) {
		now, err := ring.Files().Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f := circulate.File{ID: circulate.NewFileID("a", circulate.FileOfMessage, "1", place), Account: "a", Kind: "k", Holder: circulate.FileOfMessage,
			Of: "1", Place: place, Hash: object.SHA256, Size: object.Size, Object: object.Name, Found: now}
		if _, err := ring.Files().Keep(t.Context(), f, circulate.Keeping{Began: now}); err != nil {
			t.Fatal(err)
		}
	}
	examine := func(ring *circulate.Ring) *Report {
		d := &doctor{Options: Options{Service: service.Options{Files: store}, Within: time.Minute}}
		d.files(t.Context(), ring)
		d.sum()
		return &d.report
	}
	keep(0, put("one"))
	keep(1, put("two"))
	put("about to be kept")
	r := examine(ring)
	r.says(t, ok, "files", "can be written")
	r.says(t, ok, "files", "has the bytes of all of 2 files, in 3 objects")
	if r.Faults+r.Warnings > 0 {
		t.Errorf("%+v", r)
	}
	examine(nil).says(t, skipped, "files", "inside the service's process")

	lost := put("three")
	keep(2, lost)
	if err := store.Remove(t.Context(), lost.Name); err != nil {
		t.Fatal(err)
	}
	orphan := put("four")
	old := time.Now().Add(-files.LeftoverAge - time.Minute)
	if err := os.Chtimes(filepath.Join(dir, filepath.FromSlash(orphan.Name)), old, old); err != nil {
		t.Fatal(err)
	}
	r = examine(ring)
	r.says(t, fault, "files", "lacks the bytes of 1 file that the list has, such as file 2 of message 1 of account a")
	r.says(t, warning, "files", "has 1 object older than a day that no file has")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	examine(ring).says(t, fault, "files", "nothing can be stored in directory "+dir)
}
