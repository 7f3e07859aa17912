package main

import (
	"strconv"

	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

// parking are the errcodes that park an account, each for an account of its own.
func parking() []int { return []int{95000, 95004, 95011, 95012, 95017, 48002, 40201, 40058, 40001} }

// doom has the first accounts of the healthy corporation refused for good.
func (e *endurance) doom() {
	e.doomed = make(map[int]int)
	for n, code := range parking() {
		e.doomed[n] = code
		e.world.Fake.FailAccount(e.calm.Account(n), wecom.Fault{Code: code})
		e.injected[strconv.Itoa(code)] = 1
	}
}

// passing are faults that pass, of one account.
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
		e.world.Fake.Revoke(e.calm.ID)
	case "token: -1", "token: HTTP 500", "token: no JSON":
		e.world.Fake.Revoke(e.calm.ID)
		e.world.Fake.Fail(e.calm.ID, wecom.GetToken, fault)
	default:
		healthy := len(e.doomed) + e.random.IntN(e.calm.Accounts-len(e.doomed))
		e.seen.spoil(e.calm.Account(healthy))
		e.world.Fake.FailAccount(e.calm.Account(healthy), fault)
	}
}

// limitOnce has WeCom say that the limited corporation makes too many calls.
func (e *endurance) limitOnce() error {
	e.injected["45009"]++
	e.world.Fake.Fail(e.busy.ID, wecom.SyncMsg, wecom.Fault{Code: 45009, Times: 1})
	return nil
}
