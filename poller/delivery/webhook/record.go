package webhook

import (
	"log/slog"
	"strconv"
	"sync"
	"time"
)

const (
	// remindEvery is how often the log says that an endpoint still does not take all
	// messages.
	remindEvery = 10 * time.Minute
	// calmAfter is for how long nothing must have been refused for a message that is taken
	// to mean that all are, where nobody tells what waits.
	calmAfter = LongestPause + remindEvery
	// settledAfter is after how long a refused message waits, or is a dead letter: by then
	// the batch that it was in has ended.
	settledAfter = DefaultAttemptWindow + maxTimeout
)

// record is how an endpoint answered, and what the log was told of it.
type record struct {
	log *slog.Logger

	mu        sync.Mutex
	status    int // of the last answer; 0: there was none
	outcome   Outcome
	at        time.Time // of the last attempt
	delivered time.Time // when a message was last taken

	since   time.Time // when the first message was refused; zero: none waits
	latest  time.Time // when the last one was
	told    time.Time // when the log was told last
	quiet   bool      // it was told so lately that it is not told that this begins
	refused int       // deliveries since the log was told
	total   int       // deliveries since the first
	took    int       // messages since the log was told
}

func newRecord(log *slog.Logger) *record { return &record{log: log} }

// attempted notes how an attempt ended: with the status of its answer, if there was one.
func (r *record) attempted(status int, outcome Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.outcome, r.at = status, outcome, time.Now()
}

// ended notes how the delivery of a message ended, and tells the log of the first that is
// refused.
func (r *record) ended(failed *Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	switch {
	case failed == nil:
		r.delivered = now
		r.took++
		if !r.since.IsZero() && now.Sub(r.latest) > calmAfter {
			r.end(now)
		}
	case failed.counts():
		r.latest = now
		r.refused++
		r.total++
		r.begin(now, failed)
		r.remind(now)
	}
}

// begin tells the log of the first message that is refused.
func (r *record) begin(now time.Time, failed *Error) {
	if !r.since.IsZero() {
		return
	}
	r.since, r.total = now, 1
	if r.quiet = !r.told.IsZero() && now.Sub(r.told) < remindEvery; r.quiet {
		return
	}
	r.told, r.refused, r.took = now, 0, 0
	r.log.Warn("webhook endpoint does not take a message: it is tried again, and later ones of its account wait behind it", "error", failed)
}

// remind tells the log now and then that it goes on. The caller holds mu.
func (r *record) remind(now time.Time) {
	if r.since.IsZero() || now.Sub(r.told) < remindEvery {
		return
	}
	r.log.Warn("webhook endpoint still does not take all messages", "last", r.last(), "refused", r.refused, "delivered", r.took, "lasts", now.Sub(r.since).Round(time.Second))
	r.told, r.quiet, r.refused, r.took = now, false, 0, 0
}

// end tells the log that it is over. The caller holds mu.
func (r *record) end(now time.Time) {
	text := "no message waits at the webhook endpoint any more"
	if r.outcome == Delivered {
		text = "webhook endpoint takes messages again, and none waits any more"
	}
	if !r.quiet {
		r.log.Info(text, "lasted", now.Sub(r.since).Round(time.Second), "refused", r.total)
	}
	r.since = time.Time{}
}

// tick is for who knows whether messages wait here that were refused.
func (r *record) tick(waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !r.since.IsZero() && !waits && now.Sub(r.latest) > settledAfter {
		r.end(now)
	}
	r.remind(now)
}

// last is the last answer in a word.
func (r *record) last() string {
	if r.status != 0 {
		return strconv.Itoa(r.status)
	}
	return string(r.outcome)
}
