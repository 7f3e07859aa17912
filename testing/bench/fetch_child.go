package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
)

// fetchChild is this program again, which answers each line that it reads by one of JSON.
type fetchChild struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Where a child may run.
const (
	oneCore   = "0" // the first processor: the replica and the loop, in turns
	elsewhere = ""  // all others
)

// startFetch starts this program to do something else until its input ends.
func startFetch(ctx context.Context, what, where, redis, authority string, flags ...string) (*fetchChild, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{self, what, "--redis", redis, "--authority", authority}, flags...)
	if n := runtime.NumCPU(); n > 1 {
		if where == elsewhere {
			where = fmt.Sprintf("1-%d", n-1)
		}
		args = append([]string{"taskset", "-c", where}, args...)
	}
	return startAnswering(ctx, "SSL_CERT_FILE="+authority, args...)
}

// startAnswering starts a command that answers lines until its input ends, with one more variable.
func startAnswering(ctx context.Context, variable string, args ...string) (_ *fetchChild, err error) {
	c := &fetchChild{cmd: exec.CommandContext(ctx, args[0], args[1:]...)}
	c.cmd.Stderr = os.Stderr
	c.cmd.Env = append(os.Environ(), variable)
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	return c, nil
}

// ask has the child do something, and reads its answer into a value, unless that is nil.
func (c *fetchChild) ask(what string, into any) error {
	if _, err := fmt.Fprintln(c.in, what); err != nil {
		return err
	}
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s of %s: %w", what, c.cmd, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(line, into)
}

// stop ends the process. A nil child is none.
func (c *fetchChild) stop() {
	if c != nil {
		_ = c.in.Close()
		_ = c.cmd.Wait()
	}
}

// answering is the child's side: it calls do for each line and prints what that returns, until
// the input ends. The line profile begins profiles that are written to files at the end.
func answering(in io.Reader, out io.Writer, profile string, do func(what string, n int) (any, error)) (err error) {
	encoder := json.NewEncoder(out)
	endProfile := func() {}
	defer func() {
		endProfile()
		if profile != "" {
			err = errors.Join(err, writeAllocations(profile+".allocs"))
		}
	}()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var what string
		n := 0
		_, _ = fmt.Sscan(lines.Text(), &what, &n) // most have no number
		var answer any
		if what == "profile" {
			endProfile, err = startProfile(profile)
		} else {
			answer, err = do(what, n)
		}
		if err != nil {
			return err
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

// writeAllocations writes a profile of what this process has allocated.
func writeAllocations(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(file, 0), file.Close())
}

// fetchUsed is what a process has used, or used for something.
type fetchUsed struct {
	CPU     float64 // seconds
	Mallocs float64
	Seconds float64
}

func fetchUsage() (u fetchUsed, err error) {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	u.Mallocs = float64(memory.Mallocs)
	u.CPU, err = ownCPU()
	return u, err
}

// fetchMemory is how much memory a process has.
type fetchMemory struct{ Bytes float64 }

// freedMemory returns how much memory this process has once it has freed what it can.
func freedMemory() (m fetchMemory, err error) {
	for range 3 { // a finalizer may keep something until the next time
		debug.FreeOSMemory()
	}
	m.Bytes, err = residentMemory(os.Getpid())
	return m, err
}
