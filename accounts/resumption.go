package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// ResumeFrom says where an account goes on that is resumed.
type ResumeFrom string

// Where a resumed account goes on.
const (
	// ResumeCursor is where its last check ended. What came meanwhile is found, as
	// far as the third party still has it.
	ResumeCursor ResumeFrom = "cursor"
	// ResumeNow passes over what came before it was resumed: checks go on from the
	// cursor, and messages are dropped that are older than the resumption, by their
	// own time in whole seconds. Of those without a time all are dropped until the
	// account has caught up, for SkipUntimed at most. See WithSkip.
	ResumeNow ResumeFrom = "now"
	// ResumeBackfill forgets the cursor: everything is found that the third party
	// still has, some of it once more, under the same message ids.
	ResumeBackfill ResumeFrom = "backfill"
)

// SkipUntimed is how long messages without a time are passed over at most after
// a resumption ResumeNow. Nothing else tells old from new.
const SkipUntimed = 24 * time.Hour

// DecodeResumption reads where to resume from strictly:
//
//	{"from": "cursor"}
//
// or "now" or "backfill". The field may be left out, and so may the whole text:
// that is ResumeCursor. It returns every fault at once, as Faults.
func DecodeResumption(text []byte) (ResumeFrom, error) {
	from := ResumeCursor
	if len(bytes.TrimSpace(text)) == 0 {
		return from, nil
	}
	fields, err := strict.Object(text)
	if err != nil {
		return from, err
	}
	var faults Faults
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch {
		case name != "from":
			faults.Add(name, "is not a field of a resumption, which has from")
		case strict.IsNull(fields[name]):
		case json.Unmarshal(fields[name], &from) != nil || from.Validate() != nil:
			faults = append(faults, resumeFault)
		}
	}
	if len(faults) > 0 {
		return ResumeCursor, faults
	}
	return from, nil
}

var resumeFault = Fault{Field: "from", Reason: `must be "cursor", "now" or "backfill"`}

// Validate returns Faults for what is none of the three.
func (f ResumeFrom) Validate() error {
	switch f {
	case ResumeCursor, ResumeNow, ResumeBackfill:
		return nil
	}
	return Faults{resumeFault}
}

// ResumeFrom brings an account back, for whatever reason it was parked: due at once,
// with a clean slate, and it goes on from where it is told. One that circulates
// is left alone, whatever the place. It returns ErrNotFound or Faults.
func (r *Registry) ResumeFrom(ctx context.Context, id string, from ResumeFrom) (View, error) {
	if err := from.Validate(); err != nil {
		return View{}, err
	}
	account := r.ring.Account(id)
	item := circulate.Resumption{ForgetCursor: from == ResumeBackfill}
	if from == ResumeNow {
		now, err := account.Now(ctx)
		if err != nil {
			return View{}, err
		}
		item.State = WithSkip("", now)
	}
	if err := account.Resume(ctx, item); err != nil {
		return View{}, translate(err, id)
	}
	return r.Get(ctx, id)
}

// skipLetter begins the word that WithSkip puts into what an account's cadence keeps.
const skipLetter = "s"

// WithSkip puts in front of what an account's cadence keeps that messages from
// before a time are to be passed over; a zero time puts nothing there. It stays
// there over claims, failures and changes of the record, until a check has
// nothing left to fetch, or the account is resumed anew.
func WithSkip(state string, before time.Time) string {
	if before.IsZero() {
		return state
	}
	return joined(skipLetter+strconv.FormatInt(before.UnixMilli(), 10), state)
}

// SkipBefore is the time that WithSkip put there, to the millisecond; zero where
// nothing is to be passed over.
func SkipBefore(state string) time.Time {
	word, _, _ := strings.Cut(state, " ")
	return momentIn(word, skipLetter)
}
