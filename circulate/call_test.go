package circulate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// peer is a server that answers as the test says: for each command a pause and
// then a reply, or no reply at all where that is empty.
type peer struct {
	answer func(nth int, name string) (pause time.Duration, reply string)

	sent    atomic.Int64
	serving sync.WaitGroup
}

func (p *peer) Conn(context.Context, string) (redis.Conn, error) {
	ours, theirs := net.Pipe()
	p.serving.Go(func() { p.serve(theirs) })
	return redis.NewConn(ours, 10*time.Second, 5*time.Second), nil
}

func (p *peer) serve(conn net.Conn) {
	defer conn.Close()
	commands := make(chan string, 100)
	go func() {
		defer close(commands)
		in := bufio.NewReader(conn)
		for {
			name, err := readCommand(in)
			if err != nil {
				return
			}
			commands <- name
		}
	}()
	for name := range commands {
		pause, reply := p.answer(int(p.sent.Add(1)), name)
		time.Sleep(pause)
		if _, err := io.WriteString(conn, reply); err != nil {
			_ = conn.Close()
		}
	}
}

// readCommand reads an array of bulk strings and gives the first.
func readCommand(in *bufio.Reader) (string, error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	if err != nil {
		return "", err
	}
	name := ""
	for i := range n {
		size, err := number()
		if err != nil {
			return "", err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return "", err
		}
		if i == 0 {
			name = string(text[:size])
		}
	}
	return name, nil
}

// against runs a test in fake time on a ring of one shard over a peer.
func against(t *testing.T, answer func(nth int, name string) (time.Duration, string), test func(t *testing.T, r *Ring, p *peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &peer{answer: answer}
		r := newRing(p)
		test(t, r, p)
		p.serving.Wait()
	})
}

func newRing(server Server) *Ring {
	return &Ring{wire: wire.New(server, "rounds", wire.Options{}), namespace: "rounds", log: slog.New(slog.DiscardHandler), keys: []shardKeys{newShardKeys("rounds", 1, 0)}}
}

func silence(int, string) (time.Duration, string) { return 0, "" }

// steps are calls of every kind.
var steps = map[string]func(ctx context.Context, r *Ring) error{
	"claim": func(ctx context.Context, r *Ring) error { _, err := r.Claim(ctx, 0, "alice00000", 1, 0); return err },
	"return": func(ctx context.Context, r *Ring) error {
		_, err := r.Return(ctx, 0, []Return{{Claim: held()}})
		return err
	},
	"progress": func(ctx context.Context, r *Ring) error { return r.Progress(ctx, held(), Page{}) },
	"release":  func(ctx context.Context, r *Ring) error { _, err := r.Release(ctx, 0, []*Claim{held()}); return err },
	"requeue": func(ctx context.Context, r *Ring) error {
		_, err := r.Requeue(ctx, 0, Held{text: held().entry})
		return err
	},
	"oldest": func(ctx context.Context, r *Ring) error { _, _, err := r.Oldest(ctx, 0, 0, 1); return err },
	"register": func(ctx context.Context, r *Ring) error {
		_, err := r.Register(ctx, 0, []Registration{{ID: "a"}})
		return err
	},
	"deregister": func(ctx context.Context, r *Ring) error { _, err := r.Deregister(ctx, 0, []string{"a"}); return err },
	"park":       func(ctx context.Context, r *Ring) error { _, err := r.Park(ctx, 0, "x", []string{"a"}); return err },
	"resume":     func(ctx context.Context, r *Ring) error { return r.Resume(ctx, "a", time.Time{}) },
	"nudge":      func(ctx context.Context, r *Ring) error { return r.Nudge(ctx, Nudge{ID: "a"}) },
	"look":       func(ctx context.Context, r *Ring) error { _, err := r.Look(ctx, 0, []string{"a"}); return err },
	"scan":       func(ctx context.Context, r *Ring) error { _, _, err := r.Scan(ctx, 0, "", 1); return err },
	"count":      func(ctx context.Context, r *Ring) error { _, err := r.Count(ctx, 0); return err },
	"messages":   func(ctx context.Context, r *Ring) error { _, err := r.Messages(ctx, 0, StreamStart, 1); return err },
	"trim":       func(ctx context.Context, r *Ring) error { _, _, err := r.TrimMessages(ctx, 0, time.Hour); return err },
	"trim to":    func(ctx context.Context, r *Ring) error { _, _, err := r.TrimMessagesTo(ctx, 0, 1); return err },
	"heartbeat": func(ctx context.Context, r *Ring) error {
		_, err := r.Heartbeat(ctx, "alice00000", nil, time.Minute)
		return err
	},
	"acquire": func(ctx context.Context, r *Ring) error {
		answers, err := r.Acquire(ctx, []Asks{{Limit: oneAtOnce, Asks: []Ask{{CheckID: "a"}}}})
		return errors.Join(err, answers[0].Err)
	},
	"leave": func(ctx context.Context, r *Ring) error {
		return r.Leave(ctx, []Leaving{{Limit: oneAtOnce, CheckIDs: []string{"a"}}})
	},
	"refund": func(ctx context.Context, r *Ring) error {
		return r.Refund(ctx, []Refund{{Limit: oneAtOnce, Granted: time.UnixMicro(1), CheckIDs: []string{"a"}}})
	},
	"retire":   func(ctx context.Context, r *Ring) error { return r.Retire(ctx, "alice00000") },
	"replicas": func(ctx context.Context, r *Ring) error { _, _, err := r.Replicas(ctx); return err },
	"check":    func(ctx context.Context, r *Ring) error { return r.Check(ctx) },
	"now":      func(ctx context.Context, r *Ring) error { _, err := r.Now(ctx, 0); return err },
}

var oneAtOnce = Limit{Name: "a", Concurrency: 1, Lease: time.Minute}

func held() *Claim {
	return &Claim{ID: "a", entry: Entry{1, time.UnixMilli(1), "alice00000", "a"}.String()}
}

func TestCancelledBeforeSendingIsNotSent(t *testing.T) {
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			against(t, silence, func(t *testing.T, r *Ring, p *peer) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				err := step(ctx, r)
				if !errors.Is(err, context.Canceled) || Unknown(err) {
					t.Errorf("unknown %v: %v", Unknown(err), err)
				}
				ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
				defer cancel()
				if err := step(ctx, r); !errors.Is(err, context.DeadlineExceeded) || Unknown(err) {
					t.Errorf("unknown %v: %v", Unknown(err), err)
				}
				synctest.Wait()
				if n := p.sent.Load(); n != 0 {
					t.Errorf("%d commands were sent", n)
				}
			})
		})
	}
}

func TestCallEndsAtItsDeadlineWithAnUnknownOutcome(t *testing.T) {
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			against(t, silence, func(t *testing.T, r *Ring, p *peer) {
				for _, test := range []struct{ deadline, want time.Duration }{
					{700 * time.Millisecond, 700 * time.Millisecond}, {time.Hour, wire.CallTimeout}, {0, wire.CallTimeout},
				} {
					ctx, cancel := t.Context(), context.CancelFunc(func() {})
					if test.deadline > 0 {
						ctx, cancel = context.WithTimeout(ctx, test.deadline)
					}
					began := time.Now()
					err := step(ctx, r)
					if took := time.Since(began); took != test.want {
						t.Errorf("deadline %v: took %v, want %v", test.deadline, took, test.want)
					}
					if !Unknown(err) || !Unavailable(err) {
						t.Errorf("unknown %v, unavailable %v: %v", Unknown(err), Unavailable(err), err)
					}
					cancel()
				}
			})
		})
	}
}

// TestSlowDripEndsAtTheDeadline has each reply of a pipeline come just in time,
// and all of them together far too late.
func TestSlowDripEndsAtTheDeadline(t *testing.T) {
	drip := func(int, string) (time.Duration, string) { return 900 * time.Millisecond, "+OK\r\n" }
	against(t, drip, func(t *testing.T, r *Ring, _ *peer) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := r.Count(ctx, 0)
		if took := time.Since(began); took > 1100*time.Millisecond || !Unknown(err) {
			t.Errorf("took %v, unknown %v: %v", took, Unknown(err), err)
		}
	})
}

// A reply under way is waited for: to give up on it would make an unknown
// outcome of one that is about to be known.
func TestCancelledWhileUnderWayIsWaitedFor(t *testing.T) {
	slow := func(int, string) (time.Duration, string) { return 2 * time.Second, "$1\r\nr\r\n" }
	against(t, slow, func(t *testing.T, r *Ring, _ *peer) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		if err := r.Resume(ctx, "a", time.Time{}); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// A second try after NOSCRIPT is bound by the same deadline, and is not sent
// where ctx was cancelled meanwhile; then the outcome is known: nothing was done.
func TestNoScriptIsTriedAgainOnce(t *testing.T) {
	const noScript = "-NOSCRIPT No matching script. Please use EVAL.\r\n"
	always := func(int, string) (time.Duration, string) { return 100 * time.Millisecond, noScript }
	against(t, always, func(t *testing.T, r *Ring, p *peer) {
		if err := r.Resume(t.Context(), "a", time.Time{}); !wire.HasCode(err, "NOSCRIPT") || Unknown(err) {
			t.Error(err)
		}
		if n := p.sent.Load(); n != 2 {
			t.Errorf("%d commands were sent, want EVALSHA and EVAL", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := r.Resume(ctx, "a", time.Time{}); !Unknown(err) {
			t.Error(err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if err := r.Resume(ctx, "a", time.Time{}); !errors.Is(err, context.Canceled) || Unknown(err) {
			t.Error(err)
		}
	})
}

func TestNonsenseRepliesAreErrorsAndNoPanic(t *testing.T) {
	replies := []string{
		"+OK\r\n", ":1\r\n", "$-1\r\n", "$0\r\n\r\n", "$1\r\nx\r\n", "*0\r\n", "*-1\r\n", "*1\r\n*0\r\n", "*2\r\n:1\r\n:1\r\n", "*2\r\n$1\r\nx\r\n$1\r\ny\r\n",
		"*11\r\n" + strings.Repeat(":1\r\n", 11), "*11\r\n" + strings.Repeat("$-1\r\n", 11),
		"*11\r\n" + strings.Repeat(":1\r\n", 6) + "*1\r\n$1\r\nx\r\n" + strings.Repeat("*0\r\n", 4),
		"*11\r\n" + strings.Repeat(":1\r\n", 5) + strings.Repeat("*1\r\n$41\r\n"+strings.Repeat("0", 41)+"\r\n", 2) + strings.Repeat("*0\r\n", 4),
		"*3\r\n+OK\r\n$-1\r\n*0\r\n", "-ERR no\r\n", "-\r\n", "?\r\n",
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			for i, reply := range replies {
				answer := func(int, string) (time.Duration, string) { return 0, reply }
				against(t, answer, func(t *testing.T, r *Ring, _ *peer) {
					defer func() {
						if p := recover(); p != nil {
							t.Errorf("reply %d, %q: %v", i, reply, p)
						}
					}()
					_ = step(t.Context(), r) // some of them are lawful for some steps
				})
			}
		})
	}
}

// A batch's bounds are ours: nothing reaches Redis that it would have to refuse
// half way.
func TestBatchesOutOfBoundsAreNotSent(t *testing.T) {
	server := connect.NewEmbedded()
	t.Cleanup(func() { _ = server.Close() })
	ring, err := Open(context.Background(), server, Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	server.Miniredis().SetError("ERR something was sent")
	ctx := context.Background()
	for _, n := range []int{-1, 0, MaxBatch + 1} {
		ids := make([]string, max(0, n))
		items, claims, returns := make([]Registration, len(ids)), make([]*Claim, len(ids)), make([]Return, len(ids))
		for i := range ids {
			ids[i] = fmt.Sprint("a", i)
			items[i].ID, claims[i], returns[i].Claim = ids[i], held(), held()
		}
		var errs [7]error
		_, errs[0] = ring.Claim(ctx, 0, "alice00000", n, 0)
		_, errs[1] = ring.Register(ctx, 0, items)
		_, errs[2] = ring.Deregister(ctx, 0, ids)
		_, errs[3] = ring.Park(ctx, 0, "x", ids)
		_, errs[4] = ring.Look(ctx, 0, ids)
		_, errs[5] = ring.Release(ctx, 0, claims)
		_, errs[6] = ring.Return(ctx, 0, returns)
		for i, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "a batch has 1 to 1000 accounts") {
				t.Errorf("call %d with %d: %v", i, n, err)
			}
		}
	}
}
