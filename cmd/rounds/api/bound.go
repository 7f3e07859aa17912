package api

import (
	"cmp"
	"context"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// sightLasts is how long the API caches whether a caller sees an account. sights is
	// the most entries of that cache.
	sightLasts = 5 * time.Second
	sights     = 50_000

	// countLasts is how long the counts for a bound caller are cached, because counting reads
	// every account. countPatience is how long a request waits for a count. countTime is
	// how long a count may take. countsKept is how many counts are cached.
	countLasts    = 30 * time.Second
	countPatience = 25 * time.Second
	countTime     = 10 * time.Minute
	countsKept    = 100
)

// errCounting reports that accounts are still being counted.
var errCounting = errors.New("api: still counting")

// registry returns the registry limited to the accounts that the caller sees. All handlers
// reach accounts through it.
func (s *Server) registry(ctx context.Context) *accounts.Registry {
	p, ok := access.From(ctx)
	if !ok || !p.Role.Valid() {
		panic("api: a request of nobody came to the accounts")
	}
	return s.options.Registry.Indexed(s.ids).Bound(p.Labels)
}

// boundTo returns the labels that the caller is bound to as one text. Different labels have
// different texts. The text is empty if the caller is not bound.
func boundTo(ctx context.Context) string {
	p, _ := access.From(ctx)
	if !p.Bound() {
		return ""
	}
	text, _ := json.Marshal(p.Labels) // never fails for strings
	return string(text)
}

// sight caches which accounts bound callers see.
type sight struct {
	mu    sync.Mutex
	known map[sightOf]seenAt
}

type sightOf struct{ labels, id string }

type seenAt struct {
	sighted
	at time.Time
}

// sighted says whether a caller sees an account, and since when an account has had this id.
type sighted struct {
	seen  bool
	since time.Time // whole seconds, rounded down; zero: unknown
}

func sightedIn(looked map[string]time.Time, id string) sighted {
	since, seen := looked[id]
	return sighted{seen, since}
}

// found reports whether a message is this account's. The age of a replayed dead letter counts from
// when it was found.
func (s sighted) found(f *circulate.Found) bool {
	id, err := circulate.ParseStreamID(cmp.Or(f.First, f.Position))
	return s.seen && err == nil && !id.Time().Before(s.since)
}

// visible returns a function that reports whether the caller sees one of these messages. A bound
// caller sees no messages of deleted accounts, because their labels are no longer known. Nor does it
// see messages of an earlier account with the same id, which may have had other labels.
func (s *Server) visible(ctx context.Context, found []circulate.Found) (func(*circulate.Found) bool, error) {
	labels := boundTo(ctx)
	if labels == "" || len(found) == 0 {
		return func(*circulate.Found) bool { return true }, nil
	}
	seen := make(map[string]sighted)
	var unknown []string
	now := time.Now()
	s.sight.mu.Lock()
	for i := range found {
		id := found[i].Account
		if _, ok := seen[id]; ok {
			continue
		}
		known, ok := s.sight.known[sightOf{labels, id}]
		if !ok || now.Sub(known.at) >= sightLasts {
			unknown = append(unknown, id)
		}
		seen[id] = known.sighted
	}
	s.sight.mu.Unlock()
	if len(unknown) > 0 {
		looked, err := s.registry(ctx).Seen(ctx, unknown)
		if err != nil {
			return nil, err
		}
		s.sight.remember(labels, unknown, looked, now)
		for _, id := range unknown {
			seen[id] = sightedIn(looked, id)
		}
	}
	return func(f *circulate.Found) bool { return seen[f.Account].found(f) }, nil
}

// remember caches what was seen of accounts.
func (s *sight) remember(labels string, ids []string, seen map[string]time.Time, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known)+len(ids) > sights {
		s.known = make(map[sightOf]seenAt) // dropping all costs less than finding the oldest entry
	}
	for _, id := range ids {
		s.known[sightOf{labels, id}] = seenAt{sightedIn(seen, id), at}
	}
}

// counts caches the counts for bound callers.
type counts struct {
	counting singleflight.Group
	walking  sync.Mutex // held while accounts are counted: only one goroutine walks through all of them

	mu    sync.Mutex
	known map[string]counted
}

// counted is what a walk through all accounts found about the accounts that a caller sees.
type counted struct {
	stats    accounts.Stats
	problems problem.Summary
	at       time.Time
}

// stats returns the counts of the accounts that the caller sees. Whoever sees all may do without.
func (s *Server) stats(ctx context.Context, counts bool) (accounts.Stats, error) {
	if boundTo(ctx) == "" && !counts {
		return s.registry(ctx).Reported(ctx)
	}
	if boundTo(ctx) == "" {
		return s.registry(ctx).Stats(ctx)
	}
	found, err := s.count(ctx)
	return found.stats, err
}

// problemsSeen returns the problems and the counts of the accounts that a bound caller sees.
// It returns false for other callers.
func (s *Server) problemsSeen(ctx context.Context) (problem.Summary, accounts.Stats, bool, error) {
	if boundTo(ctx) == "" {
		return problem.Summary{}, accounts.Stats{}, false, nil
	}
	found, err := s.count(ctx)
	return found.problems, found.stats, true, err
}

// count returns what a walk found about the accounts that a bound caller sees, at most countLasts
// old. It returns errCounting if the walk takes longer than countPatience.
func (s *Server) count(ctx context.Context) (counted, error) {
	labels := boundTo(ctx)
	c := &s.counts
	c.mu.Lock()
	known, ok := c.known[labels]
	c.mu.Unlock()
	if ok && time.Since(known.at) < countLasts {
		return known, nil
	}
	registry := s.registry(ctx)
	asked := c.counting.DoChan(labels, func() (any, error) {
		c.walking.Lock()
		defer c.walking.Unlock()
		// The caller's context is not used, because other callers may wait for this count. It
		// ends with the server.
		ctx, cancel := context.WithTimeout(context.Background(), countTime)
		defer cancel()
		ctx, end := s.lasting(ctx)
		defer end()
		gathering := problem.NewGathering(s.options.ProbeParked)
		stats, err := registry.CountSeen(ctx, gathering.Look)
		if err != nil && cutOff(ctx) {
			return counted{}, context.Cause(ctx) // callers that wait have contexts of their own, without this cause
		}
		if err != nil {
			return counted{}, err
		}
		found := counted{stats, gathering.Summary(stats.Now, 0), time.Now()}
		c.remember(labels, found)
		return found, nil
	})
	patience := time.NewTimer(countPatience)
	defer patience.Stop()
	select {
	case answer := <-asked:
		if answer.Err != nil {
			return counted{}, answer.Err
		}
		return answer.Val.(counted), nil
	case <-patience.C:
		return counted{}, errCounting
	case <-ctx.Done():
		return counted{}, context.Cause(ctx)
	}
}

// remember caches the counts for labels.
func (c *counts) remember(labels string, now counted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= countsKept {
		c.known = make(map[string]counted)
	}
	c.known[labels] = now
}

// A page may end after an account that its caller does not see. Its cursor names that
// account, so it is sealed for callers that are bound to labels.

// conceal returns the cursor in the form that the caller gets.
func (s *Server) conceal(ctx context.Context, cursor string) (string, error) {
	return s.ifBound(ctx, cursor, func(sealer cipher.AEAD, labels []byte) (string, error) {
		return base64.RawURLEncoding.EncodeToString(sealer.Seal(nil, nil, []byte(cursor), labels)), nil
	})
}

// reveal returns the cursor that conceal was given, for the same labels. The error for any other
// text is accounts.ErrCursor.
func (s *Server) reveal(ctx context.Context, cursor string) (string, error) {
	return s.ifBound(ctx, cursor, func(sealer cipher.AEAD, labels []byte) (string, error) {
		sealed, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil {
			return "", fmt.Errorf("%w: it is cut off or mistyped", accounts.ErrCursor)
		}
		opened, err := sealer.Open(nil, nil, sealed, labels)
		if err != nil {
			return "", fmt.Errorf("%w: it is cut off or mistyped, or was given for other labels", accounts.ErrCursor)
		}
		return string(opened), nil
	})
}

// ifBound returns a cursor as change makes it if the caller is bound to labels.
func (s *Server) ifBound(ctx context.Context, cursor string, change func(sealer cipher.AEAD, labels []byte) (string, error)) (string, error) {
	labels := boundTo(ctx)
	if labels == "" || cursor == "" {
		return cursor, nil
	}
	sealer, err := s.options.Keys.Sealer(ctx)
	if err != nil {
		return "", err
	}
	return change(sealer, []byte(labels))
}
