package command

import (
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// The name of a saved file leads to no other directory, whatever a stranger called it.
func TestFileName(t *testing.T) {
	for name, want := range map[string]string{
		"cat.png": "cat.png", "": "file-3", "../../etc/passwd": "passwd", "/": "file-3", "..": "file-3", ".": "file-3", "a/": "a",
	} {
		if got := fileName(api.File{N: 3, Name: name}, 0); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
	if got := fileName(api.File{Name: "cat.tar.gz"}, 2); got != "cat.tar (2).gz" {
		t.Error(got)
	}
	if got, err := chosenFiles([]api.File{{N: 0}, {N: 1}}, []string{"1"}); err != nil || len(got) != 1 || got[0].N != 1 {
		t.Error(got, err)
	}
	for _, bad := range []string{"2", "-1", "x"} {
		if _, err := chosenFiles([]api.File{{N: 0}, {N: 1}}, []string{bad}); exitCode(err) != 2 {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
