package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/datadir"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// ownRedis is an embedded server that stores its data in a directory.
type ownRedis struct {
	*connect.Embedded
	dir  *datadir.Dir
	stop func()
}

// openOwn starts an embedded server with the data in the settings' directory, and stores its
// changes there from now on. what says what the process is.
func openOwn(ctx context.Context, s settings.Redis, version, what string, log *slog.Logger) (*ownRedis, error) {
	server := connect.NewEmbedded()
	dir, err := datadir.Open(ctx, server, datadir.Options{
		Path: s.DataDir, Within: s.DataWithin, Program: version, What: what, Passing: passing, Log: log,
	})
	if err != nil {
		_ = server.Close() // it has no data
		return nil, fmt.Errorf("ROUNDS_DATA_DIR: %w", err)
	}
	saving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var saves sync.WaitGroup
	saves.Go(func() { dir.Run(saving) })
	return &ownRedis{server, dir, func() { stop(); saves.Wait() }}, nil
}

// passing reports whether a key changes just because time passes, such as signs of life, the
// clock's state, the last audit and charts. Such keys would make a service without any account
// save again and again.
func passing(key string) bool {
	parts := strings.FieldsFunc(key, func(c rune) bool { return c == ':' || c == '{' || c == '}' })
	return len(parts) > 1 && slices.ContainsFunc(parts[1:min(3, len(parts))], func(part string) bool {
		return slices.Contains([]string{"replicas", "clock", "bulletins", "series"}, part)
	})
}

// Name says where everything is stored.
func (o *ownRedis) Name() string { return "embedded, kept in " + o.dir.State().Path }

// Close saves what is unsaved, and ends the server. The error says what is lost.
func (o *ownRedis) Close() error {
	o.stop()
	err := o.dir.Close()
	if err != nil {
		err = fmt.Errorf("what changed since %s may be lost: %w", clockTime(o.dir.State().Saved), err)
	}
	return errors.Join(err, o.Embedded.Close())
}

// Survey reports the state of the directory, in place of a server's settings.
func (o *ownRedis) Survey(context.Context) ([]connect.Node, error) {
	s := o.dir.State()
	node := connect.Node{Name: o.Name()}
	say := func(code connect.ConcernCode, value, format string, args ...any) {
		node.Concerns = append(node.Concerns, connect.Concern{Node: s.Path, Code: code, Value: value, Text: "data directory " + s.Path + ": " + fmt.Sprintf(format, args...)})
	}
	if s.Why != nil {
		why := reasonOf(s.Why).Error()
		say(connect.ConcernUnsaved, why, "it cannot be written since %s (%s), so %s; see its disk", clockTime(s.Failing), why, consequence(s))
	}
	for _, d := range s.Damaged {
		if _, err := os.Stat(filepath.Join(s.Path, d.Name)); err == nil { // a removed file means that somebody has seen it
			say(connect.ConcernDamaged, d.Name, "a file was damaged (%s): what came after %s is lost; it is now %s, and this ends when you remove it", d.Reason, clockTime(d.Used), d.Name)
		}
	}
	if s.Large() {
		say(connect.ConcernLarge, "", "so much is kept in it that saving takes long: rounds backup - | rounds restore - --to redis://HOST:PORT moves everything to a Redis")
	}
	return []connect.Node{node}, nil
}

func clockTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// export exposes the state of the directory as metrics.
func (o *ownRedis) export(registry prometheus.Registerer) {
	gauge := func(name, help string, value func(datadir.State) float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "rounds", Subsystem: "data", Name: name, Help: help},
			func() float64 { return value(o.dir.State()) }))
	}
	gauge("saved_timestamp_seconds", "What came until then would survive a power failure; 0: there was nothing.", func(s datadir.State) float64 {
		if s.Saved.IsZero() {
			return 0
		}
		return float64(s.Saved.UnixMilli()) / 1000
	})
	gauge("unsaved", "1 while the data directory cannot be written.", func(s datadir.State) float64 {
		if s.Why != nil {
			return 1
		}
		return 0
	})
	gauge("paused_seconds", "How long all commands stood still for the last image.", func(s datadir.State) float64 { return s.Stood.Seconds() })
	gauge("save_seconds", "How long the last image took, without the disk's syncing.", func(s datadir.State) float64 { return s.Took.Seconds() })
	gauge("file_bytes", "The size of the newest image.", func(s datadir.State) float64 { return float64(s.Packed) })
	gauge("log_bytes", "What is in the log since the newest image.", func(s datadir.State) float64 { return float64(s.Log) })
	counts(registry, "data_saves_failed_total", "Images and writes to the log that failed.", func() int64 { return int64(o.dir.State().Fails) })
}

// failing returns why changes cannot be saved, without the path, or nil if they can.
func (o *ownRedis) failing() error {
	s := o.dir.State()
	if s.Why == nil {
		return nil
	}
	return fmt.Errorf("the data directory cannot be written since %s (%w), so %s; it is tried again all the time",
		clockTime(s.Failing), reasonOf(s.Why), consequence(s))
}

// consequence says what happens when a directory cannot be written.
func consequence(s datadir.State) string {
	if s.Refusing {
		return "nothing may change until it can, and nothing is checked"
	}
	return "its log grows, in which everything still is"
}

// reasonOf returns the operating system's error, which names no path, or else the whole error.
func reasonOf(err error) error {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number
	}
	return err
}
