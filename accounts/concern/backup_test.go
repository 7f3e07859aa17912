package concern_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// The last backup is known, and the last one that was verified. A week and a day after the last one it
// is a concern that there is none since; that there never was one is none.
func TestBackupsAreKnown(t *testing.T) {
	faketime.Run(t, 2, func(fw *faketime.World) {
		w := &world{World: fw}
		w.report()
		ctx := w.Context()
		old := func() (found *concern.Concern) {
			l, err := concern.Collect(ctx, w.sources())
			if err != nil {
				t.Fatal(err)
			}
			for i := range l.Concerns {
				if l.Concerns[i].Code == concern.BackupOld {
					found = &l.Concerns[i]
				}
			}
			return found
		}
		known := func() concern.Backups {
			b, err := concern.ReadBackups(ctx, w.Ring)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		if b := known(); b.Last != nil || b.Verified != nil || old() != nil {
			t.Errorf("none was taken: %+v, %+v", b, old())
		}
		if _, err := concern.NoteVerified(ctx, w.Ring, "a", "eve"); !errors.Is(err, concern.ErrOtherBackup) {
			t.Errorf("none was taken, and it is verified: %v", err)
		}
		for _, sum := range []string{"a", "b"} {
			if err := concern.NoteBackup(ctx, w.Ring, concern.Backup{Began: time.Now(), By: "eve", SHA256: sum, Accounts: 3, Bytes: 10}); err != nil {
				t.Fatal(err)
			}
			if sum == "a" {
				if b, err := concern.NoteVerified(ctx, w.Ring, sum, "adam"); err != nil || b.Verified.IsZero() || b.VerifiedBy != "adam" {
					t.Errorf("%+v, %v", b, err)
				}
				if b := known(); b.Last == nil || b.Verified != nil || b.Last.Verified.IsZero() || b.Last.Accounts != 3 || !b.Last.Ended.Equal(b.Now) {
					t.Errorf("verified: %+v, %+v", b.Last, b.Verified)
				}
				time.Sleep(time.Hour)
			}
		}
		if b := known(); b.Last.SHA256 != "b" || !b.Last.Verified.IsZero() || b.Verified == nil || b.Verified.SHA256 != "a" {
			t.Errorf("one since: %+v, %+v", b.Last, b.Verified)
		}
		if _, err := concern.NoteVerified(ctx, w.Ring, "a", "eve"); !errors.Is(err, concern.ErrOtherBackup) {
			t.Errorf("the one before is verified: %v", err)
		}
		time.Sleep(8*24*time.Hour - time.Minute)
		if c := old(); c != nil {
			t.Errorf("not yet: %+v", c)
		}
		time.Sleep(time.Minute)
		if c := old(); c == nil || c.Level != concern.Note || c.Seconds != (8*24*time.Hour).Seconds() || !c.Since.Equal(time.Now()) {
			t.Errorf("old: %+v", c)
		}
	})
}
