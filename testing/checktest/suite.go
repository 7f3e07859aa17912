// Package checktest is the suite that every checker must pass, whatever it talks to:
// cursors resume exactly, no message comes twice, trials take nothing away, contexts end a
// check, oversized and malformed answers are errors, and no secret is revealed.
//
// A message's time is the zero time if the third party does not say it, or lies between the year 2000
// and now. So the fake third party must give its messages no times in the future.
//
// Run applies the suite to a Kind, over the fake third party that the Kind brings. A
// checker over HTTP must pass RunAddresses as well. A checker that package upstream can
// serve must pass RunHTTP, which includes both. A kind that sends must pass RunSends, and one whose
// messages carry files RunFiles.
package checktest

import (
	"encoding/json"
	"errors"
	"runtime/debug"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

// Hidden is a text for places that a careless error would quote, such as a faulty config.
// No error may hold it.
const Hidden = "hush-hush"

// Kind is a kind of checker under test.
type Kind struct {
	// Start starts a fake third party for one test, and ends it with the test.
	Start func(t *testing.T) Party
	// Invalid are configs that Validate must refuse. They may hold Hidden.
	Invalid []string
	// Faulty is a config with a fault in each of these Fields. Its error must name all of
	// them, as in "config.url".
	Faulty string
	Fields []string
}

// Party is a fake third party. Accounts exist as soon as they are named. New, Config, Post, Heal and
// a Fault that Hangs are required.
type Party struct {
	// New makes a checker that asks it, as another replica would have one. Required.
	New func() poller.Checker
	// Config is a valid config for an account. Required.
	Config func(account string) json.RawMessage
	// Post adds n messages to an account. Required.
	Post func(account string, n int)
	// ID is the id of an account's n-th message, counted from 1; nil: not judged.
	ID func(account string, n int) string
	// Faults are ways in which it fails. At least one of them should be an answer that is
	// too large, one a malformed answer and one a hang. One that Hangs is required.
	Faults []Fault
	// Heal ends an account's fault. Required.
	Heal func(account string)
	// Hold is how long a call may be held. If it is not zero, no page says that there is more,
	// and the suite asks until nothing comes.
	Hold time.Duration
	// Once says that the third party gives each message once, whatever cursor it is asked with.
	Once bool
	// Confirms says that asking with a cursor deletes what is before it, so that only the last
	// page can be asked for again.
	Confirms bool
	// Secrets are the values of the secrets that Config refers to, and any others that a checker knows
	// and must not reveal. A kind with a field of type secret must have some.
	Secrets []string
}

// Fault is a way in which a third party fails an account until it is healed.
type Fault struct {
	Name  string
	Break func(account string)
	// Kind is what the check's error must have. It may be empty only if the check hangs.
	Kind poller.ErrorKind
	// Scope and Code are what the error must have if they are not empty.
	Scope poller.ErrorScope
	Code  string
	// Hangs says that only the context ends the check.
	Hangs bool
}

// start starts the third party, and names what it lacks.
func (k Kind) start(t *testing.T) Party {
	t.Helper()
	if k.Start == nil {
		t.Fatal("Kind.Start is missing")
	}
	p := k.Start(t)
	for name, missing := range map[string]bool{"New": p.New == nil, "Config": p.Config == nil, "Post": p.Post == nil, "Heal": p.Heal == nil} {
		if missing {
			t.Errorf("Party.%s is missing", name)
		}
	}
	for _, fault := range p.Faults {
		if fault.Break == nil {
			t.Errorf("Fault.Break of %q is missing", fault.Name)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return p
}

// Run runs the suite. A checker that panics fails that case, and the others go on.
func Run(t *testing.T, k Kind) {
	with := func(name string, test func(t *testing.T, p Party)) {
		run(t, name, func(t *testing.T) { test(t, k.start(t)) })
	}
	with("each message once", eachMessageOnce)
	with("cursors resume exactly", cursorsResume)
	with("trials take nothing away", trialsTakeNothing)
	with("broken cursor", brokenCursor)
	with("contexts end a check", contextsEnd)
	with("faults are errors", faultsAreErrors)
	with("many at once", manyAtOnce)
	with("configs are judged", k.configsAreJudged)
}

// contain, deferred, turns a panic into a failure of the test.
func contain(t *testing.T) {
	if value := recover(); value != nil {
		t.Errorf("the checker panicked: %v\n%s", value, debug.Stack())
	}
}

// Failure returns the *poller.CheckError that an error must be.
func Failure(t *testing.T, err error) *poller.CheckError {
	t.Helper()
	notNil(t, err)
	var failed *poller.CheckError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v, want a *poller.CheckError", err)
	}
	return failed
}

// notNil ends the test if an error has a nil *poller.CheckError in it, whose methods panic.
func notNil(t *testing.T, err error) {
	t.Helper()
	if failed := new(poller.CheckError); errors.As(err, &failed) && failed == nil {
		t.Fatal("got a nil *poller.CheckError, which is not a nil error: a checker must return nil itself")
	}
}

// request asks for at most 7 messages of an account.
func (p Party) request(account string, cursor []byte) poller.Request {
	return poller.Request{Account: account, CheckID: "c1", Config: p.Config(account), Cursor: cursor, Limit: 7, Attempt: 1, Hold: p.Hold}
}

// more reports whether there may be another page.
func (p Party) more(result poller.Result) bool {
	return result.HasMore || p.Hold > 0 && len(result.Messages) > 0
}

// mostPages is after how many pages an account that says that there is more has no end. No test
// posts as much.
const mostPages = 100

// page checks once and verifies what the pool relies on in the result.
func (p Party) page(t *testing.T, checker poller.Checker, r poller.Request) poller.Result {
	t.Helper()
	result, err := checker.Check(t.Context(), r)
	if err != nil {
		tellsNothing(t, "check", err, p.Secrets)
		t.Fatalf("cursor %q: %v", r.Cursor, err)
	}
	judge(t, result, r.Limit, p.Secrets)
	return result
}

// drain checks until there is no more, and returns the ids and the cursor.
func (p Party) drain(t *testing.T, checker poller.Checker, account string, cursor []byte) (ids []string, _ []byte) {
	t.Helper()
	for range mostPages {
		result := p.page(t, checker, p.request(account, cursor))
		ids = append(ids, idsOf(result)...)
		if result.Cursor != nil {
			cursor = result.Cursor
		}
		if !p.more(result) {
			return ids, cursor
		}
	}
	t.Fatalf("no end after %d pages", mostPages)
	return nil, nil
}

func idsOf(result poller.Result) (ids []string) {
	for _, m := range result.Messages {
		ids = append(ids, m.ID)
	}
	return ids
}
