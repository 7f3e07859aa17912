package pages

import (
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const backupRoute = "GET /v1/backup:last"

// backups is what is known about backups.
type backups struct{ api.Backups }

// backupFresh is how old a backup is that looks good. The concern backup_old comes a little later.
const backupFresh = 7 * 24 * time.Hour

// State returns what is said of the last backup, as a part of a text's key.
func (b *backups) State() string {
	switch {
	case b.Now.Sub(b.Last.Ended) > backupFresh:
		return "old"
	case b.Last.Verified.IsZero():
		return "unverified"
	}
	return "verified"
}

// Sign returns the colour of the state.
func (b *backups) Sign() string {
	if b.State() == "verified" {
		return "good"
	}
	return "warn"
}
