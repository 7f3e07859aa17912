package faketime

import (
	"crypto/sha1"
	"encoding/hex"
	"sync"
)

// mutants are scripts that Redis runs instead of those that it is asked for.
type mutants struct {
	mutate func(text string) string

	mu    sync.Mutex
	known map[string]string // digest that clients ask for -> the mutant's
}

func newMutants(mutate func(text string) string) *mutants {
	return &mutants{mutate: mutate, known: make(map[string]string)}
}

// instead is the command to send for another. As no script comes to Redis but
// changed, it answers NOSCRIPT until a client sends the text.
func (m *mutants) instead(c command) command {
	if m.mutate == nil || c.name != "EVAL" && c.name != "EVALSHA" {
		return c
	}
	asked, ok := c.args[0].(string)
	if !ok {
		return c
	}
	args := append([]any(nil), c.args...)
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.name == "EVALSHA" {
		if digest, ok := m.known[asked]; ok {
			args[0] = digest
		}
		return command{c.name, args}
	}
	mutant := m.mutate(asked)
	m.known[digest(asked)] = digest(mutant)
	args[0] = mutant
	return command{c.name, args}
}

func digest(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
