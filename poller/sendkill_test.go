package poller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// killer kills a replica at some point of a send: from then on, the replica reaches Redis no more.
type killer struct {
	mu     sync.Mutex
	point  string
	killed chan struct{}
}

// at kills the replica if this is its point.
func (k *killer) at(point string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if point != k.point {
		return false
	}
	if !k.isDead() {
		close(k.killed)
	}
	return true
}

func (k *killer) isDead() bool {
	select {
	case <-k.killed:
		return true
	default:
		return false
	}
}

// has reports whether a script has an argument.
func has(step faketime.Step, arg string) bool {
	return step.Command == "EVALSHA" && slices.ContainsFunc(step.Args, func(a any) bool { return a == any(arg) })
}

// The points at which a replica is killed.
const (
	beforeAttempt = "before the attempt is noted"
	afterAttempt  = "when the attempt is noted, with its reply lost"
	beforeCall    = "before the call"
	afterYes      = "after the third party's yes"
	settleLost    = "when the outcome is written, with its reply lost"
)

func (k *killer) fate(step faketime.Step) faketime.Fate {
	attempts, settles := has(step, circulate.ReasonPaused), has(step, string(circulate.AttemptAccepted))
	reply, _ := step.Reply.([]any)
	switch {
	case step.At == faketime.Called && attempts && len(reply) > 2 && k.at(afterAttempt),
		step.At == faketime.Called && settles && k.at(settleLost):
		return faketime.ReplyLost
	case step.At == faketime.Call && attempts && k.at(beforeAttempt), k.isDead() && step.At != faketime.Called:
		return faketime.NotDone
	}
	return faketime.Healthy
}

// A replica may be killed at any point of a send. No send then reaches the third party twice, and each
// of which nobody knows whether it did is listed as unknown.
func TestAKilledReplicaDoublesNoSend(t *testing.T) {
	for _, point := range []string{beforeAttempt, afterAttempt, beforeCall, afterYes, settleLost} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			redistest.Each(t, func(t *testing.T, server redistest.Redis) { killAt(t, server, point) })
		})
	}
}

func killAt(t *testing.T, server circulate.Server, point string) {
	k := &killer{point: point, killed: make(chan struct{})}
	faulty := &faketime.Faulty{Server: server}
	faulty.Set(k.fate)
	open := func(server circulate.Server) *circulate.Ring {
		ring, err := circulate.Open(t.Context(), server, circulate.Options{Namespace: "kill", Shards: 1, Log: testLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		return ring
	}
	ring, first := open(server), open(faulty)
	if _, err := ring.Register(t.Context(), 0, []circulate.Registration{{ID: "a", Record: []byte(`{"id":"a","kind":"talker","cadence":"every 1h"}`), Due: time.Now().Add(time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	sends, ids := ring.Sends(), []string(nil)
	for i := range 6 {
		s := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "talker", Peer: fmt.Sprint("peer", i%4), Type: "text"}
		if _, _, err := sends.Queue(t.Context(), s, "", circulate.SendBounds{}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID)
	}

	vendor, sent := newTalker(), make(chan struct{}, 2*len(ids))
	vendor.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
		if k.at(beforeCall) {
			return poller.Sent{}, errors.New("killed")
		}
		got := vendor.take(r)
		k.at(afterYes)
		sent <- struct{}{}
		return got, nil
	}
	run := func(ring *circulate.Ring, hurry chan struct{}) (stop func()) {
		checkers, err := poller.NewCheckers(vendor)
		if err != nil {
			t.Fatal(err)
		}
		pool, err := poller.New(ring, checkers, poller.Config{}, poller.Options{Log: testLog(t), Hurry: hurry})
		if err != nil {
			t.Fatal(err)
		}
		return faketime.Go(t, pool.Run)
	}
	hurry := make(chan struct{})
	close(hurry)
	stop := run(first, hurry)
	<-k.killed
	stop()

	// A monitor finds out that the replica is dead, and another replica goes on.
	k.mu.Lock()
	k.point = ""
	k.mu.Unlock()
	if _, err := sends.Sweep(t.Context(), 0, 100, 0, nil); err != nil {
		t.Fatal(err)
	}
	left, err := sends.Count(t.Context(), 0)
	if err != nil || left.Attempting != 0 {
		t.Fatalf("after the sweep: %+v, %v", left, err)
	}
	for len(sent) > 0 {
		<-sent
	}
	stop = run(ring, nil)
	for range left.Queued {
		<-sent
	}
	stop()

	doubts, _, err := sends.List(t.Context(), 0, circulate.GroupUnknown, "", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	got := vendor.has()
	for _, id := range ids {
		times := 0
		for _, other := range got {
			if other == id {
				times++
			}
		}
		s, err := sends.Look(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		listed := slices.ContainsFunc(doubts, func(d circulate.Send) bool { return d.ID == id })
		switch {
		case times > 1:
			t.Errorf("the third party has a send %d times", times)
		case s.State == circulate.SendAccepted && times == 1 && !listed, s.State == circulate.SendUnknown && listed:
		default:
			t.Errorf("a send that the third party has %d times is %s, listed: %v", times, s.State, listed)
		}
	}
	if point == beforeAttempt && len(doubts) > 0 {
		t.Errorf("%d sends are in doubt, though none was attempted", len(doubts))
	}
}
