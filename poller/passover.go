package poller

import (
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts"
)

// passOver drops from a page what was before the account was registered or resumed "from
// now", while that is asked for. An account without a cursor has seen nothing yet: however
// late its first check is, of messages without a time none is new to it. Third parties tell a message's time in whole seconds,
// so that of the very second is kept.
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

// caughtUp ends the passing over: the check has nothing left to fetch.
func (f *flight) caughtUp() {
	if f.skip.IsZero() {
		return
	}
	f.flights.log.Info("an account has caught up; messages from before it was registered or resumed were passed over",
		"account", f.claim.ID, "kind", f.record.account.Kind, "from", f.skip, "messages", f.skipped)
	f.skip = time.Time{}
}
