package mutants

import (
	"crypto/sha1"
	"encoding/hex"
	"sync"
)

// Rewriter has Redis run changed scripts in place of those that clients ask for.
type Rewriter struct {
	change func(text string) (string, error)

	mu    sync.Mutex
	known map[string]string // digest that clients ask for -> that of what runs
	err   error
}

// NewRewriter makes one. With nil it changes nothing.
func NewRewriter(change func(text string) (string, error)) *Rewriter {
	return &Rewriter{change: change, known: make(map[string]string)}
}

// Instead returns the arguments to send with a command. Scripts reach Redis only changed,
// so it answers NOSCRIPT until a client sends the text.
func (r *Rewriter) Instead(command string, args []any) []any {
	if r.change == nil || len(args) == 0 || command != "EVAL" && command != "EVALSHA" {
		return args
	}
	asked, ok := args[0].(string)
	if !ok {
		return args
	}
	args = append([]any(nil), args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if command == "EVALSHA" {
		if other, ok := r.known[asked]; ok {
			args[0] = other
		}
		return args
	}
	text, err := r.change(asked)
	if err != nil {
		text, r.err = asked, err
	}
	r.known[digest(asked)] = digest(text)
	args[0] = text
	return args
}

// Err returns what was wrong with a change, or nil if every change fitted.
func (r *Rewriter) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func digest(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
