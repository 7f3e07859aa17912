// Package refusals logs, rarely, that a handler does not take messages.
package refusals

import (
	"log/slog"
	"sync"
	"time"
)

// RemindEvery is the time between two log lines that say that messages are still refused.
const RemindEvery = 10 * time.Minute

// A Teller is a handler that logs its refusals itself, so that its consumer need not.
type Teller interface{ TellsRefusals() }

// Lines are the texts of the log lines.
type Lines struct {
	First string // at the first refusal
	Still string // every ten minutes while it lasts
	Again string // when it is over because messages are taken again
	Over  string // when it is over and none has been taken since
}

// Record is what is known about refused messages, and what was logged about them. The log gets a
// line at the first refusal, one every ten minutes while refusals last, and one at their end. A
// refusal soon after the last line is not logged, and neither is its end.
type Record struct {
	log   *slog.Logger
	lines Lines

	mu      sync.Mutex
	why     error     // the last refusal
	since   time.Time // when the first message was refused; zero: none waits
	latest  time.Time // when the last one was refused
	told    time.Time // the time of the last log line
	quiet   bool      // the last log line was so recent that the beginning was not logged
	refused int       // refused deliveries since the last log line
	total   int       // refused deliveries since the first
	took    int       // handled messages since the last log line
}

// New returns a record that writes to a log.
func New(log *slog.Logger, lines Lines) *Record { return &Record{log: log, lines: lines} }

// Refused notes a refused message. For the first one, the log gets why and the attributes; a
// reminder gets the attributes of reminder.
func (r *Record) Refused(why error, attributes, reminder []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.why, r.latest = why, now
	r.refused++
	r.total++
	if r.since.IsZero() {
		r.since, r.total = now, 1
		if r.quiet = !r.told.IsZero() && now.Sub(r.told) < RemindEvery; !r.quiet {
			r.told, r.refused, r.took = now, 0, 0
			r.log.Warn(r.lines.First, append([]any{"error", why}, attributes...)...)
		}
	}
	r.remind(now, reminder)
}

// Took notes that messages were handled.
func (r *Record) Took(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took += n
}

// Why returns the last refusal while a refused message may wait, and nil otherwise.
func (r *Record) Why() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		return nil
	}
	return r.why
}

// Remind logs the reminder if it is due.
func (r *Record) Remind(reminder []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remind(time.Now(), reminder)
}

func (r *Record) remind(now time.Time, attributes []any) {
	if r.since.IsZero() || now.Sub(r.told) < RemindEvery {
		return
	}
	r.log.Warn(r.lines.Still, append(attributes[:len(attributes):len(attributes)], "refused", r.refused, "delivered", r.took, "lasts", now.Sub(r.since).Round(time.Second))...)
	r.told, r.quiet, r.refused, r.took = now, false, 0, 0
}

// End notes that no refused message waits any more, unless one was refused within calm. again says
// that messages are taken again.
func (r *Record) End(calm time.Duration, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() || time.Since(r.latest) <= calm {
		return
	}
	text := r.lines.Over
	if again {
		text = r.lines.Again
	}
	if !r.quiet {
		r.log.Info(text, "lasted", time.Since(r.since).Round(time.Second), "refused", r.total)
	}
	r.since = time.Time{}
}
