package main

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/testing/upstream"
)

// ofThirds are the faults of the third party.
func ofThirds() []fault {
	ended := func(outcome string) sign {
		return counter(rolePoller, "rounds_checks_total", fmt.Sprintf("outcome=%q", outcome))
	}
	outage := counter(rolePoller, "rounds_outage_suspected")
	return []fault{
		{name: "check-hung", invariant: "I3 I6", sign: ended("transient"), inject: misbehaving(30, checkTime+time.Second, upstream.Fault{Hang: true})},
		{name: "check-slow", invariant: "I3", sign: above(rolePoller, "rounds_check_seconds", "1.024").times(10), inject: misbehaving(100, 4*time.Second, upstream.Fault{Delay: 1700 * time.Millisecond})},
		{name: "check-garbage", invariant: "I4", sign: ended("protocol"), inject: misbehaving(60, 3*time.Second, upstream.Fault{Garbage: true})},
		{name: "check-throttled", invariant: "I6", sign: ended("rate_limited"), inject: misbehaving(80, 3*time.Second, upstream.Fault{Status: http.StatusTooManyRequests, RetryAfter: "1"})},
		{name: "check-error-500", invariant: "I4 I6", sign: ended("transient"), inject: misbehaving(60, 3*time.Second, upstream.Fault{Status: http.StatusInternalServerError})},
		{name: "check-unavailable-503", invariant: "I4 I6", sign: ended("transient"), inject: misbehaving(60, 3*time.Second, upstream.Fault{Status: http.StatusServiceUnavailable, RetryAfter: "1"})},
		{name: "check-oversized", invariant: "I4 I6", sign: ended("protocol"), inject: wicked(20, oversized)},
		{name: "check-severed", invariant: "I4", sign: ended("transient"), inject: wicked(60, severed)},
		{name: "check-gone", invariant: "I1", sign: counter(rolePoller, "rounds_parked_total"), inject: gone},
		{name: "host-down", invariant: "I4 I6", sign: ended("transient"), inject: func(t *turn) (func() error, error) {
			return t.hostsDown(1, func() error { return t.last(4 * time.Second) })
		}},
		{name: "all-hosts-down", invariant: "I4 I6", sign: ended("transient"), inject: func(t *turn) (func() error, error) {
			return t.hostsDown(len(t.third.hosts), func() error { return t.last(4 * time.Second) })
		}},
		// Replicas judge by the last minute, so it takes that long until they suspect
		// their network.
		{name: "own-network-down", invariant: "I6", within: wholeWithin, sign: outage, inject: func(t *turn) (func() error, error) {
			if err := t.untilUnsuspected(); err != nil {
				return nil, err
			}
			t.injected = time.Now()
			return t.hostsDown(len(t.third.hosts), func() error { return firstOf(t.untilSuspected(), t.last(5*time.Second)) })
		}},
	}
}

// untilSuspected lasts until a poller suspects its own network. Pollers judge by the last
// minute, so it takes that long.
func (t *turn) untilSuspected() error {
	t.untilWithin(90*time.Second, func() bool {
		return t.fault.sign.of(t.snap(t)).grown(nil) > 0 || t.last(time.Second) != nil
	})
	return t.Err()
}

// untilUnsuspected waits until no poller suspects its own network because of an earlier
// fault.
func (t *turn) untilUnsuspected() error {
	t.untilWithin(wholeWithin, func() bool {
		return t.fault.sign.of(t.snap(t)).grown(nil) == 0 || t.last(time.Second) != nil
	})
	return t.Err()
}

// misbehaving has some connectors answer badly.
func misbehaving(n int, length time.Duration, f upstream.Fault) func(t *turn) (func() error, error) {
	return func(t *turn) (func() error, error) {
		ids := t.connectors(n)
		t.hits(ids...)
		t.third.misbehave(ids, f)
		return t.goodAgain(ids), t.last(length)
	}
}

func wicked(n int, k wickedness) func(t *turn) (func() error, error) {
	return func(t *turn) (func() error, error) {
		ids := t.connectors(n)
		t.hits(ids...)
		t.third.beWicked(ids, k)
		return t.goodAgain(ids), t.last(3 * time.Second)
	}
}

func (t *turn) goodAgain(ids []string) func() error {
	return func() error {
		t.third.behave(ids)
		return nil
	}
}

// gone parks accounts, which an operator then resumes. That ends the fault.
func gone(t *turn) (func() error, error) {
	ids := t.connectors(20)
	t.hits(ids...)
	t.third.misbehave(ids, upstream.Fault{Status: http.StatusGone})
	return func() error {
		t.third.behave(ids)
		if err := t.last(time.Second); err != nil { // until no account is told so any more
			return err
		}
		for _, id := range ids {
			if outcome, status := t.clients.request(t, resume, id); outcome != done {
				return fmt.Errorf("resume %s: %v %d", id, outcome, status)
			}
		}
		return nil
	}, t.last(3 * time.Second)
}

// hostsDown has hosts refuse connections until last returns.
func (t *turn) hostsDown(n int, last func() error) (func() error, error) {
	hosts := make([]*host, 0, n)
	for _, i := range t.random.Perm(len(t.third.hosts))[:n] {
		hosts = append(hosts, t.third.hosts[i])
	}
	t.hitsHosts(hosts...)
	for _, h := range hosts {
		h.down()
	}
	return func() error {
		var errs []error
		for _, h := range hosts {
			errs = append(errs, t.third.up(h))
		}
		return errors.Join(errs...)
	}, last()
}

// ofData are faults in the ring's keys, and storms through the API.
func ofData(audits bool) []fault {
	setAside := counter(rolePoller, "rounds_set_aside_total")
	faults := []fault{
		{name: "garbage-in-queues", invariant: "I1 I6", sign: setAside, inject: garbage("message_queue", "message_queue:urgent", "message_queue:low")},
		{name: "garbage-in-processing", invariant: "I1 I6", sign: counter(roleMonitor, "rounds_requeued_total", `reason="set_aside"`), inject: garbage("processing_list")},
		{name: "wrong-type", invariant: "I1 I6", sign: setAside, inject: wrongType},
		{name: "storm-register-race", invariant: "I1 I5", sign: counter(roleAPI, "rounds_api_requests_total", `code="4`).times(100), inject: func(t *turn) (func() error, error) {
			ids := make([]string, 8)
			for i := range ids {
				ids[i] = fmt.Sprintf("storm-%d-%d", t.number, i)
			}
			t.clients.storm(t, ids, t.random.Uint64(), 3*time.Second)
			return nil, t.Err()
		}},
		{name: "storm-nudge", invariant: "I3 I6", sign: counter(rolePoller, "rounds_wakeups_total").times(1200), inject: func(t *turn) (func() error, error) {
			var group sync.WaitGroup
			for range 10 {
				ids := t.some(len(t.base))
				group.Go(func() { t.clients.nudge(t, ids) })
			}
			group.Wait()
			return nil, t.Err()
		}},
	}
	if audits {
		repaired := func(t *turn) error {
			command := exec.Command(t.binary, "audit", "--repair")
			command.Env = []string{"ROUNDS_API_URL=" + t.clients.url, "ROUNDS_REDIS_URL=" + t.redis.URL(), "ROUNDS_NAMESPACE=" + namespace}
			out, err := command.CombinedOutput()
			if err != nil && command.ProcessState.ExitCode() != 1 { // 1: something was repaired
				return fmt.Errorf("audit: %w\n%s", err, out)
			}
			return nil
		}
		found := counter(roleMonitor, "rounds_audits_total", `outcome="violated"`)
		// They last until an audit has found them and an operator has repaired them.
		deleted := func(names ...string) func(t *turn) (func() error, error) {
			return func(t *turn) (func() error, error) {
				before := t.snap(t)
				for shard := range shards {
					for _, name := range names {
						if _, err := t.admin("DEL", key(shard, name)); err != nil {
							return nil, err
						}
					}
				}
				t.untilWithin(auditedWithin, func() bool { return found.shown(before, t.snap(t)) || t.last(signEvery) != nil })
				return func() error { return repaired(t) }, t.Err()
			}
		}
		faults = append(faults,
			fault{name: "schedule-deleted", invariant: "I1", straggler: true, sign: found, inject: deleted("schedule")},
			fault{name: "lists-deleted", invariant: "I1", straggler: true, sign: found, inject: deleted("message_queue", "message_queue:urgent", "message_queue:low", "processing_list")},
		)
	}
	return faults
}

// auditedWithin is the time in which an audit finds what is lost. If the auditing monitor
// was killed, another takes over half a minute later.
const auditedWithin = time.Minute

// garbage puts texts that are no entries into lists where they are found at once.
func garbage(lists ...string) func(t *turn) (func() error, error) {
	return func(t *turn) (func() error, error) {
		for shard := range shards {
			for _, list := range lists {
				for _, text := range []string{"", "x", "|||", "00000000000001|", string([]byte{0, 255, 10})} {
					if _, err := t.admin("RPUSH", key(shard, list), text); err != nil {
						return nil, err
					}
				}
			}
		}
		return nil, t.last(time.Second)
	}
}

// wrongType puts a text in the place of a shard's list of waiting accounts, if that list
// is empty.
func wrongType(t *turn) (func() error, error) {
	changed := 0
	for shard := range shards {
		if reply, err := t.admin("SET", key(shard, "message_queue:low"), "x", "NX"); err != nil {
			return nil, err
		} else if reply != nil {
			changed++
		}
	}
	if changed == 0 {
		return nil, errors.New("every lane had accounts waiting")
	}
	return nil, t.last(time.Second)
}
