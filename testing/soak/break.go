package main

import (
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

// parking are the errcodes that park an account. Each is used for an account of its own.
func parking() []int { return []int{95000, 95004, 95011, 95012, 95017, 48002, 40201, 40058, 40001} }

// short reports whether a run is too short for what takes minutes to pass.
func (e *endurance) short() bool { return e.length < 2*time.Minute }

// doom has the first accounts of the healthy corporation refused for good. A token that
// is refused within a minute of another does not count as the account's fault, so a short
// run leaves that one out.
func (e *endurance) doom() {
	e.doomed = make(map[int]int)
	for n, code := range parking() {
		if code == 40001 && e.short() {
			continue // the last of them
		}
		e.doomed[n] = code
		e.world.Fake.FailAccount(e.calm.Account(n), wecom.Fault{Code: code})
		e.injected[strconv.Itoa(code)] = 1
	}
}

// passing are faults of one account that pass.
func passing() map[string]wecom.Fault {
	return map[string]wecom.Fault{
		"-1":               {Code: -1, Times: 2},
		"-1, four times":   {Code: -1, Times: 4},
		"40014":            {Code: 40014, Times: 1},
		"42001":            {Code: 42001, Times: 1},
		"45033":            {Code: 45033, Times: 1},
		"95007":            {Code: 95007, Times: 1},
		"an unknown code":  {Code: 99999, Times: 1},
		"HTTP 500":         {Status: 500, Times: 1},
		"HTTP 503":         {Status: 503, RetryAfter: "2", Times: 1},
		"no JSON":          {Garbage: true, Times: 1},
		"9 MiB":            {Bytes: 9 << 20, Times: 1},
		"hangs":            {Hang: true, Times: 1},
		"token: -1":        {Code: -1, Times: 2},
		"token: HTTP 500":  {Status: 500, Times: 1},
		"token: no JSON":   {Garbage: true, Times: 1},
		"token: forgotten": {},
	}
}

// breakSomething injects one of the faults that pass.
func (e *endurance) breakSomething() {
	faults := passing()
	names := sortedKeys(faults)
	name := names[e.random.IntN(len(names))]
	fault := faults[name]
	e.injected[name]++
	switch name {
	case "token: forgotten":
		e.revoke(e.calm.ID)
	case "token: -1", "token: HTTP 500", "token: no JSON":
		e.revoke(e.calm.ID)
		e.world.Fake.Fail(e.calm.ID, wecom.GetToken, fault)
	default:
		healthy := len(e.doomed) + e.random.IntN(e.calm.Accounts-len(e.doomed))
		e.seen.spoil(e.calm.Account(healthy))
		e.world.Fake.FailAccount(e.calm.Account(healthy), fault)
	}
}

// revoke ends a corporation's token. A replacement is not replaced again within a minute,
// so a short run does this once.
func (e *endurance) revoke(corp string) {
	if e.short() && e.revoked[corp] {
		return
	}
	e.revoked[corp] = true
	e.world.Fake.Revoke(corp)
}

// limitOnce has WeCom report that the limited corporation makes too many calls, which
// pauses it for a minute. A short run does not have that long.
func (e *endurance) limitOnce() error {
	if e.short() {
		return nil
	}
	e.injected["45009"]++
	e.world.Fake.Fail(e.busy.ID, wecom.SyncMsg, wecom.Fault{Code: 45009, Times: 1})
	return nil
}
