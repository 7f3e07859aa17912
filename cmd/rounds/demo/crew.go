package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	// replaceAfter is how long the place of an ended poller stays empty, so that one can
	// watch the others take over. If no other poller runs, it is replaceLast.
	replaceAfter = 30 * time.Second
	replaceLast  = 3 * time.Second
	// endWithin is how long pollers may take to leave at the end: longer than leaveWithin.
	endWithin = 8 * time.Second
)

// crew has the pollers. Each has a place, which is filled again when its process has ended.
type crew struct {
	start  func() (*exec.Cmd, error)
	orders []byte // a line
	log    io.Writer

	replaceAfter, replaceLast, endWithin time.Duration // the constants

	mu     sync.Mutex
	places []*place
}

// place is where a poller runs. The crew's mu guards it.
type place struct {
	process *os.Process   // nil: none runs
	ended   chan struct{} // closed when the process has ended
	name    string        // the replica's name; empty: not known yet
	next    time.Time     // when the next process starts
}

func newCrew(o Options, given orders) (*crew, error) {
	line, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	c := &crew{
		start:  func() (*exec.Cmd, error) { return o.Program(o.Arguments...) },
		orders: append(line, '\n'), log: o.Err,
		replaceAfter: replaceAfter, replaceLast: replaceLast, endWithin: endWithin,
	}
	for range pollers {
		c.places = append(c.places, &place{})
	}
	return c, nil
}

// run runs the pollers until ctx is done, and then waits until all have ended. It returns
// an error if one cannot be started.
func (c *crew) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range c.places {
		group.Go(func() error { return c.fill(ctx, p) })
	}
	return group.Wait()
}

// fill makes sure that a poller runs in a place, until ctx is done.
func (c *crew) fill(ctx context.Context, p *place) error {
	for {
		wait, err := c.live(ctx, p)
		if err != nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// vacate notes that the process of a place has ended, and returns after what time the
// next one starts. It does both at once, so that an empty place always says when the
// next one starts.
func (c *crew) vacate(p *place) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.process, p.name = nil, ""
	wait := c.replaceLast
	for _, other := range c.places {
		if other != p && other.process != nil {
			wait = c.replaceAfter
		}
	}
	p.next = time.Now().Add(wait)
	return wait
}

// live starts a poller and waits until its process has ended. When ctx is done, the poller leaves.
// It returns after what time the next one starts. It returns an error if the process ends before it
// polls, unless ctx is done.
func (c *crew) live(ctx context.Context, p *place) (time.Duration, error) {
	cmd, err := c.start()
	if err != nil {
		return 0, fmt.Errorf("a poller of the demo cannot be started: %w", err)
	}
	said := &tail{}
	cmd.Stderr = said
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("a poller of the demo cannot be started: %w", err)
	}
	ended := make(chan struct{})
	c.mu.Lock()
	p.process, p.ended, p.name = cmd.Process, ended, ""
	c.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		_ = in.Close() // which tells it to leave
		select {
		case <-ended:
		case <-time.After(c.endWithin):
			_ = cmd.Process.Kill()
		}
	})
	defer stop()
	_, _ = in.Write(c.orders) // if the process has already ended, the code below notices
	polled := false
	for decoder := json.NewDecoder(out); ; polled = true {
		var told named
		if decoder.Decode(&told) != nil {
			break
		}
		c.mu.Lock()
		p.name = told.Replica
		c.mu.Unlock()
	}
	err = cmd.Wait()
	wait := c.vacate(p)
	close(ended)
	switch {
	case ctx.Err() != nil:
		return 0, nil
	case !polled:
		return 0, fmt.Errorf("a poller of the demo has ended: %w", errors.Join(err, errors.New(said.String())))
	case said.String() != "":
		_, _ = fmt.Fprintf(c.log, "a poller of the demo has ended: %v\n%s\n", err, said) // perhaps nobody reads it
	}
	return wait, nil
}

// list returns the places in the form of the API.
func (c *crew) list() []api.DemoPoller {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]api.DemoPoller, len(c.places))
	for i, p := range c.places {
		switch {
		case p.process == nil && p.next.IsZero():
			list[i].State = api.DemoStarting
		case p.process == nil:
			next := p.next.UTC().Truncate(time.Second)
			list[i] = api.DemoPoller{State: api.DemoKilled, Next: &next}
		case p.name == "":
			list[i] = api.DemoPoller{State: api.DemoStarting, PID: p.process.Pid}
		default:
			list[i] = api.DemoPoller{State: api.DemoRunning, PID: p.process.Pid, Replica: p.name}
		}
	}
	return list
}

// kill ends the process of a poller at once, and waits until it is gone.
func (c *crew) kill(ctx context.Context, replica string) error {
	c.mu.Lock()
	var process *os.Process
	var ended <-chan struct{}
	for _, p := range c.places {
		if p.process != nil && p.name == replica && replica != "" {
			process, ended = p.process, p.ended
		}
	}
	c.mu.Unlock()
	if process == nil {
		return api.ErrNoPoller
	}
	if err := process.Kill(); errors.Is(err, os.ErrProcessDone) {
		return api.ErrNoPoller
	} else if err != nil {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tail has the end of what a process writes.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const maxTail = 4 << 10 // bytes

// Write stores a text. It never fails.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	if over := len(t.text) - maxTail; over > 0 {
		t.text = bytes.Clone(t.text[over:])
	}
	return len(text), nil
}

// String returns the stored text.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
