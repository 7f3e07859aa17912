package accounts

import "time"

// Staleness is how long ago accounts were last checked with complete success, as
// the last scan found it: a scan of what is registered, that does not trust the
// schedule. An account that never succeeded counts from its registration. Parked
// ones are left out, for nobody checks them.
type Staleness struct {
	At             time.Time `json:"at" doc:"When the scan ended, by Redis' clock."`
	Scanned        int       `json:"scanned" doc:"Accounts that the figures are about."`
	P50            float64   `json:"seconds_p50" doc:"Half of them are at most so stale."`
	P99            float64   `json:"seconds_p99" doc:"99 of 100 are."`
	Max            float64   `json:"seconds_max" doc:"All are."`
	Stalest        string    `json:"stalest" doc:"The id of one that is as stale as that; empty if there is none."`
	ParkedExcluded int       `json:"parked_excluded" doc:"Parked accounts, which are not among the scanned."`

	Headroom []Headroom `json:"headroom,omitempty" doc:"Of the kinds whose third party keeps messages for a while only, how long until it forgets some; of accounts that were not checked with complete success for an hour, parked ones among them."`
}

// Scan is what a scan for staleness found, as monitors keep it for stats.
type Scan struct {
	Staleness
	Failing *Failing `json:"failing,omitempty"` // nil: a monitor of an earlier version looked
}
