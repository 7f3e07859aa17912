// Package conceal keeps the secrets that a check resolves out of the texts of its failure.
package conceal

import (
	"context"
	"slices"
	"sync"
)

// Key is the key of a context's *Secrets.
type Key struct{}

// Secrets are the values that a check has resolved. The zero value has none.
type Secrets struct {
	mu     sync.Mutex
	values []string
	scrub  func(text string, hidden []string) string
}

// Note notes a value that was resolved for the check of ctx, if there is one, and what removes values
// from a text.
func Note(ctx context.Context, value string, scrub func(text string, hidden []string) string) {
	s, ok := ctx.Value(Key{}).(*Secrets)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scrub = scrub; !slices.Contains(s.values, value) {
		s.values = append(s.values, value)
	}
}

// Scrub returns a text without the values.
func (s *Secrets) Scrub(text string) string {
	s.mu.Lock()
	values, scrub := s.values, s.scrub
	s.mu.Unlock()
	if len(values) == 0 {
		return text
	}
	return scrub(text, values)
}
