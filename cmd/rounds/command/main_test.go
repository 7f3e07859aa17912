package command

import (
	"context"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rounds-dev/rounds/testing/processes"
)

// A second signal ends the process, as usual, unless the command handles it.
func TestHaste(t *testing.T) {
	for name, asks := range map[string]bool{"a command that asks": true, "one that does not": false} {
		var stopped, stoppedAgain atomic.Bool
		again, signalled := context.WithCancel(context.Background())
		h := newHaste()
		h.listen = func() (context.Context, context.CancelFunc) {
			if stopped.Load() {
				t.Errorf("%s: nobody listened for a moment", name)
			}
			return again, func() { stoppedAgain.Store(true) }
		}
		var hurry <-chan struct{}
		if asks {
			hurry = h.channel()
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.follow(func() { stopped.Store(true) })
		}()
		if asks {
			select {
			case <-hurry:
				t.Errorf("%s: told at the first signal", name)
			default:
			}
			signalled()
			<-hurry
		}
		<-done
		if !stopped.Load() || stoppedAgain.Load() != asks {
			t.Errorf("%s: %t, %t", name, stopped.Load(), stoppedAgain.Load())
		}
		signalled()
	}
	var none *haste
	if none.channel() != nil {
		t.Error("no haste has a channel")
	}
}

// programVariable is set for a test binary that acts as the program.
const programVariable = "ROUNDS_TEST_PROGRAM"

// TestMain lets the test binary act as the program if it is started as such.
func TestMain(m *testing.M) {
	switch os.Getenv(programVariable) {
	case "":
	case hasty:
		runHastyDemo()
		return
	default:
		Main()
		return
	}
	// Most tests give one command after another, start the program several times, or read all of the
	// repository. The race detector watches those in which something happens at once.
	os.Exit(processes.Watched(m, "TestHaste", "TestServeReloads", "TestAPIAtAUnixSocket", "TestAccountLife", "TestMessagesTail", "TestTailOfAGroup",
		"TestSelectedAccountsAreSetByAJob", "TestAccountAddWeComKF", "TestHealth").Run())
}

// program is the program, run in the background.
type program struct {
	out, log processes.Output
	stop     func() error // ends the program and returns its error
}

func startProgram(t *testing.T, variables map[string]string, args ...string) *program {
	t.Helper()
	p := &program{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		env := testEnvironment(variables)
		env.stdin, env.stdout, env.stderr = strings.NewReader(""), &p.out, &p.log
		env.again = []string{programVariable + "=1"}
		done <- run(ctx, args, env)
	}()
	p.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = p.stop() })
	return p
}

func freeLoopback(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Errors say what the user meant, and not what a library calls it.
func TestMistakesAreExplained(t *testing.T) {
	for line, want := range map[string]string{
		"tail":          `rounds has no command "tail": did you mean rounds messages tail?`,
		"chek":          `rounds has no command "chek": did you mean check?`,
		"check":         "--kind is missing: ",
		"key create ci": "--role is missing: ",
	} {
		if _, err := runWith(t.Context(), nil, "", strings.Fields(line)...); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=u")
	got, err := s.rounds("parked", "list", "--reason", "nonsense")
	if err != nil || got.err != "no account is parked for a reason that begins with nonsense\n" {
		t.Errorf("%q, %v", got, err)
	}
	s.fails("auth: bound elsewhere: scan again")
	if got := s.must("account", "resume", "a"); got != "a resumed; it is parked again if this is still so: auth: bound elsewhere: scan again\n" {
		t.Errorf("resume: %q", got)
	}
	s.must("account", "pause", "a")
	if got := s.must("account", "resume", "a"); got != "a resumed\n" {
		t.Errorf("resume: %q", got)
	}
	if got := s.must("account", "delete", "a"); got != "a removed\n" {
		t.Errorf("delete: %q", got)
	}
}

// The error for an unknown flag suggests the flags that may be meant, like the one for an
// unknown command.
func TestAnUnknownFlagNamesThoseThatAreNear(t *testing.T) {
	for want, args := range map[string][]string{
		"unknown flag: --addr: did you mean --api-addr or --ops-addr?": {"serve", "--addr", ":1"},
		"unknown flag: --knid: did you mean --kind?":                   {"account", "list", "--knid", "feed"},
		"unknown flag: --secrets: did you mean --secret":               {"connector", "verify", "http://localhost:1/", "--secrets", "NONE"},
		"unknown flag: --zebra\n":                                      {"serve", "--zebra"},
		"unknown shorthand flag: 'Q' in -Q\n":                          {"serve", "-Q"},
	} {
		if _, err := runWith(t.Context(), nil, "", args...); err == nil || !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("%q: got %v, want %s", args, err, want)
		}
	}
}
