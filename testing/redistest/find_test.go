package redistest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The variable decides which server is started. A name that finds none is an error, not
// another server.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other-server")
	if err := os.WriteFile(other, []byte("#!/bin/sh\necho 'Other server v=1.2.3 sha=0 malloc=x'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	t.Setenv(ServerVariable, "")
	if path, err := Find(); !errors.Is(err, errNoServer) {
		t.Errorf("nothing installed: %q, %v", path, err)
	}
	for _, named := range []string{other, "other-server"} {
		t.Setenv(ServerVariable, named)
		if path, err := Find(); err != nil || path != other {
			t.Errorf("%s: %q, %v", named, path, err)
		}
	}
	t.Setenv(ServerVariable, "absent-server")
	if path, err := Find(); err == nil || errors.Is(err, errNoServer) || !strings.Contains(err.Error(), ServerVariable) {
		t.Errorf("absent: %q, %v", path, err)
	}
}
