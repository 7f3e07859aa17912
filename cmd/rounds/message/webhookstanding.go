package message

import (
	"cmp"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate/document"
)

// WebhookStanding is the state of a webhook endpoint, from the reports of the last minute by
// the processes that deliver to it. Times are by Redis' clock.
type WebhookStanding struct {
	Processes     int       // processes that deliver to it
	LastStatus    int       // the status of the last answer; 0: the last attempt had none
	LastOutcome   string    // how the last attempt ended; empty: there was none
	LastError     string    // why the last attempt had no answer; empty: it had one, or nobody knows
	LastAttempt   time.Time // when the last attempt ended
	LastDelivered time.Time // when it last took a message
	Breaker       string    // closed, half-open or open: the worst of all processes
	Until         time.Time // the process with that breaker sends nothing before this time

	Accounts      int       // accounts with waiting messages
	Messages      int       // waiting messages, including those behind others
	Attempt       int       // failed deliveries of the message that failed most often
	MaxDeliveries int       // failed deliveries after which a message is a dead letter
	Next          time.Time // when the first waiting message is tried again
	Waiting       []document.Waiting
}

// standingOf combines the reports of processes. It returns nil without a report.
func standingOf(reports []document.Report) *WebhookStanding {
	if len(reports) == 0 {
		return nil
	}
	s := &WebhookStanding{Processes: len(reports)}
	badness := []string{"", "closed", "half-open", "open"}
	for _, r := range reports {
		if r.Outcome != "" && !r.At.Before(s.LastAttempt) {
			s.LastStatus, s.LastOutcome, s.LastError, s.LastAttempt = r.Status, r.Outcome, r.Why, r.At
		}
		if r.Delivered.After(s.LastDelivered) {
			s.LastDelivered = r.Delivered
		}
		was, is := slices.Index(badness, s.Breaker), slices.Index(badness, r.Breaker)
		if is > was || is == was && r.Until.After(s.Until) {
			s.Breaker, s.Until = r.Breaker, r.Until
		}
		s.Accounts += r.Accounts
		s.Messages += r.Messages
		s.MaxDeliveries = max(s.MaxDeliveries, r.Most)
		for _, w := range r.Waiting {
			s.Attempt = max(s.Attempt, w.Failed)
			if s.Next.IsZero() || w.Next.Before(s.Next) {
				s.Next = w.Next
			}
		}
		s.Waiting = append(s.Waiting, r.Waiting...)
	}
	slices.SortStableFunc(s.Waiting, func(a, b document.Waiting) int {
		return cmp.Or(a.Next.Compare(b.Next), cmp.Compare(a.Account, b.Account))
	})
	return s
}

// waitingOf returns the first waiting message of an account, or of each account if it is
// empty.
func (s *WebhookStanding) waitingOf(account string) (all []document.Waiting) {
	for _, w := range s.Waiting {
		if account == "" || w.Account == account {
			all = append(all, w)
		}
	}
	return all
}

// namesAll reports whether Waiting has all accounts with waiting messages.
func (s *WebhookStanding) namesAll() bool { return len(s.Waiting) >= s.Accounts }
