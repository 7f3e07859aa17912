package command

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// dockerfile returns the instructions of the Dockerfile, one a line.
func dockerfile(t *testing.T) []string {
	t.Helper()
	var instructions []string
	open := false
	for line := range strings.Lines(deployment(t, "docker/Dockerfile")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		text, more := strings.CutSuffix(line, `\`)
		if open {
			instructions[len(instructions)-1] += " " + strings.TrimSpace(text)
		} else {
			instructions = append(instructions, strings.TrimSpace(text))
		}
		open = more
	}
	return instructions
}

// arguments returns the arguments of all instructions with a name.
func arguments(instructions []string, name string) []string {
	var found []string
	for _, i := range instructions {
		if rest, ok := strings.CutPrefix(i, name+" "); ok {
			found = append(found, rest)
		}
	}
	return found
}

// TestImageCopiesWhatThereIs expects that the files that the Dockerfile copies are in the
// repository, and that the build does not ignore them.
func TestImageCopiesWhatThereIs(t *testing.T) {
	instructions := dockerfile(t)
	ignored := strings.Fields(deployment(t, "docker/Dockerfile.dockerignore"))
	copies := arguments(instructions, "COPY")
	if len(copies) == 0 {
		t.Fatal("nothing is copied")
	}
	for _, copied := range copies {
		words := strings.Fields(copied)
		if strings.HasPrefix(words[0], "--from=") {
			stage := strings.TrimPrefix(words[0], "--from=")
			if !slices.ContainsFunc(arguments(instructions, "FROM"), func(from string) bool { return strings.HasSuffix(from, " AS "+stage) }) {
				t.Errorf("COPY %s: there is no stage %s", copied, stage)
			}
			continue
		}
		for _, source := range words[:len(words)-1] {
			if _, err := os.Stat(filepath.Join(top, source)); err != nil {
				t.Errorf("COPY %s: %v", copied, err)
			}
			if slices.Contains(ignored, "/"+source) || slices.Contains(ignored, source) {
				t.Errorf("COPY %s: %s is ignored", copied, source)
			}
		}
	}
	for _, needed := range []string{".git", "go.mod", "go.sum", "cmd", "circulate", "accounts", "poller", "monitor"} {
		if slices.ContainsFunc(ignored, func(pattern string) bool { return strings.Trim(pattern, "/") == needed }) {
			t.Errorf("the build wants %s, which is ignored", needed)
		}
	}
}

// ignores reports whether the build ignores a path, by the patterns of .dockerignore.
func ignores(t *testing.T, path string) bool {
	t.Helper()
	ignored := false
	for line := range strings.Lines(deployment(t, "docker/Dockerfile.dockerignore")) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		pattern, again := strings.CutPrefix(line, "!")
		expression := regexp.QuoteMeta(strings.TrimPrefix(pattern, "/"))
		expression = strings.ReplaceAll(expression, `\*\*/`, "(?:.*/)?")
		expression = strings.ReplaceAll(expression, `\*`, "[^/]*")
		if regexp.MustCompile("^" + expression + "(?:/.*)?$").MatchString(path) {
			ignored = !again
		}
	}
	return ignored
}

// TestImageIsBuiltWithoutSecrets keeps secrets out of a build, and nothing else. If a file of
// the repository were missing, the binary would report that its source was changed.
func TestImageIsBuiltWithoutSecrets(t *testing.T) {
	for _, path := range []string{
		"deployments/compose/private/api-token", "deployments/compose/secrets/CRM", "deployments/compose/.env", ".env", ".env.local", "prod.env", "deployments/systemd/prod.env",
		"rounds.settings", "tls/server.key", "ca.pem", "id_ed25519", "home/id_rsa.bak", ".netrc", ".docker/config.json", "webhooks.json", "deployments/callbacks.json",
		"accounts.ndjson", "dump.rdb", "appendonlydir/appendonly.aof", "core.123", "rounds",
	} {
		if !ignores(t, path) {
			t.Errorf("%s gets into a build", path)
		}
	}
	out, err := exec.CommandContext(t.Context(), "git", "-C", top, "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("this is no repository: %v", err)
	}
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if ignores(t, path) {
			t.Errorf("%s is ignored, though it is part of the repository", path)
		}
	}
}

// TestImagesAreNamedExactly expects that a file names each image with a full version and a
// digest, and that each can be replaced by another one.
func TestImagesAreNamedExactly(t *testing.T) {
	exact := regexp.MustCompile(`^[\w./-]+:\d+\.\d+\.\d+-[a-z]+@sha256:[0-9a-f]{64}$`)
	var images []string
	for _, argument := range arguments(dockerfile(t), "ARG") {
		if name, image, ok := strings.Cut(argument, "="); ok && strings.HasSuffix(name, "_IMAGE") {
			images = append(images, image)
		}
	}
	for _, from := range arguments(dockerfile(t), "FROM") {
		if words := strings.Fields(strings.Replace(from, "--platform=$BUILDPLATFORM ", "", 1)); words[0] != "scratch" && words[0] != "${GO_IMAGE}" {
			t.Errorf("FROM %s: name it by an argument", from)
		}
	}
	if strings.Contains(deployment(t, "docker/Dockerfile"), "syntax=") {
		t.Error("the Dockerfile has another program read it, which is an image as well")
	}
	for name, s := range readCompose(t).Services {
		match := regexp.MustCompile(`^\$\{\w+_IMAGE:-(.*)\}$`).FindStringSubmatch(s.Image)
		switch {
		case s.Build.Context != "":
		case match == nil:
			t.Errorf("%s: nobody can give another image than %s", name, s.Image)
		default:
			images = append(images, match[1])
		}
	}
	if len(images) != 2 {
		t.Errorf("images: %q", images)
	}
	for _, image := range images {
		if !exact.MatchString(image) {
			t.Errorf("%s may be another image tomorrow", image)
		}
	}
}

// TestImageBuilds runs the build command of the Dockerfile on this machine. The binary must
// be what an otherwise empty image needs: it needs no library, knows the commands that the
// image runs, and is at the path that the image uses.
func TestImageBuilds(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the image is one of Linux")
	}
	instructions := dockerfile(t)
	build := ""
	for _, run := range arguments(instructions, "RUN") {
		if strings.Contains(run, "go build") {
			build = regexp.MustCompile(`--mount=\S+`).ReplaceAllString(run, "")
		}
	}
	output := regexp.MustCompile(` -o (\S+) `).FindStringSubmatch(build)
	if output == nil {
		t.Fatalf("it is built nowhere: %q", build)
	}
	binary := filepath.Join(t.TempDir(), "rounds")
	build = strings.Replace(build, " -o "+output[1]+" ", ` -o "$BINARY" `, 1)
	build = strings.ReplaceAll(build, "GOCACHE=/go/build-cache", "") // the test uses its own cache
	command := exec.CommandContext(t.Context(), "sh", "-ec", build)
	command.Dir = top
	command.Env = append(os.Environ(), "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH, "BINARY="+binary)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	program, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("it needs %v, which the image has not: %v", libraries, err)
	}
	if out, err := exec.CommandContext(t.Context(), binary, "version").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	copied := slices.ContainsFunc(arguments(instructions, "COPY"), func(copied string) bool {
		return strings.HasPrefix(copied, "--from=build "+output[1]+" /rounds")
	})
	if !copied {
		t.Errorf("%s is not what the image has at /rounds", output[1])
	}
	var entry, started []string
	for name, into := range map[string]*[]string{"ENTRYPOINT": &entry, "CMD": &started} {
		texts := arguments(instructions, name)
		if len(texts) != 1 || json.Unmarshal([]byte(texts[0]), into) != nil {
			t.Fatalf("%s: %q", name, texts)
		}
	}
	if len(entry) == 0 || entry[0] != "/rounds" {
		t.Fatalf("ENTRYPOINT: %q", entry)
	}
	expectCommand(t, slices.Concat(entry[1:], started))
}
