package processes

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Go returns a go command that compiles as for the image: without cgo and without the paths
// of this machine. All that tests build is built so, and each package once for all of them.
func Go(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", args...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -trimpath"))
	return command
}

// Build builds the binary into a directory, like the image's, and returns its path.
// Further flags are for go build. The binary has the versions that the program's own module
// names, whichever module the caller belongs to.
func Build(dir string, flags ...string) (string, error) {
	path, err := filepath.Abs(filepath.Join(dir, "rounds"))
	if err != nil {
		return "", err
	}
	top, err := Go(context.Background(), "list", "-m", "-f", "{{.Dir}}", "github.com/rounds-dev/rounds").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	args := append([]string{"build", "-ldflags=-s -w", "-o", path}, flags...)
	command := Go(context.Background(), append(args, "./cmd/rounds")...)
	command.Dir = strings.TrimSpace(string(top))
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// Process is one running program.
type Process struct {
	Name string

	cmd    *exec.Cmd
	log    Output
	exited chan struct{}
	err    error
}

// Start starts a binary with settings and arguments. It passes nothing of this process'
// environment on that could change the program.
func Start(name, path string, settings []string, args ...string) (*Process, error) {
	p := &Process{Name: name, cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, settings...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Kill does kill -9 and waits until the process is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.exited
}

// Terminate sends SIGTERM and expects a clean end within a time.
func (p *Process) Terminate(within time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	select {
	case <-p.exited:
	case <-time.After(within):
		return fmt.Errorf("%s did not end within %v of SIGTERM", p.Name, within)
	}
	if p.err != nil {
		return fmt.Errorf("%s ended with %w", p.Name, p.err)
	}
	return nil
}

// HangUp sends SIGHUP. The process then reads its settings again.
func (p *Process) HangUp() error { return p.cmd.Process.Signal(syscall.SIGHUP) }

// Freeze stops the process as SIGSTOP does.
func (p *Process) Freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw resumes a frozen process.
func (p *Process) Thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Pid returns the process' id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Log returns everything that the process wrote so far.
func (p *Process) Log() string { return p.log.String() }

// LogCount returns how often a text is in what the process wrote so far.
func (p *Process) LogCount(text string) int { return p.log.count(text) }

// Replica returns the name that a poller has chosen, or "" before it polls.
func (p *Process) Replica() string {
	name := ""
	for line := range strings.Lines(p.log.String()) {
		var entry struct{ Msg, Replica string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "polling" {
			name = entry.Replica
		}
	}
	return name
}
