package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/datadir"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// kept is an embedded server that keeps what it has in a directory.
type kept struct {
	*connect.Embedded
	dir  *datadir.Dir
	stop func()
}

// openKept starts an embedded server with what the directory of the settings has, and saves
// it there from now on. What says what the process is.
func openKept(ctx context.Context, s settings.Redis, version, what string, log *slog.Logger) (*kept, error) {
	server := connect.NewEmbedded()
	dir, err := datadir.Open(ctx, server, datadir.Options{
		Path: s.DataDir, Within: s.DataWithin, Program: version, What: what, Passing: passing, Log: log,
	})
	if err != nil {
		_ = server.Close() // it has nothing
		return nil, fmt.Errorf("ROUNDS_DATA_DIR: %w", err)
	}
	saving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var saves sync.WaitGroup
	saves.Go(func() { dir.Run(saving) })
	return &kept{server, dir, func() { stop(); saves.Wait() }}, nil
}

// passing reports whether a key changes with time alone: who is alive, what was seen of the
// clock, the last audit, charts. It would have a service without any account saved again and
// again.
func passing(key string) bool {
	parts := strings.FieldsFunc(key, func(c rune) bool { return c == ':' || c == '{' || c == '}' })
	return len(parts) > 1 && slices.ContainsFunc(parts[1:min(3, len(parts))], func(part string) bool {
		return slices.Contains([]string{"replicas", "clock", "bulletins", "series"}, part)
	})
}

// Name says where everything is.
func (k *kept) Name() string { return "embedded, kept in " + k.dir.State().Path }

// Close saves what is not saved yet, and ends the server. The error says what is lost.
func (k *kept) Close() error {
	k.stop()
	err := k.dir.Close()
	if err != nil {
		err = fmt.Errorf("what changed since %s is lost: %w", k.dir.State().Saved.Local().Format("2006-01-02 15:04:05"), err)
	}
	return errors.Join(err, k.Embedded.Close())
}

// failing returns why what changes cannot be saved, without the path; nil: it can.
func (k *kept) failing() error {
	s := k.dir.State()
	if s.Why == nil {
		return nil
	}
	return fmt.Errorf("the data directory cannot be written since %s (%w): what changes is in memory alone, and a restart would lose it; it is tried again all the time",
		s.Failing.Local().Format("15:04:05"), reasonOf(s.Why))
}

// reasonOf returns the error of the operating system, which names no path, or the whole error.
func reasonOf(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}
