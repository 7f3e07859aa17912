package command

import (
	"runtime/debug"
	"testing"
)

func TestVersionOfTheProductInAnotherProgram(t *testing.T) {
	for _, c := range []struct {
		info             debug.BuildInfo
		version, program string
	}{
		{debug.BuildInfo{}, "(devel)", ""},
		{debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.2.0"}}, "v1.2.0", ""},
		{debug.BuildInfo{Main: debug.Module{Path: "example.com/pigeons", Version: "v0.3.0"}, Deps: []*debug.Module{{Path: "x", Version: "v9.0.0"}, {Path: module, Version: "v1.2.0"}}},
			"v1.2.0", "in example.com/pigeons v0.3.0"},
		{debug.BuildInfo{Main: debug.Module{Path: "example.com/pigeons"}}, "(devel)", "in example.com/pigeons"},
	} {
		if version, program := versionIn(&c.info); version != c.version || program != c.program {
			t.Errorf("got %q, %q, want %q, %q", version, program, c.version, c.program)
		}
	}
}
