package poller

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/limit"
	"github.com/rounds-dev/rounds/poller/egress"
	"github.com/rounds-dev/rounds/poller/internal/panics"
)

// tracesAtOnce is how many looks at third parties a replica takes at once.
const tracesAtOnce = 2

// tracePauses are how long a send has been unknown when it is looked for. A third party may show it only
// after a while.
func tracePauses() []time.Duration {
	return []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute}
}

const textTraced = "its answer was lost, and the third party has it"

// traces looks for unknown sends whose kind is a Tracer. It remembers in this process how often it has
// looked; another process looks anew, which changes nothing.
type traces struct {
	sends *sends
	room  chan struct{}

	mu    sync.Mutex
	looks map[string]*traceLooks // by the send's id
}

// traceLooks are the looks for an attempt of a send.
type traceLooks struct {
	fence   string
	done    int
	running bool
	last    time.Time
}

func newTraces(s *sends) *traces {
	return &traces{sends: s, room: make(chan struct{}, tracesAtOnce), looks: make(map[string]*traceLooks)}
}

// pending reports whether a send is still to be looked for, and begins a look that is due.
func (t *traces) pending(ctx context.Context, send *circulate.Send, view *circulate.View) bool {
	account, _, err := accounts.ReadStored(view.Record)
	tracer, ok := t.sends.checkers.Sender(send.Kind).(Tracer)
	if err != nil || !ok || account.Kind != send.Kind || view.Now.After(send.Since.Add(sendGiveUp)) ||
		answer("Sending", tracer.Sending, account.Config, nil).Doubt != DoubtTraces {
		return false
	}
	from := egressOf(&account)
	if way, _ := t.sends.config.Ways.Choose(&from); way != "" {
		if of, _ := t.sends.troubles.waiting(limit.TroubleKey(wayName(way))); of != nil {
			return true // a look would fail, and there are few
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	looks := t.looks[send.ID]
	if looks == nil || looks.fence != send.Fence {
		t.forget()
		looks = &traceLooks{fence: send.Fence, last: time.Now()}
		t.looks[send.ID] = looks
	}
	switch pauses := tracePauses(); {
	case looks.running:
		return true
	case looks.done == len(pauses):
		return false
	case view.Now.Before(send.Since.Add(pauses[looks.done])):
		return true
	}
	select {
	case t.room <- struct{}{}:
	default:
		return true // the next look at unknown sends tries again
	}
	looks.running, looks.last = true, time.Now()
	one := *send
	t.sends.aside.Go(func() {
		t.look(egress.For(ctx, &from), tracer, account.Config, &one)
		t.mu.Lock()
		looks.running = false
		looks.done++
		t.mu.Unlock()
		<-t.room
		t.sends.doubted.give()
	})
	return true
}

// forget removes the looks for sends that have long been resolved or given up. The caller holds the lock.
func (t *traces) forget() {
	for id, looks := range t.looks {
		if !looks.running && time.Since(looks.last) > sendGiveUp {
			delete(t.looks, id)
		}
	}
}

// look looks for a send once. If the third party has it, it is accepted.
func (t *traces) look(ctx context.Context, tracer Tracer, config json.RawMessage, send *circulate.Send) {
	s := t.sends
	within, cancel := context.WithTimeout(ctx, s.config.SendTimeout)
	defer cancel()
	type result struct {
		sent  Sent
		found bool
		err   error
	}
	ended := make(chan result, 1)
	go func() {
		r := result{err: errors.New(panics.Ended)}
		defer func() {
			if reason := recover(); reason != nil {
				s.metrics.panics.WithLabelValues(send.Kind).Inc()
				s.log.Error("a sender panicked", "kind", send.Kind, "account", send.Account, "panic", panics.Type(reason))
			}
			ended <- r
		}()
		r.sent, r.found, r.err = tracer.Trace(within, SendRequest{
			Account: send.Account, Config: orEmpty(config), ID: send.ID, Attempt: send.Attempts, Peer: send.Peer, Type: send.Type, Data: send.Data,
		})
	}()
	var r result
	select {
	case r = <-ended:
	case <-within.Done():
		timer := time.NewTimer(abandonAfter)
		defer timer.Stop()
		select {
		case r = <-ended:
		case <-timer.C:
			r.err = within.Err()
		}
	}
	switch {
	case r.err != nil:
		s.log.Debug("an unknown send was not looked for", "send", send.ID, "code", Classify(r.err).Code)
	case r.found:
		_, err := s.outbox.Resolve(s.writes, send.ID, circulate.Resolution{Fence: send.Fence, To: circulate.SendAccepted, Text: textTraced, VendorID: r.sent.VendorID})
		if err != nil { // somebody else has resolved it, or Redis is away: the next look finds it again
			s.log.Debug("an unknown send was not resolved", "send", send.ID, "error", err)
		}
	}
}
