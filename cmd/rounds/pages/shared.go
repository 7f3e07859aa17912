package pages

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	sharedLasts = time.Second      // how long a reply is shared
	sharedTime  = 10 * time.Second // how long the API may take for it
	sharedKept  = 256              // the most replies that are cached
)

// shared caches replies of the API for a moment, so that many visitors of the same page cost Redis
// no more than one does.
type shared struct {
	flights singleflight.Group

	mu         sync.Mutex
	known      map[string]sharedReply
	generation int // how often all were forgotten
}

type sharedReply struct {
	reply []byte
	at    time.Time
}

func newShared() *shared { return &shared{known: make(map[string]sharedReply)} }

// shared is get for replies that visitors with the same rights may share. The reply is at most a
// second old. For a live page it may be as old as the time between two of its looks, so that any
// number of live pages ask once in that time.
func (v *visit) shared(path string, into any) error {
	lasts := sharedLasts
	if v.lives() {
		lasts = max(lasts, v.options.Turn-sharedLasts/10) // the turn itself is not exact
	}
	return v.sharedWithin(path, "", lasts, into)
}

// lives reports whether a live page asks, and not a page that somebody has just opened.
func (v *visit) lives() bool { return strings.HasPrefix(v.r.URL.Path, "/live/") }

// seldom is shared for what costs Redis more. A live page asks for it again only with
// another mark, or after lasts. A page that is opened always asks.
func (v *visit) seldom(path, mark string, lasts time.Duration, into any) error {
	if !v.lives() {
		return v.get(path, into)
	}
	return v.sharedWithin(path, mark, lasts, into)
}

// sharedWithin asks the API, unless a visitor with the same rights did so lately with the same
// mark.
func (v *visit) sharedWithin(path, mark string, lasts time.Duration, into any) error {
	rights, err := json.Marshal([]any{v.who.Role, v.who.Labels, mark})
	if err != nil {
		return err
	}
	reply, err := v.Dashboard.shared.getWithin(string(rights)+path, lasts, func() ([]byte, error) {
		// The call serves all visitors that wait for it, and must not end with the first of them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(v.r.Context()), sharedTime)
		defer cancel()
		return v.call(ctx, v.r.RemoteAddr, "GET", path, nil)
	})
	if err != nil {
		return v.said(err)
	}
	return decode(path, reply, into)
}

// forget drops all replies, including the ones that are still awaited, because somebody
// has changed something and next wants to see the result.
func (s *shared) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = make(map[string]sharedReply)
	s.generation++
}

// getWithin returns a reply that is younger than lasts.
func (s *shared) getWithin(key string, lasts time.Duration, ask func() ([]byte, error)) ([]byte, error) {
	s.mu.Lock()
	known, ok := s.known[key]
	generation := s.generation
	s.mu.Unlock()
	if ok && time.Since(known.at) < lasts {
		return known.reply, nil
	}
	reply, err, _ := s.flights.Do(strconv.Itoa(generation)+" "+key, func() (any, error) {
		asked := time.Now()
		reply, err := ask()
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.generation != generation {
			return reply, nil // the call began before a change
		}
		if len(s.known) >= sharedKept {
			s.known = make(map[string]sharedReply) // dropping all costs less than finding the oldest
		}
		s.known[key] = sharedReply{reply, asked}
		return reply, nil
	})
	if err != nil {
		return nil, err
	}
	return reply.([]byte), nil
}
