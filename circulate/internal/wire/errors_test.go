package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// How the outcome of a step is taken decides whether accounts are lost or doubled.
func TestWhatAnErrorLeavesOpen(t *testing.T) {
	timeout := &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	for name, test := range map[string]struct {
		err                  error
		unknown, unavailable bool
	}{
		"none":           {nil, false, false},
		"read time-out":  {timeout, true, true},
		"cut":            {io.EOF, true, true},
		"cut in a reply": {io.ErrUnexpectedEOF, true, true},
		"reset":          {&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, true, true},
		"broken pipe":    {&net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}, true, true},
		"deadline":       {context.DeadlineExceeded, true, true},

		"refused":              {fmt.Errorf("%w: %w", errNotSent, syscall.ECONNREFUSED), false, true},
		"time-out of the dial": {fmt.Errorf("%w: %w", errNotSent, timeout), false, true},
		"never sent":           {errors.Join(errNotSent, context.Canceled), false, true},
		"late before sending":  {errors.Join(errNotSent, context.DeadlineExceeded), false, true},

		"loading":       {redis.Error("LOADING Redis is loading the dataset in memory"), false, true},
		"master down":   {redis.Error("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), false, true},
		"cluster down":  {redis.Error("CLUSTERDOWN The cluster is down"), false, true},
		"busy":          {redis.Error("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), false, true},
		"out of memory": {redis.Error("OOM command not allowed when used memory > 'maxmemory'."), false, true},
		"OOM in Lua":    {redis.Error("ERR Error running script (call to f_0): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'."), false, true},
		"disk full":     {redis.Error("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), false, true},
		"read-only":     {redis.Error("READONLY You can't write against a read only replica."), false, true},
		"no replicas":   {redis.Error("NOREPLICAS Not enough good replicas to write."), false, true},
		"max clients":   {redis.Error("ERR max number of clients reached"), false, true},

		"wrong type":     {redis.Error("WRONGTYPE Operation against a key holding the wrong kind of value"), false, false},
		"no script":      {redis.Error("NOSCRIPT No matching script. Please use EVAL."), false, false},
		"no auth":        {redis.Error("NOAUTH Authentication required."), false, false},
		"wrong password": {fmt.Errorf("%w: %w", errNotSent, redis.Error("WRONGPASS invalid username-password pair or user is disabled.")), false, false},
		"busy key":       {redis.Error("BUSYKEY Target key name already exists."), false, false},
		"busy group":     {redis.Error("BUSYGROUP Consumer Group name already exists"), false, false},
		"other":          {redis.Error("ERR unknown command 'FOO'"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{test.err, wrap(test.err), wrap(wrap(test.err))} {
				if got := Unknown(err); got != test.unknown {
					t.Errorf("Unknown(%v) is %v", err, got)
				}
				if got := Unavailable(err); got != test.unavailable {
					t.Errorf("Unavailable(%v) is %v", err, got)
				}
			}
		})
	}
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("claim, shard 3: %w", err)
}

func TestCodesAreOnlyThoseOfReplies(t *testing.T) {
	for _, test := range []struct {
		err  error
		code string
		want bool
	}{
		{redis.Error("NOSCRIPT No matching script. Please use EVAL."), "NOSCRIPT", true},
		{wrap(redis.Error("WRONGTYPE Operation against a key")), "WRONGTYPE", true},
		{redis.Error("ERR no such key"), "no such key", true},
		{redis.Error("ERR"), "NOSCRIPT", false},
		{errors.New("NOSCRIPT, says somebody else"), "NOSCRIPT", false},
		{nil, "NOSCRIPT", false},
	} {
		if got := HasCode(test.err, test.code); got != test.want {
			t.Errorf("HasCode(%v, %q) is %v", test.err, test.code, got)
		}
	}
}

// Findings are no unknown outcomes, and no reason to wait for Redis: a program that joins
// with other settings must not try for ever.
func TestFindingsAreCertain(t *testing.T) {
	for _, err := range []error{Finding("x"), ErrReply, ErrInput} {
		if wrapped := wrap(err); Unknown(wrapped) || Unavailable(wrapped) || !errors.Is(wrapped, err) {
			t.Errorf("%v: unknown %v, unavailable %v", err, Unknown(wrapped), Unavailable(wrapped))
		}
	}
	if errors.Is(Finding("x"), Finding("x")) {
		t.Error("two findings of one text are the same")
	}
}
