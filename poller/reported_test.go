package poller_test

import (
	"encoding/json"

	"github.com/rounds-dev/rounds/accounts"
)

// reported returns what all replicas reported with their last heartbeats, together.
func (w *world) reported() (all accounts.Report) {
	w.Helper()
	replicas, _, err := w.ring.Replicas(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range replicas {
		var one accounts.Report
		if err := json.Unmarshal(r.Report, &one); err != nil {
			w.Fatal(err)
		}
		all.Outage, all.MemoryShort = all.Outage || one.Outage, all.MemoryShort || one.MemoryShort
		all.Denials, all.Warnings = append(all.Denials, one.Denials...), append(all.Warnings, one.Warnings...)
	}
	return all
}
