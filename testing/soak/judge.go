package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
	"github.com/rounds-dev/rounds/testing/wecomtest"
)

// finding is something expected and how much of it was found.
type finding struct {
	expected, found string
	holds           bool
}

// healthy are the accounts whose messages must all be found.
func (e *endurance) healthy() (ids []string) {
	for n := len(e.doomed); n < e.calm.Accounts; n++ {
		ids = append(ids, e.calm.Account(n))
	}
	return append(ids, all(e.busy)...)
}

func all(c wecomtest.Corp) (ids []string) {
	for n := range c.Accounts {
		ids = append(ids, c.Account(n))
	}
	return ids
}

// judge waits until the last messages are found and compares.
func (e *endurance) judge(ctx context.Context) ([]finding, error) {
	server, err := connect.Open(e.world.Redis.URL(), connect.Options{})
	if err != nil {
		return nil, err
	}
	defer server.Close()
	ring, err := circulate.Open(ctx, server, circulate.Options{})
	if err != nil {
		return nil, err
	}
	ids := e.healthy()
	began := time.Now()
	counted, parked := tally{}, map[string]string(nil)
	var weixin, telegrams sum
	var mails mailSum
	for {
		if counted, err = e.count(ctx, ring, ids); err != nil {
			return nil, err
		}
		if parked, err = e.world.Parked(ctx); err != nil {
			return nil, err
		}
		if weixin, telegrams, err = e.bots.count(ctx, ring); err != nil {
			return nil, err
		}
		if mails, err = e.mails.count(ctx, ring); err != nil {
			return nil, err
		}
		ended, err := e.sendsEnded(ctx)
		if err != nil {
			return nil, err
		}
		if ended && counted.lost+weixin.behind+telegrams.behind+mails.missing == 0 && e.onlyDoomed(parked) || time.Since(began) > cmp.Or(e.patience, endsWithin) {
			break
		}
		for _, id := range slices.Concat(weixin.late, telegrams.late, mails.late) { // they wait after failures
			if err := e.world.Nudge(ctx, id); err != nil {
				return nil, err
			}
		}
		for _, id := range counted.behind { // a callback would bring them soon
			if err := e.world.Callback(ctx, corpOf(id), id); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2 * time.Second):
		}
	}
	caughtUp := time.Since(began).Round(time.Second)
	injected := 0
	for _, n := range e.injected {
		injected += n
	}
	busy, calm, wrong := e.world.Fake.Stats(e.busy.ID), e.world.Fake.Stats(e.calm.ID), e.world.Fake.Stats(e.wrong.ID)
	limited, calmIDs := all(e.busy), ids[:e.calm.Accounts-len(e.doomed)]
	var findings []finding
	for _, o := range e.outlets {
		findings = append(findings, o.finding())
	}
	findings = append(findings, e.bots.findings(weixin, telegrams, parked, e.short(), kindsOfErrors()+e.kindsOfSendErrors())...)
	findings = append(findings, e.mails.findings(mails, e.short())...)
	return append(findings, []finding{
		{"every message of every healthy account is in the streams once",
			fmt.Sprintf("%d posted to %d accounts; %d lost, %d doubled, %d made up; all settled %v after the end", counted.posted, len(ids), counted.lost, counted.doubled, counted.strange, caughtUp),
			counted.lost+counted.doubled+counted.strange == 0},
		{"every error was injected", fmt.Sprintf("%d times, %d kinds: %s", injected, len(e.injected), strings.Join(sortedKeys(e.injected), ", ")),
			len(e.injected) >= len(parking())+len(passing())+2 || e.length < 5*time.Minute},
		{"accounts that WeCom, WeChat or Telegram refuses for good are parked, and only they and those of the wrong secret",
			fmt.Sprintf("%d parked of %d", len(parked), e.wrong.Accounts+len(e.doomed)+len(e.bots.doomed())), e.onlyDoomed(parked)},
		{"a wrong secret is tried at most twice", fmt.Sprintf("%d times for %d accounts", wrong.WrongSecrets, e.wrong.Accounts), wrong.WrongSecrets >= 1 && wrong.WrongSecrets <= 2},
		{"our address is not banned", fmt.Sprint(e.world.Fake.Banned()), !e.world.Fake.Banned()},
		{fmt.Sprintf("the limited corporation has at most %d calls a minute", busyCalls),
			fmt.Sprintf("%d in its busiest minute, %d in all, %d refused", busy.MostInMinute, busy.SyncMsg, busy.Refused), busy.MostInMinute <= busyCalls},
		{"at most 5 calls of a corporation at once", fmt.Sprintf("%d and %d", busy.AtOnce, calm.AtOnce), max(busy.AtOnce, calm.AtOnce) <= 5},
		{fmt.Sprintf("the healthy corporation is not slowed: its accounts are asked about each %v", every),
			fmt.Sprintf("gaps p50 %v, p99 %v; of the limited one p50 %v", e.seen.quantile(calmIDs, 0.5).Round(time.Millisecond), e.seen.quantile(calmIDs, 0.99).Round(time.Millisecond), e.seen.quantile(limited, 0.5).Round(time.Millisecond)),
			e.seen.quantile(calmIDs, 0.5) < 2*every},
		{"one token is fetched for all", fmt.Sprintf("%d calls for %d tokens of the healthy corporation over %d revocations", calm.GetToken, calm.Tokens, calm.Tokens-1), calm.GetToken <= 5*calm.Tokens},
		{"replicas were killed, callbacks came", fmt.Sprintf("%d and %d", e.kills, e.callbacks), e.kills == 3 && e.callbacks > 0},
		{"no secret is in a log or a record", e.leaks(), e.leaks() == "none"},
	}...), nil
}

func corpOf(openKfID string) string { return strings.Split(openKfID, "-")[1] }

type tally struct {
	posted, lost, doubled, strange int
	behind                         []string
}

func (e *endurance) count(ctx context.Context, ring *circulate.Ring, ids []string) (tally, error) {
	found, err := foundBy(ctx, ring, func(_ string, data json.RawMessage) int { return wecom.Number(data) })
	if err != nil {
		return tally{}, err
	}
	var sum tally
	for _, id := range ids {
		n := e.world.Fake.Posted(id)
		sum.posted += n
		lost := sum.lost
		for i := 1; i <= n; i++ {
			switch c := found[id][i]; {
			case c == 0:
				sum.lost++
			case c > 1:
				sum.doubled += c - 1
			}
			delete(found[id], i)
		}
		sum.strange += len(found[id])
		if sum.lost > lost {
			sum.behind = append(sum.behind, id)
		}
	}
	return sum, nil
}

func (e *endurance) onlyDoomed(parked map[string]string) bool {
	want := e.wrong.Accounts + len(e.doomed) + len(e.bots.doomed())
	for n := range e.doomed {
		if parked[e.calm.Account(n)] == "" {
			return false
		}
	}
	for _, id := range all(e.wrong) {
		if parked[id] == "" {
			return false
		}
	}
	return len(parked) == want
}

// leaks looks for secrets in what the processes wrote. Records hold only their names.
func (e *endurance) leaks() string {
	for _, p := range append(e.world.Pollers, e.world.Main) {
		for _, text := range []string{"the-secret-of-", "an-old-secret", "corpsecret=", "access_token=", imapd.Password} {
			if strings.Contains(p.Log(), text) {
				return fmt.Sprintf("%q in the log of %s", text, p.Name)
			}
		}
	}
	return "none"
}

// foundBy counts the messages in the streams by account and by number.
func foundBy(ctx context.Context, ring *circulate.Ring, number func(kind string, data json.RawMessage) int) (map[string]map[int]int, error) {
	found := make(map[string]map[int]int)
	err := eachFound(ctx, ring, func(m circulate.Found) {
		if found[m.Account] == nil {
			found[m.Account] = make(map[int]int)
		}
		found[m.Account][number(m.Kind, json.RawMessage(m.Message.Data))]++
	})
	return found, err
}

// eachFound calls do with each message in the streams.
func eachFound(ctx context.Context, ring *circulate.Ring, do func(circulate.Found)) error {
	for shard := range ring.Shards() {
		for after := circulate.StreamStart; ; {
			page, err := ring.Streams().Messages(ctx, shard, after, 1000)
			if err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			for _, m := range page {
				do(m)
				after = m.Position
			}
		}
	}
	return nil
}
