package webhook

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// attemptsKept is how many attempts at an endpoint a process remembers, and successesKept how many
	// successes stay among them beside failures.
	attemptsKept, successesKept = 20, 5
	// answerKept is how many bytes of an answer are remembered, and answerRead how many are read, so
	// that a secret is seen as a whole before the text is cut.
	answerKept, answerRead = 1 << 10, 4 << 10
	// answersKept is about how many bytes of answers a process reports, for all endpoints together.
	answersKept = 256 << 10
	// hiddenLeast is the length from which a text is secret enough to be masked: the path / is not.
	hiddenLeast = 6

	triedEvery = 10 * time.Second // the least time between two reports of attempts
	triedLives = 4 * time.Minute  // the most: they are forgotten in ten
)

// shownAnswer returns the beginning of an answer, without the endpoint's secrets and the signature that
// it was sent. The rest is a stranger's text.
func shownAnswer(text string, hidden []string, sent http.Header) string {
	if text == "" {
		return ""
	}
	signature := sent.Get("Webhook-Signature")
	hidden = append(slices.Clone(hidden), signature)
	hidden = append(hidden, strings.Fields(signature)...)
	for _, field := range strings.Fields(signature) {
		_, bare, _ := strings.Cut(field, ",")
		hidden = append(hidden, bare)
	}
	// The longest first: one may be a part of another.
	slices.SortFunc(hidden, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, secret := range hidden {
		if len(secret) >= hiddenLeast {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return strings.ToValidUTF8(text[:min(len(text), answerKept)], "")
}

// tried notes an attempt. Failures stay longer than successes.
func (r *record) tried(made document.Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts, r.made = append(r.attempts, made), r.made+1
	if len(r.attempts) <= attemptsKept {
		return
	}
	success := func(a document.Attempt) bool { return a.Outcome == string(Delivered) }
	successes := 0
	for i := range r.attempts {
		if success(r.attempts[i]) {
			successes++
		}
	}
	drop := 0
	if successes > successesKept {
		drop = slices.IndexFunc(r.attempts, success)
	} else {
		drop = slices.IndexFunc(r.attempts, func(a document.Attempt) bool { return !success(a) })
	}
	r.attempts = slices.Delete(r.attempts, drop, drop+1)
}

// triedState is what was last reported of attempts.
type triedState struct {
	made int // the sum of all attempts
	at   time.Time
}

// reportTried reports the latest attempts at all endpoints, if there are new ones. Ahead is how far
// Redis' clock is ahead.
func (r *Remote) reportTried(ctx context.Context, t *triedState, posts map[string]post, ahead time.Duration) {
	made := 0
	all := make(map[string][]document.Attempt)
	for name, p := range posts {
		if p.sink == nil {
			continue
		}
		p.sink.record.mu.Lock()
		made += p.sink.record.made
		if len(p.sink.record.attempts) > 0 {
			all[name] = slices.Clone(p.sink.record.attempts)
		}
		p.sink.record.mu.Unlock()
	}
	since := time.Since(t.at)
	if len(all) == 0 || since < triedEvery || made == t.made && since < triedLives {
		return
	}
	most := min(answerKept, answersKept/(len(all)*attemptsKept))
	for _, attempts := range all {
		for i := range attempts {
			a := &attempts[i]
			a.At = a.At.Add(ahead).UTC().Round(time.Millisecond)
			a.Answer = strings.ToValidUTF8(a.Answer[:min(len(a.Answer), most)], "")
		}
	}
	if err := r.board.Tried(ctx, r.process, all); err == nil {
		t.made, t.at = made, time.Now()
	}
}
