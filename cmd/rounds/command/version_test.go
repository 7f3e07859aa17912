package command

import (
	"runtime/debug"
	"testing"
)

func TestVersionIn(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	build := func(path, version, revision, modified string) *debug.BuildInfo {
		info := &debug.BuildInfo{Main: debug.Module{Path: path, Version: version}}
		if revision != "" {
			info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}
		}
		return info
	}
	other := build("example.org/mine", "(devel)", commit, "false")
	other.Deps = []*debug.Module{{Path: "example.org/else", Version: "v9.0.0"}, {Path: module, Version: "v1.2.3"}}
	for name, tt := range map[string]struct {
		info          *debug.BuildInfo
		want, program string
	}{
		"a tag":                   {build(module, "v1.2.3", commit, "false"), "v1.2.3", ""},
		"a commit, by the module": {build(module, "v0.0.0-20261122082446-0123456789ab", commit, "false"), "v0.0.0-20261122082446-0123456789ab", ""},
		"a commit":                {build(module, "(devel)", commit, "false"), "0123456789ab", ""},
		"a changed commit":        {build(module, "(devel)", commit, "true"), "0123456789ab+dirty", ""},
		"no module version":       {build(module, "", commit, "false"), "0123456789ab", ""},
		"a short commit":          {build(module, "(devel)", "abc", "false"), "abc", ""},
		"neither":                 {build(module, "(devel)", "", ""), "(devel)", ""},
		"another program":         {other, "v1.2.3", "in example.org/mine (devel)"},
	} {
		if got, program := versionIn(tt.info); got != tt.want || program != tt.program {
			t.Errorf("%s: %q, %q", name, got, program)
		}
	}
}
