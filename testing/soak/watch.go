package main

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// watcher records when each account was asked about.
type watcher struct {
	mu      sync.Mutex
	last    map[string]time.Time
	gaps    map[string][]time.Duration // between two calls
	spoiled map[string]bool            // accounts that had a fault of their own
}

func newWatcher() *watcher {
	return &watcher{last: make(map[string]time.Time), gaps: make(map[string][]time.Duration), spoiled: make(map[string]bool)}
}

func (w *watcher) sync(openKfID, _ string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if before, ok := w.last[openKfID]; ok {
		w.gaps[openKfID] = append(w.gaps[openKfID], now.Sub(before))
	}
	w.last[openKfID] = now
}

func (w *watcher) spoil(openKfID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spoiled[openKfID] = true
}

// quantile returns a quantile of the gaps of accounts that had no fault of their own.
func (w *watcher) quantile(ids []string, q float64) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []time.Duration
	for _, id := range ids {
		if !w.spoiled[id] {
			all = append(all, w.gaps[id]...)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
