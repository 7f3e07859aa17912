package poller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

// hosts are several third parties and the network in front of them.
type hosts struct {
	*world
	gone  atomic.Bool // the network is gone
	dying atomic.Bool // those whose name begins with "dying" have died
}

func (h *hosts) check(ctx context.Context, r poller.Request) (poller.Result, error) {
	var c struct{ Host string }
	if err := json.Unmarshal(r.Config, &c); err != nil {
		return poller.Result{}, err
	}
	time.Sleep(20 * time.Millisecond)
	if h.gone.Load() || strings.HasPrefix(c.Host, "dead") || h.dying.Load() && strings.HasPrefix(c.Host, "dying") {
		return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Code: "connect", Message: "no route to host", Network: true}
	}
	return poller.Result{}, nil
}

// rate returns how many checks there were in a minute at the hosts whose names begin with
// host.
func (h *hosts) rate(host string, from time.Time) (n int) {
	h.checker.mu.Lock()
	defer h.checker.mu.Unlock()
	for id, calls := range h.checker.seen {
		if !strings.HasPrefix(id, host) {
			continue
		}
		for _, c := range calls {
			if !c.at.Before(from) && c.at.Before(from.Add(time.Minute)) {
				n++
			}
		}
	}
	return n
}

// The network is gone for two minutes and comes back. A minute later each living host has all
// its checks again, whatever the other hosts do, and the suspicion ends.
func TestRateIsBackAMinuteAfterAnOutage(t *testing.T) {
	for name, tt := range map[string]struct {
		hosts     map[string]int // beginning of the name -> number of hosts
		accounts  int            // of each
		cadence   string
		atStart   bool          // the network is gone when the replica starts
		suspected bool          // while it is gone
		until     time.Duration // when the suspicion must be over; 0: within a minute
		slow      bool          // full rate by backoff alone
	}{
		"one busy host and two dead ones": {
			hosts: map[string]int{"live": 1, "dead": 2}, accounts: 20, cadence: "every 10s", suspected: true},
		"one slow host and six dead ones": {
			hosts: map[string]int{"live": 1, "dead": 6}, accounts: 5, cadence: "every 30s", suspected: true},
		"many hosts": {
			hosts: map[string]int{"live": 100}, accounts: 1, cadence: "every 1m", suspected: true},
		"many hosts, most of them dead": {
			hosts: map[string]int{"live": 6, "dead": 18}, accounts: 2, cadence: "every 30s", suspected: true},
		"two of three die during the outage": {
			hosts: map[string]int{"live": 1, "dying": 2}, accounts: 4, cadence: "every 30s", suspected: true, until: 65 * time.Minute},
		"most of many die during the outage": {
			hosts: map[string]int{"live": 4, "dying": 12}, accounts: 1, cadence: "every 30s", suspected: true, until: 65 * time.Minute},
		"nobody had answered before": {
			hosts: map[string]int{"live": 1, "dead": 4}, accounts: 5, cadence: "every 10s", atStart: true, suspected: true, until: 2 * time.Minute},
		"there is one host only": {
			hosts: map[string]int{"live": 1}, accounts: 20, cadence: "every 10s", slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(w *world) {
				h := &hosts{world: w}
				w.checker.check = h.check
				for host, n := range tt.hosts {
					for i := range n {
						for k := range tt.accounts {
							w.registerRecord(fmt.Sprintf("%s%03d-%03d", host, i, k), fmt.Sprintf(
								`{"id":"%s%03d-%03d","kind":"scripted","cadence":%q,"config":{"host":"%s%d"}}`, host, i, k, tt.cadence, host, i))
						}
					}
				}
				h.gone.Store(tt.atStart)
				stop := w.start(poller.Config{})
				defer stop()
				var usual int
				if !tt.atStart {
					time.Sleep(2 * time.Minute)
					usual = h.rate("live", time.Now().Add(-time.Minute))
					h.gone.Store(true)
				}
				time.Sleep(2 * time.Minute)
				if is := w.counted("rounds_outage_suspected", "") == 1; is != tt.suspected {
					t.Errorf("suspected: %t", is)
				}
				h.dying.Store(true)
				h.gone.Store(false)
				back := time.Now()
				settle := time.Minute
				if tt.slow {
					settle = 4 * time.Minute
				}
				time.Sleep(settle + time.Minute)
				if tt.atStart {
					every, _ := time.ParseDuration(strings.TrimPrefix(tt.cadence, "every "))
					usual = tt.accounts * int(time.Minute/every)
				}
				rates := []int{h.rate("live", back), h.rate("live", back.Add(settle))}
				t.Logf("checks a minute at those alive: %d before, %d in the first minute after, then %d", usual, rates[0], rates[1])
				if usual == 0 || rates[1] < usual*97/100 || rates[1] > usual*103/100 {
					t.Errorf("%d checks a minute, want %d", rates[1], usual)
				}
				time.Sleep(tt.until)
				if w.counted("rounds_outage_suspected", "") != 0 {
					t.Error("it is still suspected")
				}
				// The suspicion does not return.
				before := w.counted("rounds_put_back_total", "outage")
				time.Sleep(5 * time.Minute)
				if n := w.counted("rounds_put_back_total", "outage") - before; n > 0 {
					t.Errorf("%v checks were put off afterwards", n)
				}
				if n := h.rate("live", time.Now().Add(-time.Minute)); n < usual*97/100 {
					t.Errorf("%d checks a minute in the end, want %d", n, usual)
				}
			})
		})
	}
}
