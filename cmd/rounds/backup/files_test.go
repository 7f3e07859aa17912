package backup

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A backup has the list of files, in format 4, and restores each row as it was.
func TestTheListOfFilesIsInABackup(t *testing.T) {
	server := redistest.Embedded(t)
	ring := open(t, server, "from", 2)
	files := ring.Files()
	now, err := files.Now(t.Context())
	must(t, err)
	f := circulate.File{
		ID: circulate.NewFileID("a", circulate.FileOfMessage, "1", 0), Account: "a", Kind: "k", Holder: circulate.FileOfMessage, Of: "1",
		Name: "cat.png", Type: "image/png", Hash: strings.Repeat("0f", 32), Size: 3, Object: "0f/0f-1", Found: now.Truncate(time.Millisecond),
	}
	_, err = files.Keep(t.Context(), f, circulate.Keeping{Began: now})
	must(t, err)
	lost := f
	lost.Place, lost.ID, lost.Hash, lost.Object, lost.Reason = 1, circulate.NewFileID("a", circulate.FileOfMessage, "1", 1), "", "", "it was too late"
	_, err = files.Lose(t.Context(), lost)
	must(t, err)
	_, err = files.RaiseBy(t.Context(), time.Hour, f.ID)
	must(t, err)
	want, err := files.Look(t.Context(), false, f.ID, lost.ID)
	must(t, err)
	var out bytes.Buffer
	counts, err := Write(t.Context(), ring, &out, Options{})
	if err != nil || counts.Files != 2 || !strings.Contains(out.String(), `"format":4`) {
		t.Fatalf("%+v, %v: %.300s", counts, err, out.String())
	}
	for _, shards := range []int{2, 3} {
		after := open(t, server, fmt.Sprintf("to%d", shards), shards)
		_, err := Restore(t.Context(), after, strings.NewReader(out.String()), Restoring{})
		must(t, err)
		got, err := after.Files().Look(t.Context(), false, f.ID, lost.ID)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("restored %+v, %v\nwant %+v", got, err, want)
		}
		if totals, err := after.Files().Totals(t.Context()); err != nil || totals.Kept.Files != 1 || totals.Lost != 1 || totals.Objects.Bytes != 3 {
			t.Errorf("%+v, %v", totals, err)
		}
	}
	for old, bad := range map[string]string{`"state":"k"`: `"state":"x"`, `"in":"m"`: `"in":"z"`, `"object":"0f/0f-1"`: `"object":""`, `"size":3`: `"size":-3`} {
		if _, err := Verify(strings.NewReader(strings.Replace(out.String(), old, bad, 1)), nil); err == nil || !strings.Contains(err.Error(), "file") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
