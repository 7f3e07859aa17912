package wire

import (
	"context"
	"errors"
	"time"
)

// absence is since when a node does not serve, when it last said so, and the key of that
// call.
type absence struct {
	since, last time.Time
	from        time.Time // when the first call began that failed
	key         string
	reads       bool // it refuses only writes
}

// outage is when a node did not serve.
type outage struct{ from, till time.Time }

// flapsWithin is how soon after an outage another one counts as the same.
const flapsWithin = 10 * time.Second

// writesAfter is how long a node that refused only writes must refuse nothing to count as
// back. Its replies in between may be replies to reads. A replica writes its heartbeat
// every two seconds.
const writesAfter = 5 * time.Second

// Note records the result of a call on a key, and when the call began: a reply to a call
// from before the server went away does not prove that it is back. The absence of a node
// is logged once, and so is its return. The same holds for a node at its memory limit. That
// node still serves steps that free memory or only read, so a successful step does not
// prove that it has room.
func (w *Wire) Note(key string, began time.Time, err error) {
	if errors.Is(err, context.Canceled) || Redirected(err) {
		return // our own doing, or a shard is leaving a node that serves
	}
	if Full(err) {
		w.noteFull(key, time.Now(), err)
		return
	}
	gone := Unavailable(err) || LockedOut(err)
	if err != nil && !gone {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !gone && len(w.away) == 0 {
		return
	}
	node := w.NodeOf(key)
	if gone {
		a, known := w.away[node]
		if !known {
			if w.away == nil {
				w.away = make(map[string]absence)
			}
			a = absence{since: time.Now(), from: began, key: key}
			text := "redis does not serve; trying again until it does"
			if refusesWrites(err) {
				text = "redis refuses writes; trying again until it accepts them"
			}
			w.log.Warn(text, about(node, "error", err)...)
		}
		a.last, a.reads = time.Now(), refusesWrites(err)
		if began.Before(a.from) {
			a.from = began
		}
		w.away[node] = a
		return
	}
	for name, a := range w.away {
		// The node itself is back, or this node now serves the other one's keys.
		if a.reads && began.Sub(a.last) < writesAfter {
			continue
		}
		if began.After(a.since) && (name == node || w.NodeOf(a.key) == node) {
			delete(w.away, name)
			w.noteReturn(node, a)
			w.log.Info("redis serves again", about(name, "away", time.Since(a.since).Round(time.Millisecond))...)
		}
	}
}

// noteReturn remembers an outage of a node that has just ended.
func (w *Wire) noteReturn(node string, a absence) {
	if w.outages == nil {
		w.outages = make(map[string]outage)
	}
	now := outage{from: a.from, till: time.Now()}
	if last, known := w.outages[node]; known && now.from.Sub(last.till) < flapsWithin {
		now.from = last.from
	}
	w.outages[node] = now
}

// LastOutage returns when the node that serves a key last did not serve this process: from
// when the first call began that failed until the first one was done. The end of an outage
// that lasts is now. It returns zero if there was none.
func (w *Wire) LastOutage(key string) (from, till time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.away) == 0 && len(w.outages) == 0 {
		return from, till
	}
	node := w.NodeOf(key)
	o := w.outages[node]
	if a, away := w.away[node]; away {
		if o.till.IsZero() || a.from.Sub(o.till) >= flapsWithin {
			o.from = a.from
		}
		o.till = time.Now()
	}
	return o.from, o.till
}

// AwaySince returns since when the first node that is away has not served. It returns
// zero if all serve, as far as is known.
func (w *Wire) AwaySince() (first time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.away {
		if first.IsZero() || a.since.Before(first) {
			first = a.since
		}
	}
	return first
}

// refusesWrites reports whether a node said that it accepts no writes now. It may still
// serve reads.
func refusesWrites(err error) bool {
	return HasCode(err, "MISCONF") || HasCode(err, "READONLY") || HasCode(err, "NOREPLICAS")
}

// about adds the node to the attributes of a log line, if there are several nodes.
func about(node string, args ...any) []any {
	if node == "" {
		return args
	}
	return append(args, "node", node)
}

// noteCall is Note for a call that does not block. The duration of such a call is a
// measure of Redis.
func (w *Wire) noteCall(key string, began time.Time, err error) {
	w.Note(key, began, err)
	w.observeCall(began, err)
}

// observeCall reports a call that does not block to Options.Observe.
func (w *Wire) observeCall(began time.Time, err error) {
	if w.observe != nil {
		w.observe(time.Since(began), err)
	}
}

// fullness is since when a node is at its memory limit, and when it last said so.
type fullness struct{ since, last time.Time }

// roomAfter is how long a node must refuse nothing to count as having room again. A full
// node accepts a small write from time to time.
const roomAfter = 30 * time.Second

// noteFull records that a node refused a write for lack of memory.
func (w *Wire) noteFull(key string, now time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	node := w.NodeOf(key)
	f, known := w.full[node]
	if !known {
		if w.full == nil {
			w.full = make(map[string]fullness)
		}
		f.since = now
		w.log.Warn("redis is at its memory limit; it takes nothing more until something is trimmed or removed", about(node, "error", err)...)
	}
	f.last = now
	w.full[node] = f
}

// NoteRoom records that the node of a key has just accepted a write that it refuses at
// its limit.
func (w *Wire) NoteRoom(key string) { w.noteRoom(key, time.Now()) }

func (w *Wire) noteRoom(key string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.full) == 0 {
		return
	}
	node := w.NodeOf(key)
	f, known := w.full[node]
	if !known || now.Sub(f.last) < roomAfter {
		return
	}
	delete(w.full, node)
	w.log.Info("redis has room again", about(node, "full", now.Sub(f.since).Round(time.Millisecond))...)
}
