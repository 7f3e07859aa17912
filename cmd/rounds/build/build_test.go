package build

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestOf(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef01234567"
	build := func(path, version string, settings ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: path, Version: version}}
		for i := 0; i < len(settings); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return info
	}
	other := func(version string) *debug.BuildInfo {
		info := build("example.org/mine", "v0.1.0", "vcs.revision", "ffffffffffffffffffff", "vcs.time", "2020-01-01T00:00:00Z")
		info.Deps = []*debug.Module{{Path: "example.org/else", Version: "v9.0.0"}, {Path: Module, Version: version}}
		return info
	}
	vcs := []string{"vcs.revision", hash, "vcs.time", "2026-11-22T17:08:25Z", "vcs.modified", "false"}
	dirty := []string{"vcs.revision", hash, "vcs.time", "2026-11-22T17:08:25Z", "vcs.modified", "true"}
	for name, tt := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"a tag":                {build(Module, "v1.2.3", vcs...), "v1.2.3, commit 0123456789ab of 2026-11-22, go1.26.8 /"},
		"a changed tag":        {build(Module, "v1.2.3+dirty", dirty...), "v1.2.3+dirty, commit 0123456789ab of 2026-11-22, go1.26.8 /"},
		"no tag":               {build(Module, "v0.0.0-20261122170825-0123456789ab", vcs...), "v0.0.0-20261122170825-0123456789ab, commit 0123456789ab of 2026-11-22, go1.26.8 /"},
		"a commit":             {build(Module, "(devel)", vcs...), "0123456789ab, commit 0123456789ab of 2026-11-22, go1.26.8 /"},
		"a changed commit":     {build(Module, "(devel)", dirty...), "0123456789ab+dirty, commit 0123456789ab of 2026-11-22, go1.26.8 /"},
		"no module version":    {build(Module, "", vcs...), "0123456789ab, commit 0123456789ab of 2026-11-22, go1.26.8 /"},
		"a short commit":       {build(Module, "(devel)", "vcs.revision", "abc"), "abc, commit abc, go1.26.8 /"},
		"go install of a tag":  {build(Module, "v1.2.3", "GOOS", "linux", "GOARCH", "arm64"), "v1.2.3, commit unknown, go1.26.8 linux/arm64"},
		"go install of main":   {build(Module, "v0.0.0-20261122170825-0123456789ab"), "v0.0.0-20261122170825-0123456789ab, commit 0123456789ab of 2026-11-22, go1.26.8 /"},
		"go install after v1":  {build(Module, "v1.2.4-0.20261122170825-0123456789ab"), "v1.2.4-0.20261122170825-0123456789ab, commit 0123456789ab of 2026-11-22, go1.26.8 /"},
		"go run":               {build(Module, "(devel)"), "(devel), commit unknown, go1.26.8 /"},
		"a test":               {build("", ""), "(devel), commit unknown, go1.26.8 /"},
		"another program":      {other("v1.2.3"), "v1.2.3 in example.org/mine v0.1.0, commit unknown, go1.26.8 /"},
		"another, of a commit": {other("v0.0.0-20261122170825-0123456789ab"), "v0.0.0-20261122170825-0123456789ab in example.org/mine v0.1.0, commit 0123456789ab of 2026-11-22, go1.26.8 /"},
		"another, replaced":    {other(""), "(devel) in example.org/mine v0.1.0, commit unknown, go1.26.8 /"},
	} {
		if got := Of(tt.info); got.String() != tt.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	text, err := json.Marshal(Of(build(Module, "v1.2.3+dirty", append(dirty, "GOOS", "linux", "GOARCH", "arm64")...)))
	if want := `{"version":"v1.2.3+dirty","commit":"0123456789ab","modified":true,"time":"2026-11-22T17:08:25Z","go":"go1.26.8","platform":"linux/arm64"}`; err != nil || string(text) != want {
		t.Errorf("JSON: %s, %v", text, err)
	}
}

func TestRead(t *testing.T) {
	if got := Read(); got.Version == "" || got.Go != runtime.Version() || got.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("%+v", got)
	}
}
