package accounts

import "time"

// Staleness is the time since accounts were last checked with complete success, as the last
// scan found it. The scan reads all registered accounts and does not trust the schedule. An
// account that never succeeded counts from its registration. Parked accounts are left out:
// nobody checks them.
type Staleness struct {
	At             time.Time `json:"at" doc:"When the scan ended, by Redis' clock."`
	Scanned        int       `json:"scanned" doc:"The number of accounts in the figures."`
	P50            float64   `json:"seconds_p50" doc:"Half of the accounts are at most this stale."`
	P99            float64   `json:"seconds_p99" doc:"99 of 100 accounts are at most this stale."`
	Max            float64   `json:"seconds_max" doc:"The staleness of the stalest account."`
	Stalest        string    `json:"stalest" doc:"The id of the stalest account; empty if there is none."`
	ParkedExcluded int       `json:"parked_excluded" doc:"Parked accounts, which are not in the figures."`

	Moving bool `json:"shards_change,omitempty" doc:"While the scan ran, the number of shards was being changed: accounts that moved meanwhile may be in the figures twice."`

	Headroom []Headroom `json:"headroom,omitempty" doc:"For each kind whose third party keeps messages for a limited time: the time left until it forgets messages that no check has fetched. Accounts without a complete success for an hour count, parked ones included."`
}

// Scan is the result of a scan for staleness, as monitors store it for Stats.
type Scan struct {
	Staleness
	Failing *Failing `json:"failing,omitempty"` // nil: a monitor of an earlier version scanned
}
