// Package problem sums up the accounts that are checked in vain: accounts whose last
// check failed, and accounts parked for a failure. It groups them by kind, by the host or
// corporation where they are checked, and by cause. A monitor makes the summary and
// stores it in Redis, where any API process reads it. Callers with labels see only some
// of the accounts. For them alone an API process makes the summary itself.
//
// A summary is bounded, whatever fails: it has the largest groups, and the sum of the
// others. A paused account, or one whose one check is done, is in no group.
package problem

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// MostGroups is the most groups of a summary.
	MostGroups = 200
	// MostExamples is the most examples of a group.
	MostExamples = 3
	// MostApart is the most hosts of one kind and cause that have groups of their own.
	MostApart = 20
	// ApartFrom is the number of accounts from which on a host has a group of its own, if
	// there are more than AllApart hosts.
	ApartFrom = 5
	// AllApart is the most hosts of one kind and cause that all have groups of their own,
	// whatever their size.
	AllApart = 3
)

// Counts are how many accounts are checked in vain.
type Counts struct {
	Accounts       int `json:"accounts" doc:"Failing and parked ones together."`
	Failing        int `json:"failing" doc:"Those in circulation whose last check failed, whatever the cause."`
	Newly          int `json:"newly" doc:"Those of the failing ones that began to fail within the last hour: their first slot since a check last succeeded completely, or since they were registered, is less than an hour ago."`
	NeverSucceeded int `json:"never_succeeded" doc:"Accounts in circulation that were checked, but never with complete success."`
	Parked         int `json:"parked" doc:"Those that were taken out of circulation because of a failure. Paused ones do not count."`
}

func (c *Counts) add(d Counts) {
	c.Accounts += d.Accounts
	c.Failing += d.Failing
	c.Newly += d.Newly
	c.NeverSucceeded += d.NeverSucceeded
	c.Parked += d.Parked
}

// Summary is a monitor's summary of the accounts that are checked in vain.
type Summary struct {
	At time.Time `json:"at,omitzero" doc:"When the monitor had looked at all of them, by Redis' clock; missing if it has not yet."`
	Counts
	Registered int            `json:"registered,omitempty" doc:"All registered accounts, as the monitor last counted them; left out for callers that are bound to labels, and if they are not counted yet."`
	AtRest     int            `json:"at_rest" doc:"Parked accounts that are no problem: somebody paused them, or their one check is done. They are in no group."`
	LeftOut    int            `json:"left_out" doc:"About how many failing or parked accounts were not looked at, because there are too many. They are in no count."`
	Groups     []FailingGroup `json:"groups" nullable:"false" doc:"At most 200 groups: those with the most newly failing accounts first, then the largest."`
	Other      OtherGroups    `json:"other" doc:"All further groups together."`
}

// FailingGroup is the accounts of one kind that are checked in vain for the same cause,
// at one host or at several hosts with few accounts each.
type FailingGroup struct {
	Counts
	Kind  string `json:"kind" doc:"The kind; empty for records that cannot be read."`
	Host  string `json:"host,omitempty" doc:"The host or corporation that the accounts' configs name. A host has its port behind a colon, unless that is the scheme's own. It is missing in a group of several hosts, and of accounts that name none."`
	Hosts int    `json:"hosts" doc:"How many hosts or corporations the configs name. 0: none."`
	Cause string `json:"cause" doc:"The name of what went wrong: the code, a tilde and a digest. It stays the same as long as the text differs only in numbers, ids and times."`
	Code  string `json:"code" doc:"What went wrong, as one stable word such as http_404; unknown if the text names none."`
	Class string `json:"class,omitempty" doc:"The sort of failure: transient, rate_limited, auth, gone, config, cursor_invalid, protocol, hung, panic, or blameless if the accounts are not to blame. Missing if no check failed, such as in quarantine."`
	Text  string `json:"text" doc:"What went wrong at the latest failure, in the words of the third party or of the check."`

	Oldest   time.Time  `json:"oldest" doc:"The earliest time of an account's last complete success. An account that never succeeded counts from its registration."`
	Newest   time.Time  `json:"newest" doc:"The latest such time."`
	LastAt   time.Time  `json:"last_at" doc:"When the latest failure was."`
	Examples []string   `json:"examples" nullable:"false" doc:"The ids of at most three accounts."`
	Next     []NextStep `json:"next" nullable:"false" doc:"What will happen by itself."`

	Select map[string][]string `json:"select,omitempty" doc:"The parameters that select exactly these accounts in GET /v1/accounts, in an export and in changes of many. Missing if none do, because their records cannot be read."`
}

// OtherGroups is the sum of the groups that a summary leaves out.
type OtherGroups struct {
	Counts
	Groups int `json:"groups" doc:"How many groups there are, at least."`
}

// The steps that happen by themselves.
const (
	StepChecked  = "checked"   // they are checked again at a time of their cadence, or are being checked
	StepBacksOff = "backs_off" // they are checked again after pauses, which grow with each failure that counts
	StepWaits    = "waits"     // they are checked again when the third party, a limit or our network allows
	StepParks    = "parks"     // they will be parked after so many failures in a row
	StepProbed   = "probed"    // they are parked, and tried again
	StepStays    = "stays"     // they are parked until somebody resumes or changes them
)

// NextStep is something that will happen by itself to accounts of a group.
type NextStep struct {
	Code     string `json:"code" enum:"checked,backs_off,waits,parks,probed,stays" doc:"checked: checked again at a time of their cadence, or at once. backs_off: checked again after pauses, which grow with each failure that counts against the account. waits: checked again when the third party, a limit or our own network allows, and nobody is blamed. parks: parked after so many failures in a row. probed: parked, and tried again. stays: parked until somebody resumes or changes them."`
	Accounts int    `json:"accounts" doc:"How many accounts it concerns."`

	First time.Time `json:"first,omitzero" doc:"checked, backs_off, waits, probed: when it happens to the first account."`
	Last  time.Time `json:"last,omitzero" doc:"When it happens to the last account."`
	Most  int       `json:"most_seconds,omitempty" doc:"backs_off: the longest pause."`
	After int       `json:"after,omitempty" doc:"parks: after how many failures in a row or, with over_seconds, after how many refusals of the credential."`
	Over  int       `json:"over_seconds,omitempty" doc:"parks: the least time from the first refusal to the one that parks."`
	Least int       `json:"least,omitempty" doc:"parks: how many failures they have had, at least; missing for refusals."`
	Worst int       `json:"worst,omitempty" doc:"parks: how many failures they have had, at most."`
}

// The names of the summary, and of the same without groups, among a namespace's notices.
const name, countsName = "problems", "problem_counts"

// Store stores a summary. The latest caller wins.
func Store(ctx context.Context, ring *circulate.Ring, s Summary) error {
	text, err := s.encode()
	if err != nil {
		return err
	}
	if _, err = document.Of(ring).Notices().Post(ctx, name, text); err != nil {
		return err
	}
	s.Groups = []FailingGroup{}
	if text, err = s.encode(); err == nil {
		_, err = document.Of(ring).Notices().Post(ctx, countsName, text)
	}
	return err
}

// encode returns the summary as it is stored. If it is too large, the last groups are
// summed up.
func (s *Summary) encode() ([]byte, error) {
	for {
		text, err := json.Marshal(s)
		if err != nil || len(text) <= document.MaxNotice || len(s.Groups) == 0 {
			return text, err
		}
		keep := len(s.Groups) * 3 / 4
		for i := range s.Groups[keep:] {
			s.Other.Groups++
			s.Other.add(s.Groups[keep+i].Counts)
		}
		s.Groups = s.Groups[:keep]
	}
}

// Last returns the last stored summary, and the time now by the clock of its At. It
// returns false if there is none yet.
func Last(ctx context.Context, ring *circulate.Ring) (s Summary, now time.Time, ok bool, err error) {
	return last(ctx, ring, name)
}

// LastCounts is Last without the groups, which costs less.
func LastCounts(ctx context.Context, ring *circulate.Ring) (s Summary, now time.Time, ok bool, err error) {
	return last(ctx, ring, countsName)
}

func last(ctx context.Context, ring *circulate.Ring, name string) (s Summary, now time.Time, ok bool, err error) {
	found, now, err := document.Of(ring).Notices().Read(ctx, name)
	if err != nil {
		return Summary{}, now, false, err
	}
	notice, ok := found[name]
	if !ok {
		return Summary{}, now, false, nil
	}
	if err := json.Unmarshal(notice.Text, &s); err != nil {
		return Summary{}, now, false, fmt.Errorf("last problems: %w", err)
	}
	return s, now, true, nil
}
