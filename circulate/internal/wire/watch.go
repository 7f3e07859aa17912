package wire

import (
	"context"
	"errors"
	"time"
)

// absence is since when a node does not serve, and a key that was asked of it then.
type absence struct {
	since time.Time
	key   string
}

// Note takes the outcome of a call that concerned a key, and began at a time: one
// that had its answer before the server went away does not say that it is back. The
// absence of a node is logged once, and its return once. So is that it is at its
// memory limit: there it serves what frees or only reads, so that success of a step
// does not say that there is room.
func (w *Wire) Note(key string, began time.Time, err error) {
	if errors.Is(err, context.Canceled) || Redirected(err) {
		return // our own doing; a shard on its way, at a node that serves
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
		if _, known := w.away[node]; !known {
			if w.away == nil {
				w.away = make(map[string]absence)
			}
			w.away[node] = absence{time.Now(), key}
			w.log.Warn("redis does not serve; trying again until it does", about(node, "error", err)...)
		}
		return
	}
	for name, a := range w.away {
		// The node itself is back, or this one serves now what that one did.
		if began.After(a.since) && (name == node || w.NodeOf(a.key) == node) {
			delete(w.away, name)
			w.log.Info("redis serves again", about(name, "away", time.Since(a.since).Round(time.Millisecond))...)
		}
	}
}

// about adds the node, where there are several, to what is logged.
func about(node string, args ...any) []any {
	if node == "" {
		return args
	}
	return append(args, "node", node)
}

// noteCall is Note for a call that does not wait for anything: how long it took says
// something of Redis.
func (w *Wire) noteCall(key string, began time.Time, err error) {
	w.Note(key, began, err)
	if w.observe != nil {
		w.observe(time.Since(began), err)
	}
}

// fullness is since when a node is at its memory limit, and when it last said so.
type fullness struct{ since, last time.Time }

// roomAfter is for how long nothing was refused when a node counts as having room
// again. One at its limit takes a little now and then.
const roomAfter = 30 * time.Second

// noteFull takes that a node refused to take more.
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

// NoteRoom takes that the node of a key accepted now what it refuses at its limit.
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
