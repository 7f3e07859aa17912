package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rounds-dev/rounds/cmd/rounds/command"
)

const top = "../.."

var made = time.Unix(1795000000, 0).UTC()

// write writes a file below a folder, and makes the folders that it needs.
func write(t *testing.T, dir, name, text string, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEachCommandHasAPage(t *testing.T) {
	root := command.Tree()
	short := map[string]string{"rounds.1": root.Short}
	for _, cmd := range root.Commands() {
		short["rounds-"+cmd.Name()+".1"] = cmd.Short
	}
	pages, err := manPages(command.Tree(), made)
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 50 {
		t.Errorf("only %d pages", len(pages))
	}
	plain := strings.NewReplacer(`\-`, "-", `\fB`, "", `\fP`, "", `\\`, `\`)
	for name, text := range short {
		if page := plain.Replace(string(pages[name])); name != "rounds-help.1" && !strings.Contains(page, text) {
			t.Errorf("%s does not say %q", name, text)
		}
	}
	for name, page := range pages {
		if !bytes.HasPrefix(page, []byte(".nh\n.TH")) || !bytes.Contains(page, []byte("Nov 2026")) || bytes.Contains(page, []byte("```")) || bytes.Contains(page, []byte("cobra")) {
			t.Errorf("%s begins with %.80q", name, page)
		}
	}
	page := plain.Replace(string(pages["rounds-serve.1"]))
	for _, want := range []string{"ROUNDS_REDIS_URL", "[USER:PASSWORD@]HOST:PORT", "--check-timeout"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of serve has no %s", want)
		}
	}
}

func TestFolded(t *testing.T) {
	long := strings.Repeat("word ", 50)
	got := folded("short\n\n  NAME  " + long + "\n" + strings.Repeat("x", 2*pageWidth))
	if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields("short NAME "+long+strings.Repeat("x", 2*pageWidth)), " ") {
		t.Errorf("words are lost: %s", got)
	}
	for _, line := range strings.Split(got, "\n") {
		if len(line) > pageWidth && strings.Contains(line, " ") {
			t.Errorf("too wide: %s", line)
		}
	}
}

func TestCompletions(t *testing.T) {
	scripts, err := completions(command.Tree())
	if err != nil {
		t.Fatal(err)
	}
	for name, shell := range map[string]string{"rounds.bash": "bash", "_rounds": "zsh", "rounds.fish": "fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("there is no %s: whether it understands its completions is not tried", shell)
			continue
		}
		cmd := exec.CommandContext(t.Context(), path, "-n", write(t, t.TempDir(), name, string(scripts[name]), 0o600))
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", shell, err, out)
		}
	}
	if !bytes.HasPrefix(scripts["_rounds"], []byte("#compdef rounds\n")) || !bytes.Contains(scripts["rounds.fish"], []byte("complete -c rounds")) {
		t.Error("a script is for another program")
	}
}

func TestPackagedUnit(t *testing.T) {
	unit, err := os.ReadFile(filepath.Join(top, "deployments/systemd/rounds.service"))
	if err != nil {
		t.Fatal(err)
	}
	packaged, err := packagedUnit(unit)
	if err != nil || len(packaged) != len(unit)-len("/local") || !bytes.Contains(packaged, []byte("\nExecStart=/usr/bin/rounds serve\n")) {
		t.Errorf("%v\n%s", err, packaged)
	}
	if _, err := packagedUnit(packaged); err == nil {
		t.Error("a unit without the path is taken")
	}
}

// TestPackageIsWhole compares nfpm's file with the tree and with what a package must have.
func TestPackageIsWhole(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(top, "deployments/packages/nfpm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Contents []struct {
			Src, Dst, Type, Packager string
			Expand                   bool
		}
		Scripts map[string]string
		Depends []string
	}
	if err := yaml.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	staged := t.TempDir()
	if err := stage(top, staged, made); err != nil {
		t.Fatal(err)
	}
	write(t, staged, "rounds", "", 0o755)
	var installed []string
	for _, c := range spec.Contents {
		installed = append(installed, c.Dst)
		if c.Type == "dir" {
			continue
		}
		if strings.Contains(c.Src, "${") != c.Expand {
			t.Errorf("%s: expand is %v", c.Src, c.Expand)
		}
		src := strings.Replace(c.Src, "${STAGE}", staged, 1)
		if src == c.Src {
			src = filepath.Join(top, src)
		}
		if _, err := os.Stat(src); err != nil {
			t.Errorf("%s: %v", c.Dst, err)
		}
		if strings.HasPrefix(c.Dst, "/etc/") && c.Type != "config|noreplace" {
			t.Errorf("%s: an upgrade would replace it", c.Dst)
		}
	}
	for path := range ownFiles {
		if !slices.Contains(installed, path) && !slices.Contains(installed, filepath.Dir(path)+"/") {
			t.Errorf("%s is not in the packages", path)
		}
	}
	if !slices.Equal(spec.Depends, needed) {
		t.Errorf("the packages depend on %q, want %q", spec.Depends, needed)
	}
	if len(spec.Scripts) != 3 {
		t.Errorf("scripts: %v", spec.Scripts)
	}
	for _, script := range append([]string{"testing/release.sh"}, slices.Collect(func(yield func(string) bool) {
		for _, s := range spec.Scripts {
			if !yield(s) {
				return
			}
		}
	})...) {
		if out, err := exec.CommandContext(t.Context(), "bash", "-n", filepath.Join(top, script)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}

// TestPostinstall runs the script on a folder, as dpkg does: a first installation says what
// is left to do, an upgrade keeps everything and says nothing.
func TestPostinstall(t *testing.T) {
	root, programs := t.TempDir(), t.TempDir()
	for _, name := range []string{"systemd/private.sh", "redis/rounds.acl"} {
		text, err := os.ReadFile(filepath.Join(top, "deployments", name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, root, "usr/share/rounds/"+name, string(text), 0o755)
	}
	write(t, root, "etc/rounds/rounds.env", "", 0o600)
	write(t, programs, "systemd-sysusers", "#!/bin/sh\necho \"$@\" >>'"+root+"/users'\n", 0o755)
	post := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{filepath.Join(top, "deployments/packages/postinstall.sh")}, args...)...)
		cmd.Env = []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "DPKG_ROOT=" + root}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	token := func() string {
		text, err := os.ReadFile(filepath.Join(root, "etc/rounds/api-token"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if said := post("configure", ""); !strings.Contains(said, "systemctl enable --now rounds") || len(token()) != 64 {
		t.Errorf("at first: %q", said)
	}
	first := token()
	for _, args := range [][]string{{"configure", "1.0.0"}, {"2"}, {"abort-upgrade", "1.0.0"}} {
		if said := post(args...); said != "" || token() != first {
			t.Errorf("%q: %q", args, said)
		}
	}
	if users, err := os.ReadFile(filepath.Join(root, "users")); err != nil || !strings.HasPrefix(string(users), "--root="+root+" rounds.conf\n") {
		t.Errorf("users: %s, %v", users, err)
	}
}

// TestArchives packs the same files, written at other times into other folders: the bytes
// must be the same.
func TestArchives(t *testing.T) {
	var tars, zips [][]byte
	for age := range 2 {
		dir := t.TempDir()
		members := []member{{"rounds", write(t, dir, "bin/rounds", "binary", 0o700), 0o755}, {"man/rounds.1.gz", write(t, dir, "page", "page", 0o600), 0o644}}
		for _, m := range members {
			if err := os.Chtimes(m.path, made, made.Add(time.Duration(age)*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		var packed, zipped bytes.Buffer
		if err := writeTar(&packed, "rounds_1", members, made); err != nil {
			t.Fatal(err)
		}
		if err := writeZip(&zipped, "rounds_1", members, made); err != nil {
			t.Fatal(err)
		}
		tars, zips = append(tars, packed.Bytes()), append(zips, zipped.Bytes())
	}
	if !bytes.Equal(tars[0], tars[1]) || !bytes.Equal(zips[0], zips[1]) {
		t.Error("the bytes depend on times or folders")
	}
	listed := exec.CommandContext(t.Context(), "tar", "tvzf", "-")
	listed.Stdin = bytes.NewReader(tars[0])
	if out, err := listed.Output(); err != nil || !strings.Contains(string(out), "-rwxr-xr-x") || !strings.Contains(string(out), "rounds_1/man/rounds.1.gz") {
		t.Errorf("%v\n%s", err, out)
	}
	r, err := zip.NewReader(bytes.NewReader(zips[0]), int64(len(zips[0])))
	if err != nil || len(r.File) != 2 || r.File[0].Name != "rounds_1/rounds" || r.File[0].Mode() != 0o755 || !r.File[0].Modified.Equal(made) {
		t.Errorf("%+v, %v", r.File[0], err)
	}
	page, err := gzip.NewReader(bytes.NewReader(compressed([]byte("page"))))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(page); err != nil || string(text) != "page" || !page.ModTime.IsZero() {
		t.Errorf("%q, %v", text, err)
	}
}

func TestBill(t *testing.T) {
	binary := write(t, t.TempDir(), "rounds", "binary", 0o755)
	info := &buildinfo.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "github.com/rounds-dev/rounds", Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}},
		Deps: []*debug.Module{
			{Path: "example.org/a", Version: "v1.0.0", Sum: "h1:a"},
			{Path: "example.org/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/c", Version: "v2.0.0+incompatible", Sum: "h1:c"}},
		}}
	text, err := billOf(info, binary, made)
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BomFormat, SpecVersion, SerialNumber string
		Metadata                             struct {
			Timestamp string
			Component struct{ Name, Version, Purl string }
		}
		Components   []struct{ Purl string }
		Dependencies []struct{ DependsOn []string }
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	purls := []string{"pkg:golang/std@1.26.8", "pkg:golang/example.org/a@v1.0.0", "pkg:golang/example.org/c@v2.0.0%2Bincompatible"}
	var got []string
	for _, c := range bill.Components {
		got = append(got, c.Purl)
	}
	if bill.BomFormat != "CycloneDX" || bill.SpecVersion == "" || !strings.HasPrefix(bill.SerialNumber, "urn:uuid:") || !slices.Equal(got, purls) ||
		len(bill.Dependencies) != 1 || !slices.Equal(bill.Dependencies[0].DependsOn, purls) ||
		bill.Metadata.Component.Purl != "pkg:golang/github.com/rounds-dev/rounds@v1.2.3" || bill.Metadata.Timestamp != made.Format(time.RFC3339) {
		t.Errorf("%s", text)
	}
	if again, err := billOf(info, binary, made); err != nil || !bytes.Equal(again, text) {
		t.Errorf("another bill of the same binary: %v", err)
	}
	info.Main.Path = "example.org/other"
	if _, err := billOf(info, binary, made); err == nil {
		t.Error("another program gets the bill of rounds")
	}
}

func TestSums(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a", "a", 0o600)
	write(t, dir, "b", "b", 0o600)
	if err := writeSums(dir); err != nil {
		t.Fatal(err)
	}
	if n, err := checkSums(dir); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", "cd '"+dir+"' && sha256sum --check "+sumsName).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for name, text := range map[string]string{"a": "altered", "c": "no checksum"} {
		write(t, dir, name, text, 0o600)
		if _, err := checkSums(dir); err == nil {
			t.Errorf("%s: not noticed", text)
		}
		write(t, dir, "a", "a", 0o600)
	}
	if err := os.Remove(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if _, err := checkSums(dir); err == nil {
		t.Error("a missing file is not noticed")
	}
}

// TestReleaseScriptRefuses calls the script with what it cannot do.
func TestReleaseScriptRefuses(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{"must be one of linux/amd64", []string{"--only", "plan9/amd64"}},
		{"--out wants a value", []string{"--out"}},
		{"unknown argument --fast", []string{"--fast"}},
	} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(top, "testing/release.sh"), c.args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v\n%s", c.args, err, out)
		}
	}
}

// TestFilesOfRPM tells a file from a folder, whose rights begin as a digest may.
func TestFilesOfRPM(t *testing.T) {
	digest := strings.Repeat("d1", 32)
	for line, want := range map[string]string{
		"/usr/bin/rounds " + digest + " -rwxr-xr-x":    "/usr/bin/rounds",
		"/etc/rounds.env " + digest + " -rw-r----- cn": "/etc/rounds.env",
		"/etc/rounds  drwxr-xr-x ":                     "",
		"":                                             "",
	} {
		if path, _, ok := ofRPM(line); path != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v", line, path, ok)
		}
	}
}
