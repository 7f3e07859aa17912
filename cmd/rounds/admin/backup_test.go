package admin

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What arrives in part is no backup, and leaves nothing behind.
func TestWhatIsIncompleteIsNotWritten(t *testing.T) {
	const header = `{"header":{"is":"rounds backup","format":1,"namespace":"n","shards":1,"time":"2026-11-22T10:00:00Z"}}` + "\n"
	lost := errors.New("the connection was lost")
	for _, name := range []string{"b.ndjson", "b.ndjson.zst"} {
		for _, c := range []struct {
			name, text string
			fails      error
			says       string
		}{
			{"nothing", "", nil, "line 1: the file ends here"},
			{"half", header, nil, "line 2: the file ends here"},
			{"something else", strings.Repeat("<html>\n", 100_000), nil, "line 1: this is no backup"},
			{"a cut connection", header, lost, lost.Error()},
		} {
			dir := t.TempDir()
			_, _, err := writeBackup(filepath.Join(dir, name), func(w io.Writer) error {
				if _, err := io.WriteString(w, c.text); err != nil {
					return err
				}
				return c.fails
			}, newGauge(Env{Terminal: func(any) bool { return false }}))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %s: %v, want %q", name, c.name, err, c.says)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%s, %s: %v is left, %v", name, c.name, left, err)
			}
		}
	}
	if _, _, err := writeBackup(filepath.Join(t.TempDir(), "none", "b"), nil, nil); err == nil || strings.Contains(err.Error(), ".b.") || !strings.Contains(err.Error(), "none/b: nothing can be written there: no such file") {
		t.Errorf("no folder: %v", err)
	}
}
