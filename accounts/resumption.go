package accounts

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// ResumeFrom says where a resumed account goes on.
type ResumeFrom string

// Where a resumed account goes on.
const (
	// ResumeCursor goes on where the last check ended. Messages that came meanwhile are
	// found if the third party still has them.
	ResumeCursor ResumeFrom = "cursor"
	// ResumeNow drops messages from before the resumption. Checks go on from the cursor,
	// and drop messages whose own time, in whole seconds, is older than the resumption.
	// Messages without a time are all dropped until the account has caught up, for at
	// most SkipUntimed. See Memory.
	ResumeNow ResumeFrom = "now"
	// ResumeBackfill drops the cursor. Checks find everything that the third party still
	// has. Messages that were found before have the same ids again.
	ResumeBackfill ResumeFrom = "backfill"
)

// SkipUntimed is the longest time after ResumeNow for which messages without a time are
// dropped. Nothing else distinguishes old ones from new ones.
const SkipUntimed = 24 * time.Hour

// DecodeResumption reads where to resume from strictly:
//
//	{"from": "cursor"}
//
// or "now" or "backfill". The field may be left out, and so may the whole text: both mean
// ResumeCursor. It returns every fault at once, as Faults.
func DecodeResumption(text []byte) (ResumeFrom, error) {
	r, faults := resumptionDecoder.Decode(strict.OrEmpty(text))
	if r.From == "" {
		r.From = ResumeCursor
	}
	if err := faults.And(r.From.Validate()); err != nil {
		return ResumeCursor, err
	}
	return r.From, nil
}

var resumptionDecoder = strict.NewDecoder[struct {
	From ResumeFrom `strict:"from,given"`
}]("a resumption", resumeFault)

var resumeFault = Fault{Field: "from", Reason: `must be "cursor", "now" or "backfill"`}

// Validate returns Faults for any other value.
func (f ResumeFrom) Validate() error {
	switch f {
	case ResumeCursor, ResumeNow, ResumeBackfill:
		return nil
	}
	return Faults{resumeFault}
}

// ResumeFrom brings a parked account back, whatever the reason: it is due at once, with a
// clean slate, and goes on where from says. An account that circulates stays as it is.
// ResumeFrom returns Faults for an unknown value, and ErrNotFound.
func (r *Registry) ResumeFrom(ctx context.Context, id string, from ResumeFrom) (View, error) {
	if err := from.Validate(); err != nil {
		return View{}, err
	}
	return r.change(ctx, id, func(account circulate.Account) error {
		item := circulate.Resumption{ForgetCursor: from == ResumeBackfill}
		if from == ResumeNow {
			now, err := account.Now(ctx)
			if err != nil {
				return err
			}
			item.State = Memory{SkipBefore: now}.Encode()
		}
		return account.Resume(ctx, item)
	})
}
