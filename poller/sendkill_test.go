package poller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/sendtest"
)

// A replica may be killed at any point of a send. No send then reaches the third party twice, and each
// of which nobody knows whether it did is listed as unknown.
func TestAKilledReplicaDoublesNoSend(t *testing.T) {
	start := func(*testing.T) *sendtest.Outlet {
		vendor := newTalker()
		var cut atomic.Int64
		return &sendtest.Outlet{
			Kind: "talker", Config: "{}", Peer: func(n int) string { return fmt.Sprint("peer", n%4) },
			Sender: func(l *sendtest.Line) poller.Sender {
				k := newTalker()
				k.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
					if err := l.Begin(); err != nil {
						return poller.Sent{}, err
					}
					sent := vendor.take(r)
					if err := l.End(); err != nil {
						return poller.Sent{}, err
					}
					if cut.Add(-1) >= 0 {
						return poller.Sent{}, errors.New("cut")
					}
					return sent, nil
				}
				return k
			},
			Taken: func() (texts []string) {
				vendor.mu.Lock()
				defer vendor.mu.Unlock()
				for _, r := range vendor.vendor {
					var content struct{ Text string }
					if err := json.Unmarshal(r.Data, &content); err != nil {
						t.Error(err)
					}
					texts = append(texts, content.Text)
				}
				return texts
			},
			Cut: func(times int) { cut.Store(int64(times)) },
		}
	}
	sendtest.Run(t, false, start)
	t.Run("while its attempts wait", func(t *testing.T) {
		t.Parallel()
		sendtest.RunInWait(t, start)
	})
}
