package history

import "time"

// Beat is the content of a replica's heartbeat.
type Beat struct {
	At time.Time // by Redis' clock
	// Totals are nil for a replica of an earlier version. Then its rates are used, which
	// cover only the time since its heartbeat before.
	Totals                     *Totals
	Checks, Failures, Messages float64 // per second
}

// Rates computes what all replicas did between two samples. The zero Rates knows nothing
// yet.
type Rates struct {
	last map[string]tempo
}

// tempo is how fast a replica was when it was last asked.
type tempo struct {
	beat                       Beat
	checks, failures, messages float64 // per second
}

// longest is the longest time between two heartbeats from which rates are taken.
const longest = 5 * time.Minute

// Set sets the rates and the lateness of a sample from the last heartbeats of the living
// replicas, by name.
func (r *Rates) Set(s *Sample, beats map[string]Beat) {
	now := make(map[string]tempo, len(beats))
	var late Lateness
	var checks, failures, messages float64
	for name, beat := range beats {
		t := tempo{beat, beat.Checks, beat.Failures, beat.Messages}
		if before, ok := r.last[name]; ok {
			if beat.At.Equal(before.beat.At) { // no new heartbeat
				t = before
			} else if done, over, ok := beat.after(before.beat); ok {
				t.checks, t.failures, t.messages = float64(done.Checks)/over, float64(done.Failures)/over, float64(done.Messages)/over
				late = late.plus(done.Lateness)
			}
		}
		now[name] = t
		checks, failures, messages = checks+t.checks, failures+t.failures, messages+t.messages
	}
	r.last = now
	s.Set(ChecksPerSecond, checks)
	s.Set(MessagesPerSecond, messages)
	if checks > 0 {
		s.Set(FailingShare, min(1, failures/checks))
	}
	if p99 := late.Quantile(0.99); p99 > 0 {
		s.Set(LatenessP50, late.Quantile(0.5))
		s.Set(LatenessP99, p99)
	}
}

// after returns what a replica did since an earlier heartbeat, and in how many seconds.
// It returns false if that is unknown.
func (b Beat) after(before Beat) (done Totals, seconds float64, ok bool) {
	over := b.At.Sub(before.At)
	now, then := b.Totals, before.Totals
	if now == nil || then == nil || over <= 0 || over > longest || now.Checks < then.Checks || now.Failures < then.Failures || now.Messages < then.Messages {
		return Totals{}, 0, false
	}
	late, ok := now.Lateness.since(then.Lateness)
	return Totals{now.Checks - then.Checks, now.Failures - then.Failures, now.Messages - then.Messages, late}, over.Seconds(), ok
}
