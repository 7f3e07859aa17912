package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
	"github.com/rounds-dev/rounds/testing/upstream/telegram"
)

const (
	botsEach = 12 // accounts of each kind
	voided   = 2  // of each kind, the first ones: they are refused for good half-way
	holdOf   = 3 * time.Second
	// inHand is how long before and after a kill an answer may have been handed out that the
	// replica had not written: that is all that the third party's own loss allows.
	inHand = 2 * time.Second
)

// bots are accounts whose third parties hold calls, and those of connectors.
type bots struct {
	weixin     *ilinkd.Server
	telegram   *telegram.Telegram
	connectors []*connectors
	random     *rand.Rand
	stops      []func()
	killed     []span
	injected   map[string]int // how often each error was, by kind and name
	turn       int            // of the errors
	hooked     string         // the token of a Telegram bot that may have a webhook
}

func newBots(random *rand.Rand) (*bots, error) {
	b := &bots{random: random, injected: make(map[string]int), hooked: tokenOf("telegram", botsEach-1)}
	if err := b.serve(); err != nil {
		b.close()
		return nil, err
	}
	for n := range botsEach {
		b.weixin.AddBot(tokenOf("weixin", n))
		b.telegram.AddBot(tokenOf("telegram", n))
	}
	return b, nil
}

// serve starts the third parties.
func (b *bots) serve() error {
	var stop func()
	var err error
	if b.weixin, stop, err = ilinkd.Serve(ilink.Options{Hold: holdOf, NextHold: holdOf}); err != nil {
		return err
	}
	b.stops = append(b.stops, stop)
	if b.telegram, stop, err = telegram.Serve(telegram.Options{MaxHold: holdOf}); err != nil {
		return err
	}
	b.stops = append(b.stops, stop)
	for _, c := range []*connectors{{name: "a connector", prefix: "plain"}, {name: "a connector that deduplicates", prefix: "once", once: true}} {
		if stop, err = c.serve(); err != nil {
			return err
		}
		b.connectors, b.stops = append(b.connectors, c), append(b.stops, stop)
	}
	return nil
}

func (b *bots) close() {
	for _, stop := range b.stops {
		stop()
	}
}

// tokenOf returns a bot's token, in the form of Telegram's.
func tokenOf(kind string, n int) string { return fmt.Sprintf("%d:the-secret-of-%s", 1000+n, kind) }

// tokenOfAccount returns the token of the account of a bot.
func tokenOfAccount(id string) string {
	kind, n, _ := strings.Cut(id, "-")
	number, _ := strconv.Atoi(n)
	return tokenOf(kind, number)
}

// settings are the secrets of all bots.
func (b *bots) settings() (all []string) {
	for n := range botsEach {
		all = append(all, fmt.Sprintf("ROUNDS_SECRET_weixin-%d=%s", n, tokenOf("weixin", n)), fmt.Sprintf("ROUNDS_SECRET_telegram-%d=%s", n, tokenOf("telegram", n)))
	}
	return all
}

// records are the accounts, one a line, and how many there are.
func (b *bots) records() (lines *bytes.Buffer, n int) {
	var out bytes.Buffer
	for n := range botsEach {
		for kind, base := range map[string]string{"weixin": b.weixin.URL(), "telegram": b.telegram.URL()} {
			fmt.Fprintf(&out, `{"id":"%s-%d","kind":%[1]q,"cadence":"every 0","config":{"token":{"secret":"%[1]s-%d"},"base_url":%q}}`+"\n", kind, n, base)
		}
	}
	for _, c := range b.connectors {
		c.write(&out)
	}
	return &out, bytes.Count(out.Bytes(), []byte("\n"))
}

// post sends a message to one healthy bot of each kind.
func (b *bots) post() {
	n := voided + b.random.IntN(botsEach-voided)
	b.weixin.Post(tokenOf("weixin", n), anyOf(b.random, ilinkd.Types()))
	b.telegram.Post(tokenOf("telegram", n), "message")
}

// sum is what became of the messages of a kind.
type sum struct {
	posted, lost, allowed, doubled, behind int

	late []string // accounts that are behind
}

// count compares the streams with what was posted.
func (b *bots) count(ctx context.Context, ring *circulate.Ring) (weixin, telegrams sum, err error) {
	found, err := foundBy(ctx, ring, func(kind string, data json.RawMessage) int {
		switch kind {
		case "weixin":
			return ilinkd.Number(data)
		case "telegram":
			return telegram.Number(data)
		}
		return 0
	})
	if err != nil {
		return weixin, telegrams, err
	}
	for n := voided; n < botsEach; n++ {
		token := tokenOf("weixin", n)
		b.tally(&weixin, fmt.Sprintf("weixin-%d", n), found, b.weixin.Stats(token).Posted, func(i int) (given, mayBeLost bool) {
			at := b.weixin.GivenAt(token, i)
			return !at.IsZero(), b.excused(at)
		})
		b.tally(&telegrams, fmt.Sprintf("telegram-%d", n), found, b.telegram.Stats(tokenOf("telegram", n)).Posted, func(int) (bool, bool) { return false, false })
	}
	return weixin, telegrams, nil
}

// tally counts one account. Given says whether the third party has handed a message out for
// good, and whether its loss is excused.
func (b *bots) tally(s *sum, id string, all map[string]map[int]int, posted int, given func(n int) (given, excused bool)) {
	s.posted += posted
	found, behind := all[id], s.behind
	defer func() {
		if s.behind > behind {
			s.late = append(s.late, id)
		}
	}()
	for i := 1; i <= posted; i++ {
		switch c := found[i]; {
		case c > 1:
			s.doubled += c - 1
		case c == 0:
			out, excused := given(i)
			switch {
			case excused:
				s.allowed++
			case out:
				s.lost++
			default:
				s.behind++ // it may come yet
			}
		}
	}
}

// span is when something happened. A replica that is told to end takes a while, on a busy machine
// longer than inHand.
type span struct{ from, to time.Time }

// excused reports whether what was handed out then may be lost: the replica was killed, or the
// answer was cut.
func (b *bots) excused(at time.Time) bool {
	ended := slices.Clone(b.killed)
	for _, cut := range b.weixin.Cuts() {
		ended = append(ended, span{cut, cut})
	}
	return slices.ContainsFunc(ended, func(s span) bool {
		return at.After(s.from.Add(-inHand)) && at.Before(s.to.Add(inHand))
	})
}

// findings are what is expected of bots, which are to meet so many kinds of errors.
func (b *bots) findings(weixin, telegrams sum, parked map[string]string, short bool, kinds int) []finding {
	total := 0
	for _, n := range b.injected {
		total += n
	}
	var why []string
	for _, id := range b.doomed() {
		why = append(why, fmt.Sprintf("%s: %s", id, parked[id]))
	}
	return []finding{
		{"every message of every Telegram bot is in the streams once",
			fmt.Sprintf("%d posted; %d lost or behind, %d doubled", telegrams.posted, telegrams.lost+telegrams.behind, telegrams.doubled), telegrams.lost+telegrams.behind+telegrams.doubled == 0},
		{"every message of every WeChat account is in the streams once, but for answers that were cut and pages in hand of a killed replica: the server gives those once",
			fmt.Sprintf("%d posted; %d missing where that is allowed (%d answers cut, %d replicas killed), %d lost or behind otherwise, %d doubled",
				weixin.posted, weixin.allowed, len(b.weixin.Cuts()), len(b.killed), weixin.lost+weixin.behind, weixin.doubled), weixin.lost+weixin.behind+weixin.doubled == 0},
		{"every error of bots was injected", fmt.Sprintf("%d times, %d kinds: %s", total, len(b.injected), strings.Join(sortedKeys(b.injected), "; ")), short || len(b.injected) == kinds},
		{"bots whose token is void are parked as auth, and that says what to do", strings.Join(why, "; "), b.onlyDoomed(parked)},
	}
}
