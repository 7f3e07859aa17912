package command

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestUnitRunsWhatThereIs checks that the commands and settings exist that the unit and its
// environment file name, in comments too.
func TestUnitRunsWhatThereIs(t *testing.T) {
	unit := deployment(t, "systemd/rounds.service")
	started := regexp.MustCompile(`(?m)^ExecStart=(\S+) (.*)$`).FindStringSubmatch(unit)
	if started == nil || started[1] != "/usr/local/bin/rounds" {
		t.Fatalf("ExecStart: %q", started)
	}
	expectCommand(t, strings.Fields(started[2]))
	for _, path := range []string{"systemd/rounds.service", "systemd/rounds.env"} {
		variables := make(map[string]string)
		for _, match := range regexp.MustCompile(`(?m)^#?\s*(?:Environment=)?(ROUNDS_\w+)=`).FindAllStringSubmatch(deployment(t, path), -1) {
			variables[match[1]] = ""
		}
		if len(variables) == 0 {
			t.Errorf("%s names no setting", path)
		}
		expectVariables(t, path, variables)
	}
}

// TestUnitReloadsWithTheShellAlone runs what the unit reloads by. It must do without programs
// that a small system may lack, such as kill of procps.
func TestUnitReloadsWithTheShellAlone(t *testing.T) {
	line := regexp.MustCompile(`(?m)^ExecReload=(/\S+) -c '(.*)'$`).FindStringSubmatch(deployment(t, "systemd/rounds.service"))
	if line == nil || line[1] != "/bin/sh" {
		t.Fatalf("ExecReload: %q", line)
	}
	// This process stands in for the service: another one would ignore the signal where the tests
	// were started by nohup.
	reloads := make(chan os.Signal, 1)
	signal.Notify(reloads, syscall.SIGHUP)
	defer signal.Stop(reloads)
	reload := exec.CommandContext(t.Context(), line[1], "-c", strings.ReplaceAll(line[2], "${MAINPID}", strconv.Itoa(os.Getpid()))) // systemd puts the number in
	reload.Env = []string{"PATH="}
	if out, err := reload.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	select {
	case <-reloads:
	case <-time.After(time.Minute):
		t.Error("no signal came")
	}
}

// TestSocketUnit compares the socket unit with what the service accepts, and with what the
// guide shows.
func TestSocketUnit(t *testing.T) {
	unit := deployment(t, "systemd/rounds.socket")
	_, rest, _ := strings.Cut(unit, "[Socket]\n")
	part, _, found := strings.Cut(rest, "\n\n")
	if !found || !strings.Contains(deployment(t, "guide/operations.md"), "```ini\n[Socket]\n"+part+"\n```") {
		t.Errorf("the guide shows another unit than\n%s", part)
	}
	value := func(name string) string {
		match := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(part)
		if match == nil {
			t.Fatalf("there is no %s", name)
		}
		return match[1]
	}
	variables := make(map[string]string)
	for _, match := range regexp.MustCompile(`(?m)^#\s*(ROUNDS_\w+)=(.*)$`).FindAllStringSubmatch(unit, -1) {
		variables[match[1]] = match[2]
	}
	s, err := read(t, variables)
	if err != nil || s.API.Addr != "systemd:"+value("FileDescriptorName") || s.Access.URL != "unix://"+value("ListenStream") {
		t.Errorf("%+v, %v", s.API, err)
	}
}

// TestUnitIsUnderstood lets systemd-analyze read the unit, if this machine has it. An
// existing program stands in for the binary.
func TestUnitIsUnderstood(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze: what the unit says is judged by the other tests alone")
	}
	verify := func(text string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "rounds.service")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput() // only the output counts, not the exit code
		var ours []string
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "rounds.service") {
				ours = append(ours, line)
			}
		}
		return strings.Join(ours, "")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := strings.Replace(deployment(t, "systemd/rounds.service"), "ExecStart=/usr/local/bin/rounds", "ExecStart="+self, 1)
	if broken := verify(strings.Replace(unit, "ProtectHome=", "ProtectHomes=", 1)); broken == "" {
		t.Skip("systemd-analyze says nothing of a unit with a mistake")
	}
	if said := verify(unit); said != "" {
		t.Error(said)
	}
}
