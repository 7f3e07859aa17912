package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// behaviour is a variable of the environment that has the test binary act as a poller.
const behaviour = "ROUNDS_TEST_DEMO_POLLER"

func TestMain(m *testing.M) {
	switch how := os.Getenv(behaviour); how {
	case "":
		os.Exit(m.Run())
	case "refuses":
		fmt.Fprintln(os.Stderr, "no Redis for me")
		os.Exit(3)
	default:
		if how == "expects others" {
			fmt.Fprintln(os.Stderr, "strange orders")
			os.Exit(4)
		}
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		if !strings.Contains(line, `"redis":"redis://here"`) {
			fmt.Fprintln(os.Stderr, "strange orders:", line)
			os.Exit(4)
		}
		fmt.Printf(`{"replica":"P%d"}`+"\n", os.Getpid())
		_, _ = io.Copy(io.Discard, os.Stdin)
		if how == "stays" {
			select {}
		}
	}
}

// running is a crew at work.
type running struct {
	*testing.T
	*crew

	ended <-chan error // gets the result of run
	stop  func() error // ends it and returns that
}

func startCrew(t *testing.T, how string, endWithin time.Duration) *running {
	t.Helper()
	o := Options{Err: io.Discard, Program: func(...string) (*exec.Cmd, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), behaviour+"="+how)
		return cmd, nil
	}}
	c, err := newCrew(o, orders{Redis: "redis://here"})
	if err != nil {
		t.Fatal(err)
	}
	c.replaceLast, c.endWithin = time.Millisecond, endWithin
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.run(ctx) }()
	r := &running{T: t, crew: c, ended: ended, stop: func() error {
		cancel()
		return <-ended
	}}
	return r
}

// await waits until a condition holds.
func (r *running) await(what string, so func() bool) {
	r.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !so(); <-tick.C {
		if time.Now().After(deadline) {
			r.Fatalf("waited in vain for %s: %+v", what, r.list())
		}
	}
}

// names waits until so many pollers run, and returns their names.
func (r *running) names(want int) []string {
	r.Helper()
	var names []string
	r.await(fmt.Sprint(want, " pollers"), func() bool {
		names = nil
		for _, p := range r.list() {
			if p.State == api.DemoRunning && p.Replica == fmt.Sprintf("P%d", p.PID) {
				names = append(names, p.Replica)
			}
		}
		return len(names) == want
	})
	return names
}

// Of two demos that start at once, each has a port of its own from the moment it chose it.
func TestDemosHaveAPortEach(t *testing.T) {
	first, err := open("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	addr := first.Addr().String()
	second, err := open(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if second.Addr().String() == addr || !strings.HasPrefix(second.Addr().String(), "127.0.0.1:") {
		t.Errorf("%s after %s", second.Addr(), addr)
	}
	if l, err := open("nowhere"); err == nil {
		_ = l.Close()
		t.Error("it listens nowhere")
	}
}

func TestCrewLosesAPollerAndGetsAnother(t *testing.T) {
	r := startCrew(t, "leaves", time.Minute)
	names := r.names(pollers)
	for _, nobody := range []string{"", "P0", names[0] + " "} {
		if err := r.kill(t.Context(), nobody); !errors.Is(err, api.ErrNoPoller) {
			t.Errorf("kill %q: %v", nobody, err)
		}
	}
	gap := func() time.Duration {
		t.Helper()
		for _, p := range r.list() {
			if p.State == api.DemoKilled {
				return time.Until(*p.Next)
			}
		}
		t.Fatalf("none is killed: %+v", r.list())
		return 0
	}
	if err := r.kill(t.Context(), names[1]); err != nil {
		t.Fatal(err)
	}
	if err := r.kill(t.Context(), names[1]); !errors.Is(err, api.ErrNoPoller) {
		t.Errorf("it is killed twice: %v", err)
	}
	if left := r.names(pollers - 1); slices.Contains(left, names[1]) {
		t.Errorf("%s is still among %v", names[1], left)
	}
	if wait := gap(); wait < replaceAfter/2 || wait > replaceAfter {
		t.Errorf("the next one comes in %v", wait)
	}
	for _, name := range []string{names[0], names[2]} {
		if err := r.kill(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	// No other poller was left, so one comes soon.
	if next := r.names(1); slices.Contains(names, next[0]) {
		t.Errorf("%s is back from the dead", next[0])
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	for _, p := range r.places {
		if p.process != nil {
			t.Errorf("process %d is left", p.process.Pid)
		}
	}
}

func TestCrewKillsWhoDoesNotLeave(t *testing.T) {
	r := startCrew(t, "stays", 50*time.Millisecond)
	r.names(pollers)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

func TestCrewSaysWhyThereIsNoPoller(t *testing.T) {
	for how, want := range map[string]string{"refuses": "no Redis for me", "expects others": "strange orders"} {
		r := startCrew(t, how, time.Minute)
		if err := <-r.ended; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "exit status") {
			t.Errorf("%s: %v", how, err)
		}
	}
	c, err := newCrew(Options{Program: func(...string) (*exec.Cmd, error) { return nil, errors.New("no such program") }}, orders{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.run(t.Context()); err == nil || !strings.Contains(err.Error(), "no such program") {
		t.Errorf("the error is %v", err)
	}
}
