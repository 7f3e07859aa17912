package webhook

import (
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/poller/delivery/internal/refusals"
)

const (
	// calmAfter is how long after the last refusal a delivered message means that the
	// endpoint takes all messages. It is for sinks without a Remote, which would know what
	// waits.
	calmAfter = LongestPause + refusals.RemindEvery
	// settledAfter is how long after a refusal the message certainly waits or is a dead
	// letter, because its batch has ended.
	settledAfter = defaultAttemptWindow + maxTimeout
)

// record is how an endpoint answered, and what was logged about it.
type record struct {
	refused *refusals.Record

	mu        sync.Mutex
	status    int // of the last answer; 0: there was none
	outcome   Outcome
	why       string    // what went wrong in the last attempt; empty: nothing
	at        time.Time // of the last attempt
	delivered time.Time // when a message was last taken

	attempts []document.Attempt // the latest, the last one last
	made     int                // how many there were
}

func newRecord(log *slog.Logger) *record {
	return &record{refused: refusals.New(log, refusals.Lines{
		First: "webhook endpoint does not take a message: the message is tried again, and later ones of its account wait behind it",
		Still: "webhook endpoint still does not take all messages",
		Again: "webhook endpoint takes messages again, and none waits any more",
		Over:  "no message waits at the webhook endpoint any more",
		Count: "refused",
	}, refusals.RemindEvery)}
}

// attempted notes how an attempt ended, with the status of its answer if there was one.
func (r *record) attempted(status int, outcome Outcome, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.outcome, r.why, r.at = status, outcome, why, time.Now()
}

// trouble returns what went wrong in the last attempt, as the reason why there is no other one
// now. It returns other if nothing did.
func (r *record) trouble(other string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.why == "":
		return errors.New(other)
	case r.outcome == Throttled:
		return errors.New("the endpoint asked for a pause: " + r.why)
	}
	return errors.New(r.why)
}

// ended notes how the delivery of a message ended.
func (r *record) ended(failed *Error) {
	switch {
	case failed == nil:
		r.mu.Lock()
		r.delivered = time.Now()
		r.mu.Unlock()
		r.refused.Took(1)
		r.refused.End(calmAfter, r.takes())
	case failed.counts():
		r.refused.Refused(failed, nil, r.last())
	}
}

// tick is called every second by a Remote, which knows whether refused messages wait.
func (r *record) tick(waits bool) {
	if !waits {
		r.refused.End(settledAfter, r.takes())
	}
	r.refused.Remind(r.last())
}

// takes reports whether the endpoint took the last message.
func (r *record) takes() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outcome == Delivered
}

// last returns the last answer in a word, for a reminder.
func (r *record) last() []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status != 0 {
		return []any{"last", strconv.Itoa(r.status)}
	}
	return []any{"last", string(r.outcome)}
}
