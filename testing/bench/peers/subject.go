package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"time"
)

const (
	subjectCommand = "subject"
	pollEvery      = 20 * time.Millisecond
)

// spec describes a subject; it does not change while the process lives.
type spec struct {
	Kind      string `json:"kind"` // ring, bare, poller, asynq, rmq
	Redis     string `json:"redis"`
	Namespace string `json:"namespace,omitempty"`
	Accounts  int    `json:"accounts"`
	Bytes     int    `json:"bytes,omitempty"`   // of a record or payload
	Shards    int    `json:"shards,omitempty"`  // of the bare pattern: pairs of lists
	Queues    int    `json:"queues,omitempty"`  // that asynq's tasks and rmq's deliveries are spread over; 0: one
	Cadence   string `json:"cadence,omitempty"` // of the poller's accounts
	URL       string `json:"url,omitempty"`     // of a connector that the poller's accounts ask; empty: a checker that does nothing
}

// settings are how a subject works; they may differ between runs.
type settings struct {
	InFlight    int    `json:"in_flight,omitempty"`   // held besides what is being worked on
	Servers     int    `json:"servers,omitempty"`     // asynq's servers, rmq's connections, the ring's pollers
	Concurrency int    `json:"concurrency,omitempty"` // of one of them
	Pool        int    `json:"pool,omitempty"`        // connections of one asynq server, 0: its default; deliveries that one of rmq's connections has waiting
	Batch       int    `json:"batch,omitempty"`       // how many the ring, or the bare pattern, claims and returns at once; 0: 128
	Workers     int    `json:"workers,omitempty"`     // of the ring, or the bare pattern; 0: 4
	Give        string `json:"give,omitempty"`        // how the ring returns claims: "", later or news
	Monitor     bool   `json:"monitor,omitempty"`     // a monitor runs beside the pollers
	Warm        bool   `json:"warm,omitempty"`        // the pollers check every account once before they are measured

	Settle time.Duration `json:"settle,omitempty"` // and then go on for so long: what was due meanwhile is checked first
}

func (s settings) batch() int   { return cmp.Or(s.Batch, batch) }
func (s settings) workers() int { return cmp.Or(s.Workers, ringWorkers) }

func (s settings) String() string {
	text, _ := json.Marshal(s) // plain fields are always marshalled
	return string(text)
}

// order is a line that is sent to a subject.
type order struct {
	Do       string        `json:"do"` // start, measure, stop
	For      time.Duration `json:"for,omitempty"`
	Settings settings      `json:"settings"`
}

// answer is the line that it sends back.
type answer struct {
	Error   string             `json:"error,omitempty"`
	Cycles  int64              `json:"cycles,omitempty"`
	Seconds float64            `json:"seconds,omitempty"`
	CPU     float64            `json:"cpu,omitempty"` // seconds of the process' own processor time
	Allocs  float64            `json:"allocs,omitempty"`
	Values  map[string]float64 `json:"values,omitempty"`
}

// subject is one system under measurement, in a process of its own.
type subject interface {
	fill(ctx context.Context) error
	start(ctx context.Context, s settings) error
	// measure counts cycles for a while.
	measure(ctx context.Context, d time.Duration) (cycles int64, err error)
	stop(ctx context.Context) error
}

// observed is a subject that can report more about the last measurement.
type observed interface {
	observe() (map[string]float64, error)
}

func newSubject(s spec) (subject, error) {
	switch s.Kind {
	case "ring":
		return &ringSubject{spec: s}, nil
	case "bare":
		return &bareSubject{spec: s}, nil
	case "poller":
		return &pollerSubject{spec: s}, nil
	case "asynq":
		return &asynqSubject{spec: s}, nil
	case "rmq":
		return &rmqSubject{spec: s}, nil
	}
	return nil, fmt.Errorf("kind: there is no subject %q", s.Kind)
}

// serveSubject is the process: it fills, reports that it is ready and does what it is
// told until its input ends.
func serveSubject(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var s spec
	if len(args) != 1 {
		return errors.New("subject: wants one spec")
	}
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return fmt.Errorf("subject: spec: %w", err)
	}
	it, err := newSubject(s)
	if err != nil {
		return err
	}
	encode := json.NewEncoder(out)
	if err := encode.Encode(toAnswer(it.fill(ctx))); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("subject: order: %w", err)
		}
		if err := encode.Encode(obey(ctx, it, o)); err != nil {
			return err
		}
	}
	return lines.Err()
}

func toAnswer(err error) answer {
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{}
}

func obey(ctx context.Context, it subject, o order) answer {
	switch o.Do {
	case "start":
		return toAnswer(it.start(ctx, o.Settings))
	case "stop":
		return toAnswer(it.stop(ctx))
	case "measure":
		return measured(ctx, it, o.For)
	}
	return answer{Error: fmt.Sprintf("there is no order %q", o.Do)}
}

func measured(ctx context.Context, it subject, d time.Duration) answer {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, used := time.Now(), ownCPU()
	cycles, err := it.measure(ctx, d)
	if err != nil {
		return toAnswer(err)
	}
	a := answer{Cycles: cycles, Seconds: time.Since(began).Seconds(), CPU: ownCPU() - used}
	runtime.ReadMemStats(&after)
	a.Allocs = float64(after.Mallocs - before.Mallocs)
	if o, ok := it.(observed); ok {
		if a.Values, err = o.observe(); err != nil {
			return toAnswer(err)
		}
	}
	return a
}

// ownCPU returns how many seconds of processor time this process has used.
func ownCPU() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0 // impossible with these arguments
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
