package concern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

// The names under which backups are noted.
const (
	backupName   = "backup"          // the last one that was taken
	verifiedName = "backup_verified" // the last one that was verified
)

const (
	// backupOld is how old the last backup is when that is a concern. A weekly backup that is a little
	// late is none.
	backupOld = 8 * 24 * time.Hour
	// maxBy is the most bytes of a name that are stored.
	maxBy = 256
)

// ErrOtherBackup reports that the last backup is another one.
var ErrOtherBackup = errors.New("concern: the last backup is another one")

// Backup describes a backup that the API has written. Where it is, and whether it is still there,
// only its owner knows. Its times are by Redis' clock.
type Backup struct {
	Began    time.Time `json:"began" doc:"When it was begun: what came later may be missing in it."`
	Ended    time.Time `json:"ended" doc:"When it was sent whole."`
	By       string    `json:"by,omitempty" doc:"The name of the key or person that took it."`
	Bytes    int64     `json:"bytes" doc:"Its size, not compressed, without the bytes of files."`
	SHA256   string    `json:"sha256" doc:"Of its lines before the trailer, which has it too, in hexadecimal."`
	Accounts int       `json:"accounts"`
	Messages int       `json:"messages"`
	Files    int       `json:"files" doc:"Files in its list, without their bytes."`
	Secrets  bool      `json:"with_secrets" doc:"It has the stored secrets and credentials, sealed."`

	Verified   time.Time `json:"verified,omitzero" doc:"When it was read again, and found whole. Left out: nobody has said so."`
	VerifiedBy string    `json:"verified_by,omitempty"`
}

// Backups is what is known about backups.
type Backups struct {
	Now      time.Time `json:"now" doc:"By Redis' clock."`
	Last     *Backup   `json:"last,omitempty" doc:"The last one that was taken. Left out if none was."`
	Verified *Backup   `json:"verified,omitempty" doc:"The last one that was verified, if it is another one."`
}

// NoteBackup notes the last backup that was taken, in place of the one before.
func NoteBackup(ctx context.Context, ring *circulate.Ring, b Backup) error {
	b.Ended, b.Verified, b.VerifiedBy = time.Time{}, time.Time{}, ""
	b.By = b.By[:min(len(b.By), maxBy)]
	_, err := noteBackup(ctx, ring, backupName, &b)
	return err
}

// NoteVerified notes that the last backup, which has this digest, was read again and found whole. It
// returns ErrOtherBackup if somebody has taken another one since. It is safe to repeat.
func NoteVerified(ctx context.Context, ring *circulate.Ring, sha256, by string) (Backup, error) {
	known, err := ReadBackups(ctx, ring)
	if err != nil {
		return Backup{}, err
	}
	if known.Last == nil || known.Last.SHA256 != sha256 {
		return Backup{}, ErrOtherBackup
	}
	b := *known.Last
	b.VerifiedBy = by[:min(len(by), maxBy)]
	b.Verified, err = noteBackup(ctx, ring, verifiedName, &b)
	return b, err
}

func noteBackup(ctx context.Context, ring *circulate.Ring, name string, b *Backup) (time.Time, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return time.Time{}, fmt.Errorf("note backup: %w", err)
	}
	posted, err := document.Of(ring).Notices().Post(ctx, name, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("note backup: %w", err)
	}
	return posted.UTC(), nil
}

// ReadBackups returns what is known about the backups of a ring's namespace. Notes that cannot be
// read, as of a later version, count as missing.
func ReadBackups(ctx context.Context, ring *circulate.Ring) (Backups, error) {
	found, now, err := document.Of(ring).Notices().Read(ctx, backupName, verifiedName)
	if err != nil {
		return Backups{}, fmt.Errorf("backups: %w", err)
	}
	known := Backups{Now: now.UTC()}
	if last := new(Backup); json.Unmarshal(found[backupName].Text, last) == nil {
		last.Ended = found[backupName].Posted.UTC()
		known.Last = last
	}
	if verified := new(Backup); json.Unmarshal(found[verifiedName].Text, verified) == nil {
		verified.Verified = found[verifiedName].Posted.UTC()
		known.Verified = verified
	}
	if v := known.Verified; v != nil && known.Last != nil && v.SHA256 == known.Last.SHA256 {
		known.Last, known.Verified = v, nil
	}
	return known, nil
}

// ofBackups returns the concern about a habit that has ended: backups were taken, and none lately.
// A service of which none was ever taken may be backed up in other ways.
func (f *facts) ofBackups() []Concern {
	last := f.backups.Last
	if last == nil || f.now.Sub(last.Ended) < backupOld {
		return nil
	}
	return []Concern{{Code: BackupOld, Level: Note, Since: last.Ended.Add(backupOld), Seconds: f.now.Sub(last.Ended).Seconds()}}
}
