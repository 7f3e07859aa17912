package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
	"github.com/rounds-dev/rounds/testing/wecomtest"
)

type plan struct {
	length      time.Duration
	accounts    int
	seed        uint64
	binary      string // of the program; empty: it is built
	onlyCuts    bool   // all that goes wrong with sends is that answers are cut
	mailboxes   int
	spoilsMails bool          // each account that does not remember mails never gets its second one, and gets its third one twice
	patience    time.Duration // how long the last messages may take; 0: endsWithin
}

const (
	every      = 10 * time.Second
	pollers    = 3
	busyCalls  = 480 // calls that the limited corporation may make in a minute
	busyRate   = 7   // a second; the program is told this rate
	endsWithin = 5 * time.Minute
)

// endurance is a run.
type endurance struct {
	plan
	world             *wecomtest.World
	random            *rand.Rand
	calm, busy, wrong wecomtest.Corp
	doomed            map[int]int // of the healthy one: the n-th account and the errcode that parks it
	seen              *watcher
	injected          map[string]int // how often each error was
	revoked           map[string]bool
	callbacks         int
	kills             int
	ticks, posts      int
	bots              *bots
	mails             *mailboxes
	outlets           []*outlet
	sends             int
}

func run(ctx context.Context, dir string, p plan) (findings []finding, err error) {
	e := &endurance{
		plan: p, random: rand.New(rand.NewPCG(p.seed, 7)), seen: newWatcher(), injected: make(map[string]int), revoked: make(map[string]bool),
		calm: wecomtest.Corp{ID: "calm", Accounts: p.accounts * 2 / 5}, busy: wecomtest.Corp{ID: "busy", Accounts: p.accounts * 2 / 5},
	}
	e.wrong = wecomtest.Corp{ID: "wrong", Known: "an-old-secret", Accounts: p.accounts - e.calm.Accounts - e.busy.Accounts}
	if e.bots, err = newBots(e.random); err != nil {
		return nil, err
	}
	defer e.bots.close()
	if e.mails, err = newMailboxes(p.seed, p.mailboxes, p.spoilsMails); err != nil {
		return nil, err
	}
	defer e.mails.close()
	e.world, err = wecomtest.Open(ctx, dir, wecomtest.Options{
		Corps: []wecomtest.Corp{e.calm, e.busy, e.wrong}, Every: every, Pollers: pollers, OnSync: e.seen.sync,
		Settings: append(append(e.bots.settings(), e.mails.settings()...), fmt.Sprintf("ROUNDS_LIMITS=wecom-kf/busy rate=%d/s concurrency=5", busyRate)),
		Redis:    []redistest.Option{redistest.WithAOF()}, Binary: p.binary,
	})
	defer e.world.Close()
	if err != nil {
		return nil, err
	}
	if err := e.mails.signIn(ctx, e.world); err != nil {
		return nil, err
	}
	records, n := e.bots.records()
	e.mails.write(records)
	if err := e.world.Import(ctx, records, n+len(e.mails.accounts)); err != nil {
		return nil, err
	}
	e.outlets = e.newOutlets()
	e.world.Fake.LimitCalls(e.busy.ID, busyCalls)
	if err := e.post(ctx); err != nil {
		return nil, err
	}
	if err := e.mails.heal(); err != nil {
		return nil, err
	}
	e.bots.heal()
	e.world.Fake.Heal()
	e.doom() // Heal has healed these too
	return e.judge(ctx)
}

// post posts messages and breaks things until the time is over.
func (e *endurance) post(ctx context.Context) error {
	e.doom()
	began := time.Now()
	faults := time.NewTicker(max(time.Second, e.length/100))
	defer faults.Stop()
	posts := time.NewTicker(40 * time.Millisecond)
	defer posts.Stop()
	events := e.events()
	for time.Since(began) < e.length {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-posts.C:
			if err := e.postOne(ctx); err != nil {
				return err
			}
			e.bots.post()
			if e.posts++; e.posts%mailEvery == 0 {
				e.mails.post()
			}
			if e.posts%sendEvery == 0 {
				if err := e.send(ctx); err != nil {
					return err
				}
			}
		case <-faults.C:
			e.breakSomething()
			if err := e.mails.breakSomething(e.short()); err != nil {
				return err
			}
			if e.ticks++; e.short() && e.ticks%3 > 0 {
				break // or bots fail several times in a row, and wait long
			}
			e.breakSends()
			if err := e.bots.breakSomething(ctx); err != nil {
				return err
			}
		}
		for len(events) > 0 && time.Since(began) >= time.Duration(events[0].at*float64(e.length)) {
			if err := events[0].do(); err != nil {
				return err
			}
			events = events[1:]
		}
	}
	return nil
}

// postOne posts a message to an account, and sends a callback for every other one. A
// callback that fails, because the account is parked or the API busy, does no harm: the
// cadence goes on.
func (e *endurance) postOne(ctx context.Context) error {
	c := e.calm
	if e.random.IntN(2) == 0 {
		c = e.busy
	}
	id := c.Account(e.random.IntN(c.Accounts))
	if e.random.IntN(4) == 0 {
		e.world.Fake.PostEvent(id, anyOf(e.random, wecom.Events()))
	} else {
		e.world.Fake.Post(id, anyOf(e.random, wecom.Types()))
	}
	if e.random.IntN(2) == 0 {
		return nil
	}
	if err := e.world.Callback(ctx, c.ID, id); err != nil {
		return err
	}
	e.callbacks++
	return nil
}

func anyOf(random *rand.Rand, names []string) string { return names[random.IntN(len(names))] }

// event is something that is done once, after a part of the time.
type event struct {
	at float64
	do func() error
}

func (e *endurance) events() []event {
	kill := func(i int) func() error {
		return func() error {
			e.kills++
			began := time.Now()
			e.world.Pollers[i].Kill()
			e.bots.killed = append(e.bots.killed, span{began, time.Now()})
			return e.world.Restart(i)
		}
	}
	revoke := func() error {
		e.revoke(e.calm.ID)
		e.revoke(e.busy.ID)
		e.injected["token revoked"]++
		return nil
	}
	return []event{
		{0.15, revoke}, {0.25, kill(0)}, {0.35, e.limitOnce}, {0.4, e.bots.doom}, {0.5, revoke}, {0.6, kill(1)}, {0.75, revoke},
		{0.8, func() error {
			e.kills++
			began := time.Now()
			if err := e.world.Pollers[2].Terminate(40 * time.Second); err != nil {
				return err
			}
			e.bots.killed = append(e.bots.killed, span{began, time.Now()})
			return e.world.Restart(2)
		}},
	}
}
