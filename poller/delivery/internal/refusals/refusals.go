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
	Count string // the attribute with the number of refused deliveries
}

// Record is what is known about refused messages, and what was logged about them. An episode lasts
// from the first refusal until no refused message waits. The log has a line when it begins, one
// every ten minutes while it lasts, and one when it is over.
//
// An episode that begins within calm of the last one is logged once it has lasted that long. If it
// is over before, the log has one line about all such episodes, with their number, once none has
// begun for calm. So a handler that fails now and again does not fill the log.
type Record struct {
	log   *slog.Logger
	lines Lines
	calm  time.Duration

	mu      sync.Mutex
	why     error     // the last refusal
	since   time.Time // when the first message was refused; zero: none waits
	latest  time.Time // when the last one was refused
	where   []any     // the attributes of the last refusal
	told    time.Time // the time of the last log line
	ended   time.Time // when the last episode ended
	quiet   bool      // the beginning of the episode was not logged
	again   bool      // messages were taken when the last episode ended
	unsaid  int       // episodes that are over and were not logged
	refused int       // refused deliveries since the last log line
	total   int       // refused deliveries since the first of the episodes that the next last line is about
	took    int       // handled messages since the last log line
}

// New returns a record that writes to a log. Calm is the time since the last episode after which
// the next one is logged at once.
func New(log *slog.Logger, lines Lines, calm time.Duration) *Record {
	return &Record{log: log, lines: lines, calm: calm}
}

// Refused notes a refused message. For the first one, the log gets why and the attributes; a
// reminder gets the attributes of reminder.
func (r *Record) Refused(why error, attributes, reminder []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.sumUp(now)
	r.why, r.where, r.latest = why, attributes, now
	if r.since.IsZero() {
		r.since = now
		if r.unsaid == 0 {
			r.total = 0
		}
		if r.quiet = !r.ended.IsZero() && now.Sub(r.ended) < r.calm; !r.quiet {
			r.begin(now)
		}
	}
	r.refused++
	r.total++
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

// begin logs the beginning of an episode.
func (r *Record) begin(now time.Time) {
	r.warn(now, r.lines.First, append([]any{"error", r.why}, r.where...))
}

// warn logs that messages are refused, with the number of episodes that the line is about if there
// are several.
func (r *Record) warn(now time.Time, text string, attributes []any) {
	if r.unsaid > 0 {
		attributes = append(attributes, "times", r.unsaid+1)
	}
	r.log.Warn(text, attributes...)
	r.told, r.quiet, r.unsaid, r.refused, r.took = now, false, 0, 0, 0
}

func (r *Record) remind(now time.Time, attributes []any) {
	r.sumUp(now)
	if r.since.IsZero() {
		return
	}
	if now.Sub(r.told) < RemindEvery {
		if r.quiet && now.Sub(r.since) >= r.calm {
			r.begin(now)
		}
		return
	}
	r.warn(now, r.lines.Still, append(attributes[:len(attributes):len(attributes)],
		r.lines.Count, r.refused, "delivered", r.took, "lasts", now.Sub(r.since).Round(time.Second)))
}

// End notes that no refused message waits any more, unless one was refused within recent. again says
// that messages are taken again.
func (r *Record) End(recent time.Duration, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.sumUp(now)
	if r.since.IsZero() || now.Sub(r.latest) <= recent {
		return
	}
	lasted := now.Sub(r.since)
	r.since, r.ended, r.again = time.Time{}, now, again
	if r.quiet {
		r.unsaid++
		return
	}
	r.log.Info(r.last(), "lasted", lasted.Round(time.Second), r.lines.Count, r.total)
	r.told = now
}

// sumUp logs the episodes that were not logged, once none has begun for calm.
func (r *Record) sumUp(now time.Time) {
	if r.unsaid == 0 || !r.since.IsZero() || now.Sub(r.ended) < r.calm {
		return
	}
	r.log.Info(r.last(), "times", r.unsaid, "error", r.why, r.lines.Count, r.total)
	r.told, r.unsaid = now, 0
}

// last returns the text that says that it is over.
func (r *Record) last() string {
	if r.again {
		return r.lines.Again
	}
	return r.lines.Over
}
