package wire_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// told is a log that keeps its lines: level and text.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (*told) Enabled(context.Context, slog.Level) bool { return true }
func (h *told) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h *told) WithGroup(string) slog.Handler          { return h }

func (h *told) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, r.Level.String()+" "+r.Message)
	return nil
}

func (h *told) expect(t *testing.T, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.lines, want) {
		t.Errorf("told %q, want %q", h.lines, want)
	}
	h.lines = nil
}

const (
	tellsAway = "WARN redis does not serve; trying again until it does"
	tellsBack = "INFO redis serves again"
)

func TestAbsenceAndReturnAreToldOnce(t *testing.T) {
	log := &told{}
	server := connect.NewEmbedded()
	t.Cleanup(func() { _ = server.Close() })
	ring, err := circulate.Open(context.Background(), server, circulate.Options{Shards: 2, Log: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	use := func(works bool) {
		t.Helper()
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				_, err := ring.Claim(context.Background(), 0, "alice00000", 10, 0)
				_, countErr := ring.Count(context.Background(), 1)
				if _, beatErr := ring.Heartbeat(context.Background(), "alice00000", nil, time.Minute); (err == nil && countErr == nil && beatErr == nil) != works {
					t.Errorf("claim: %v, count: %v, heartbeat: %v", err, countErr, beatErr)
				}
			})
		}
		calls.Wait()
	}
	use(true)
	log.expect(t)
	for range 3 {
		server.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
		use(false)
		use(false)
		log.expect(t, tellsAway)
		server.Miniredis().SetError("")
		use(true)
		use(true)
		log.expect(t, tellsBack)
	}
}

// A node that refuses only writes is logged once, however many reads it answers meanwhile.
// It is back when it has refused nothing for a while.
func TestRefusedWritesAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &told{}
		w := wire.New(absent{}, "rounds", wire.Options{Log: slog.New(log)})
		for _, refusal := range []string{"MISCONF Redis is configured to save RDB snapshots", "READONLY You can't write against a read only replica.", "NOREPLICAS Not enough good replicas to write."} {
			for range 5 {
				w.Note("a", time.Now(), redis.Error(refusal))
				time.Sleep(2 * time.Second)
				w.Note("a", time.Now(), nil)
			}
			log.expect(t, "WARN redis refuses writes; trying again until it accepts them")
			time.Sleep(3 * time.Second)
			w.Note("a", time.Now(), nil)
			log.expect(t, tellsBack)
		}
		w.Note("a", time.Now(), redis.Error("MISCONF Redis is configured to save RDB snapshots"))
		w.Note("a", time.Now(), errors.New("connection refused"))
		time.Sleep(time.Millisecond)
		w.Note("a", time.Now(), nil)
		log.expect(t, "WARN redis refuses writes; trying again until it accepts them", tellsBack)
	})
}

// absent is a server without connections.
type absent struct{ err error }

func (a absent) Conn(context.Context, string) (redis.Conn, error) { return nil, a.err }

func TestServerThatCannotBeReachedIsToldOnce(t *testing.T) {
	log := &told{}
	w := wire.New(absent{errors.New("connection refused")}, "rounds", wire.Options{Log: slog.New(log)})
	for range 3 {
		if _, err := w.Pipeline(context.Background(), "key", wire.Command{"TIME"}); wire.Unknown(err) || !wire.Unavailable(err) {
			t.Errorf("unknown %v, unavailable %v: %v", wire.Unknown(err), wire.Unavailable(err), err)
		}
	}
	log.expect(t, tellsAway)
}

// A server that refuses the password is logged once, and logged once more when it accepts
// the password again.
func TestARefusedPasswordIsToldOnce(t *testing.T) {
	log := &told{}
	server := connect.NewEmbedded()
	t.Cleanup(func() { _ = server.Close() })
	ring, err := circulate.Open(context.Background(), server, circulate.Options{Shards: 2, Log: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 3 {
		ring.Wire(wire.Insider{}).Note("a", began, redis.Error("WRONGPASS invalid username-password pair or user is disabled."))
	}
	log.expect(t, tellsAway)
	ring.Wire(wire.Insider{}).Note("a", began, redis.Error("NOPERM this user may not")) // of one command
	ring.Wire(wire.Insider{}).Note("a", time.Now(), nil)
	log.expect(t, tellsBack)
}

func TestOurOwnDoingIsNoAbsence(t *testing.T) {
	log := &told{}
	w := wire.New(absent{}, "rounds", wire.Options{Log: slog.New(log)})
	note := func(err error) { w.Note("", time.Now(), err) }
	for _, err := range []error{
		nil, context.Canceled, errors.Join(wire.ErrNotSent, context.Canceled),
		redis.Error("WRONGTYPE Operation against a key"), redis.Error("ERR syntax error"),
	} {
		note(err)
	}
	log.expect(t)
	note(redis.Error("MASTERDOWN Link with MASTER is down"))
	log.expect(t, tellsAway)
	// It answers, but nothing shows yet that it serves.
	note(redis.Error("ERR syntax error"))
	note(context.Canceled)
	log.expect(t)
	note(nil)
	log.expect(t, tellsBack)
}

// An answer from before the server went away does not prove that it is back.
func TestLateAnswerIsNoReturn(t *testing.T) {
	log := &told{}
	w := wire.New(absent{}, "rounds", wire.Options{Log: slog.New(log)})
	began := time.Now()
	w.Note("key", began, errors.New("EOF"))
	w.Note("key", began, nil)
	w.Note("key", began, errors.New("EOF"))
	log.expect(t, tellsAway)
	w.Note("key", time.Now().Add(time.Second), nil)
	log.expect(t, tellsBack)
}

// TestCallsAreObserved reports each call once, including one that found no connection.
func TestCallsAreObserved(t *testing.T) {
	var seen []error
	refused := errors.New("connection refused")
	w := wire.New(absent{refused}, "rounds", wire.Options{Observe: func(_ time.Duration, err error) { seen = append(seen, err) }})
	if _, err := w.Eval(context.Background(), wire.NewScript("nothing", "return 1"), []string{"a"}, nil); err == nil {
		t.Error("a script was done")
	}
	if _, err := w.Pipeline(context.Background(), "key", wire.Command{"TIME"}); err == nil {
		t.Error("a pipeline was done")
	}
	if len(seen) != 2 || !errors.Is(seen[0], refused) || !errors.Is(seen[1], refused) {
		t.Errorf("observed %v", seen)
	}
}

// loads is a server that loads its data.
type loads struct{}

func (loads) Conn(context.Context, string) (redis.Conn, error) { return &loading{}, nil }

// loading is a connection to a server that loads its data. The server does what Redis does
// meanwhile, and refuses the rest.
type loading struct {
	redis.ConnWithTimeout
	sent []string
}

func (*loading) Close() error { return nil }
func (*loading) Err() error   { return nil }
func (*loading) Flush() error { return nil }

func (l *loading) Send(name string, _ ...any) error {
	l.sent = append(l.sent, name)
	return nil
}

func (l *loading) ReceiveWithTimeout(time.Duration) (any, error) {
	name := l.sent[0]
	l.sent = l.sent[1:]
	return l.DoWithTimeout(0, name)
}

func (l *loading) DoWithTimeout(_ time.Duration, name string, _ ...any) (any, error) {
	switch name {
	case "TIME", "INFO", "PUBLISH":
		return "OK", nil
	}
	return nil, redis.Error("LOADING Redis is loading the dataset in memory")
}

// A Redis that loads its data does some commands. They are no return.
func TestLoadingIsNoReturn(t *testing.T) {
	log := &told{}
	seen := 0
	w := wire.New(loads{}, "rounds", wire.Options{Log: slog.New(log), Observe: func(time.Duration, error) { seen++ }})
	script := wire.NewScript("nothing", "return 1")
	if _, err := w.Eval(t.Context(), script, []string{"a"}, nil); !wire.Unavailable(err) {
		t.Fatal(err)
	}
	log.expect(t, tellsAway)
	for _, name := range []string{"TIME", "INFO", "PUBLISH"} {
		if _, err := w.Pipeline(t.Context(), "a", wire.Command{name}); err != nil {
			t.Fatal(err)
		}
		w.PipelineEach(t.Context(), wire.Ordinary, []wire.Batch{{Key: "a", Commands: []wire.Command{{name}}}})
	}
	w.PipelineEach(t.Context(), wire.Ordinary, []wire.Batch{{Key: "a", Commands: []wire.Command{{"TIME"}, {"LLEN", "a"}}}})
	for _, reply := range w.EvalEach(t.Context(), script, []wire.Call{{Keys: []string{"a"}}, {Keys: []string{"b"}}}) {
		if !wire.Unavailable(reply.Err) {
			t.Error(reply.Err)
		}
	}
	log.expect(t)
	if seen != 9 {
		t.Errorf("%d calls were observed, want 9", seen)
	}
}

// An outage began with the first call that failed, however late it failed, and ended with the
// first that was done. Outages in quick succession are one.
func TestLastOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wire.New(absent{}, "rounds", wire.Options{})
		began := time.Now()
		expect := func(from, till time.Duration) {
			t.Helper()
			if f, to := w.LastOutage("a"); f.Sub(began) != from || to.Sub(began) != till {
				t.Errorf("from %v till %v, want %v till %v", f.Sub(began), to.Sub(began), from, till)
			}
		}
		if from, till := w.LastOutage("a"); !from.IsZero() || !till.IsZero() {
			t.Errorf("from %v till %v", from, till)
		}
		time.Sleep(5 * time.Second)
		w.Note("a", began.Add(4*time.Second), errors.New("EOF"))
		w.Note("a", began.Add(time.Second), errors.New("i/o timeout"))
		time.Sleep(time.Second)
		expect(time.Second, 6*time.Second) // it lasts
		w.Note("a", time.Now(), nil)
		time.Sleep(9 * time.Second)
		expect(time.Second, 6*time.Second)
		w.Note("a", time.Now(), errors.New("EOF"))
		time.Sleep(time.Second)
		expect(time.Second, 16*time.Second)
		w.Note("a", time.Now(), nil)
		expect(time.Second, 16*time.Second)
		time.Sleep(10 * time.Second)
		w.Note("a", time.Now(), errors.New("EOF"))
		time.Sleep(time.Second)
		expect(26*time.Second, 27*time.Second)
		w.Note("a", time.Now(), nil)
		expect(26*time.Second, 27*time.Second)
	})
}
