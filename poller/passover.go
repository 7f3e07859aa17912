package poller

import (
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts"
)

// passOver drops messages from a page that are older than the account's registration or
// resumption "from now". For an account without a cursor all messages without a time are old,
// however late its first check is. Third parties give times in whole seconds, so messages of
// the very second are kept.
func (f *flight) passOver(page *Result) {
	if f.skip.IsZero() {
		return
	}
	first, untimed := f.skip.Truncate(time.Second), f.first || f.now().Before(f.skip.Add(accounts.SkipUntimed))
	all := len(page.Messages)
	page.Messages = slices.DeleteFunc(slices.Clone(page.Messages), func(m Message) bool {
		if m.Time.IsZero() {
			return untimed
		}
		return m.Time.Before(first)
	})
	if n := all - len(page.Messages); n > 0 {
		f.skipped += n
		f.flights.metrics.passedOver.WithLabelValues(f.record.account.Kind).Add(float64(n))
	}
}

// caughtUp ends the dropping of old messages: the check has left nothing to fetch.
func (f *flight) caughtUp() {
	if f.skip.IsZero() {
		return
	}
	f.flights.log.Info("an account has caught up; messages from before it was registered or resumed were dropped",
		"account", f.claim.ID, "kind", f.record.account.Kind, "from", f.skip, "messages", f.skipped)
	f.skip = time.Time{}
}
