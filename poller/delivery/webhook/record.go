package webhook

import (
	"log/slog"
	"strconv"
	"sync"
	"time"
)

const (
	// remindEvery is the time between two log lines that say that an endpoint still refuses
	// messages.
	remindEvery = 10 * time.Minute
	// calmAfter is the time without a refusal after which a delivered message means that
	// the endpoint takes all messages. It is for sinks without a Remote, which knows what
	// waits.
	calmAfter = LongestPause + remindEvery
	// settledAfter is the time after which a refused message waits or is a dead letter: by
	// then its batch has ended.
	settledAfter = DefaultAttemptWindow + maxTimeout
)

// record is how an endpoint answered, and what was logged about it.
type record struct {
	log *slog.Logger

	mu        sync.Mutex
	status    int // of the last answer; 0: there was none
	outcome   Outcome
	at        time.Time // of the last attempt
	delivered time.Time // when a message was last taken

	since   time.Time // when the first message was refused; zero: none waits
	latest  time.Time // when the last one was refused
	told    time.Time // the time of the last log line
	quiet   bool      // the last log line was so recent that the beginning was not logged
	refused int       // refused deliveries since the last log line
	total   int       // refused deliveries since the first
	took    int       // delivered messages since the last log line
}

func newRecord(log *slog.Logger) *record { return &record{log: log} }

// attempted notes how an attempt ended, with the status of its answer if there was one.
func (r *record) attempted(status int, outcome Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.outcome, r.at = status, outcome, time.Now()
}

// ended notes how the delivery of a message ended, and logs the first refusal.
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

// begin logs the first refusal. The caller holds mu.
func (r *record) begin(now time.Time, failed *Error) {
	if !r.since.IsZero() {
		return
	}
	r.since, r.total = now, 1
	if r.quiet = !r.told.IsZero() && now.Sub(r.told) < remindEvery; r.quiet {
		return
	}
	r.told, r.refused, r.took = now, 0, 0
	r.log.Warn("webhook endpoint does not take a message: the message is tried again, and later ones of its account wait behind it", "error", failed)
}

// remind logs from time to time that it goes on. The caller holds mu.
func (r *record) remind(now time.Time) {
	if r.since.IsZero() || now.Sub(r.told) < remindEvery {
		return
	}
	r.log.Warn("webhook endpoint still does not take all messages", "last", r.last(), "refused", r.refused, "delivered", r.took, "lasts", now.Sub(r.since).Round(time.Second))
	r.told, r.quiet, r.refused, r.took = now, false, 0, 0
}

// end logs that it is over. The caller holds mu.
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

// tick is called every second by a Remote, which knows whether refused messages wait.
func (r *record) tick(waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !r.since.IsZero() && !waits && now.Sub(r.latest) > settledAfter {
		r.end(now)
	}
	r.remind(now)
}

// last returns the last answer in a word.
func (r *record) last() string {
	if r.status != 0 {
		return strconv.Itoa(r.status)
	}
	return string(r.outcome)
}
