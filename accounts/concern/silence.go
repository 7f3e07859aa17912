package concern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// LongestSilence is how long a concern can be silent, and how long it counts as seen at most.
	LongestSilence = 30 * 24 * time.Hour
	// MaxWhy is the most bytes of a reason or a note.
	MaxWhy = 512

	maxSubject = 256

	seenSort, silenceSort = "seen", "silence"
)

// ErrFull reports that people have said as much about concerns as there is room for.
var ErrFull = errors.New("concern: as much is said about concerns as there may be")

// Seen says that somebody has seen a concern, and looks after it.
type Seen struct {
	By   string    `json:"by"`
	At   time.Time `json:"at"`
	Note string    `json:"note,omitempty" doc:"What the one who has seen it says."`
}

// Silence says that a concern is known, and is to trouble nobody for a while.
type Silence struct {
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// said is what people have said about one sort of concerns. It is stored as JSON.
type said struct {
	By    string    `json:"by"`
	At    time.Time `json:"at"`
	Until time.Time `json:"-"`
	Why   string    `json:"why,omitempty"`

	sort    string
	code    Code
	subject string // empty: whatever the concern is about
}

func (s *said) is(sort string, c *Concern) bool {
	return s.sort == sort && s.code == c.Code && (s.subject == "" || s.subject == c.Subject)
}

// Silences has what people have said about the concerns of a namespace: that they have seen one, or
// that it is to be silent. What they say is about a code, or about a code and a subject, and ends by
// itself.
type Silences struct{ terms document.Terms }

// SilencesOf returns what people have said about the concerns of a ring's namespace.
func SilencesOf(ring *circulate.Ring) Silences { return Silences{document.Of(ring).Silences()} }

func (s Silences) all(ctx context.Context) ([]said, error) {
	terms, _, err := s.terms.All(ctx)
	var all []said
	for _, t := range terms {
		one := said{Until: t.Until}
		parts := strings.SplitN(t.Name, "|", 3)
		if len(parts) != 3 || json.Unmarshal(t.Text, &one) != nil {
			continue // of a later version
		}
		one.sort, one.code, one.subject = parts[0], Code(parts[1]), parts[2]
		all = append(all, one)
	}
	// What is said about a subject goes before what is said about all.
	slices.SortFunc(all, func(a, b said) int { return strings.Compare(b.subject, a.subject) })
	return all, err
}

// Silenced returns the codes that are silent, whatever they are about.
func (s Silences) Silenced(ctx context.Context) ([]Code, error) {
	all, err := s.all(ctx)
	var codes []Code
	for i := range all {
		if all[i].sort == silenceSort && all[i].subject == "" {
			codes = append(codes, all[i].code)
		}
	}
	return codes, err
}

// Silence has concerns of a code be silent until a time. An empty subject is all of them. The error
// may be accounts.Faults or ErrFull. It is safe to repeat.
func (s Silences) Silence(ctx context.Context, code Code, subject string, until time.Time, by, reason string) error {
	return s.put(ctx, silenceSort, code, subject, until, by, reason)
}

// Acknowledge says that somebody has seen concerns of a code. It holds for 30 days, and for a concern
// until it begins anew. Otherwise it is as Silence.
func (s Silences) Acknowledge(ctx context.Context, code Code, subject, by, note string) error {
	return s.put(ctx, seenSort, code, subject, time.Time{}, by, note)
}

func (s Silences) put(ctx context.Context, sort string, code Code, subject string, until time.Time, by, why string) error {
	now, err := s.terms.Now(ctx)
	if err != nil {
		return err
	}
	why = strings.TrimSpace(why)
	var faults accounts.Faults
	if !slices.Contains(Codes(), code) {
		faults.Add("code", "is not the code of a concern: rounds concerns list shows them")
	}
	if len(subject) > maxSubject {
		faults.Add("subject", fmt.Sprintf("must have at most %d bytes", maxSubject))
	}
	switch {
	case len(why) > MaxWhy && sort == seenSort:
		faults.Add("note", fmt.Sprintf("must have at most %d bytes", MaxWhy))
	case sort == silenceSort && (why == "" || len(why) > MaxWhy):
		faults.Add("reason", fmt.Sprintf("must have 1 to %d bytes: say why, for those who see it", MaxWhy))
	}
	switch {
	case sort == seenSort:
		until = now.Add(LongestSilence)
	case !until.After(now):
		faults.Add("until", "must be in the future")
	case until.After(now.Add(LongestSilence)):
		faults.Add("until", "must be within 30 days")
	}
	if len(faults) > 0 {
		return faults
	}
	text, err := json.Marshal(said{By: by, At: now.UTC().Truncate(time.Millisecond), Why: why})
	if err != nil {
		return err
	}
	err = s.terms.Put(ctx, document.Term{Name: nameOf(sort, code, subject), Until: until, Text: text})
	if errors.Is(err, document.ErrFull) {
		err = ErrFull
	}
	return err
}

// Unsilence ends what Silence and Acknowledge have said about a code and a subject, and reports
// whether there was any.
func (s Silences) Unsilence(ctx context.Context, code Code, subject string) (bool, error) {
	silent, err := s.terms.Remove(ctx, nameOf(silenceSort, code, subject))
	if err != nil {
		return false, err
	}
	seen, err := s.terms.Remove(ctx, nameOf(seenSort, code, subject))
	return silent || seen, err
}

func nameOf(sort string, code Code, subject string) string {
	return sort + "|" + string(code) + "|" + subject
}

// mind notes what people have said about concerns with each of them.
func mind(all []Concern, what []said) {
	for i := range all {
		c := &all[i]
		for j := range what {
			s := &what[j]
			if c.Silenced == nil && s.is(silenceSort, c) {
				c.Silenced = &Silence{By: s.By, At: s.At.UTC(), Until: s.Until.UTC(), Reason: s.Why}
			}
			if c.Seen == nil && s.is(seenSort, c) && !c.Since.After(s.At) {
				c.Seen = &Seen{By: s.By, At: s.At.UTC(), Note: s.Why}
			}
		}
	}
}
