package wiretest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Step is a call of some kind. It returns the call's error.
type Step func(ctx context.Context, w *wire.Wire) error

// CancelledBeforeSending tests that nothing is sent if the context is done before a step
// begins, and that the outcome is known.
func CancelledBeforeSending(t *testing.T, steps map[string]Step) {
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			Against(t, silence, func(t *testing.T, w *wire.Wire, p *Peer) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				err := step(ctx, w)
				if !errors.Is(err, context.Canceled) || wire.Unknown(err) {
					t.Errorf("unknown %v: %v", wire.Unknown(err), err)
				}
				ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
				defer cancel()
				if err := step(ctx, w); !errors.Is(err, context.DeadlineExceeded) || wire.Unknown(err) {
					t.Errorf("unknown %v: %v", wire.Unknown(err), err)
				}
				synctest.Wait()
				if n := p.Sent(); n != 0 {
					t.Errorf("%d commands were sent", n)
				}
			})
		})
	}
}

// EndsAtItsDeadline tests that a step that is not answered ends at its deadline, and
// that its outcome is unknown.
func EndsAtItsDeadline(t *testing.T, steps map[string]Step) {
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			Against(t, silence, func(t *testing.T, w *wire.Wire, p *Peer) {
				for _, test := range []struct{ deadline, want time.Duration }{
					{700 * time.Millisecond, 700 * time.Millisecond}, {time.Hour, wire.CallTimeout}, {0, wire.CallTimeout},
				} {
					ctx, cancel := t.Context(), context.CancelFunc(func() {})
					if test.deadline > 0 {
						ctx, cancel = context.WithTimeout(ctx, test.deadline)
					}
					began := time.Now()
					err := step(ctx, w)
					if took := time.Since(began); took != test.want {
						t.Errorf("deadline %v: took %v, want %v", test.deadline, took, test.want)
					}
					if !wire.Unknown(err) || !wire.Unavailable(err) {
						t.Errorf("unknown %v, unavailable %v: %v", wire.Unknown(err), wire.Unavailable(err), err)
					}
					cancel()
				}
			})
		})
	}
}

// NonsenseIsNoPanic tests that a step returns, whatever a server replies.
func NonsenseIsNoPanic(t *testing.T, steps map[string]Step) {
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
				Against(t, answer, func(t *testing.T, w *wire.Wire, _ *Peer) {
					defer func() {
						if p := recover(); p != nil {
							t.Errorf("reply %d, %q: %v", i, reply, p)
						}
					}()
					_ = step(t.Context(), w) // some replies are valid for some steps
				})
			}
		})
	}
}
