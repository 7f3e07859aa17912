package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Kill ends the server and all its processes as kill -9 does, whatever they are doing,
// and waits until the server is gone.
func (s *Server) Kill() {
	if s.ended() {
		return
	}
	pid := s.cmd.Process.Pid
	_ = s.cmd.Process.Signal(syscall.SIGSTOP) // a stopped server starts no more of them
	children := childrenOf(pid)
	_ = s.cmd.Process.Kill()
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	<-s.exited
}

// Restart starts the server again on its port and directory, after a Kill. It serves once
// it has recovered what was committed.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.start(); err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
}

// Close stops the server, cutting its connections, and removes its directory.
func (s *Server) Close() error {
	if !s.ended() {
		_ = s.cmd.Process.Signal(syscall.SIGINT) // "fast" shutdown
		select {
		case <-s.exited:
		case <-time.After(20 * time.Second):
			s.Kill()
		}
	}
	if err := os.RemoveAll(s.Dir); err != nil {
		return fmt.Errorf("remove the cluster: %w", err)
	}
	return nil
}

func (s *Server) ended() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// childrenOf returns the processes that a process started. PostgreSQL puts each of its
// processes into a group of its own, so one signal cannot reach them all.
func childrenOf(pid int) []int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if errors.Is(err, os.ErrNotExist) { // not Linux, or the kernel was built without it
		text, _ = exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	}
	var children []int
	for _, field := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(field); err == nil {
			children = append(children, child)
		}
	}
	return children
}
