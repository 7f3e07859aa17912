package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
	"github.com/rounds-dev/rounds/testing/upstream/telegram"
)

// weixinErrors are the errors of WeChat's bots that pass. A few calls have them, of any bot.
func weixinErrors() map[string]ilinkd.Fault {
	return map[string]ilinkd.Fault{
		"524 at the end of a hold": {Status: 524, After: holdOf, Times: 3}, // with the time-out that the client's would be
		"502":                      {Status: 502, Times: 3},
		"504":                      {Status: 504, Times: 1},
		"500":                      {Status: 500, Times: 1},
		"401, once":                {Status: 401, Times: 1},
		"429":                      {Status: 429, Times: 1},
		"reset":                    {Reset: true, Times: 3},
		"an answer that is cut":    {Cut: true, Times: 1},
		"slow drip":                {Drip: true, Times: 1},
		"no answer":                {Hang: true, Times: 1},
		"no JSON":                  {Garbage: true, Times: 1},
		"9 MiB":                    {Bytes: 9 << 20, Times: 1},
		"nothing at once":          {Empty: true, Times: 5},
		"an unknown code":          {Code: -99, Times: 1},
		"-14, once":                {Code: -14, Times: 1},
	}
}

// telegramErrors are the errors of Telegram's bots that pass. A few calls of one bot have them.
func telegramErrors() map[string]telegram.Fault {
	return map[string]telegram.Fault{
		"400, a moved chat": {MigrateTo: -5, Times: 1},
		"403, once":         {Code: 403, Times: 1},
		"409, of whom":      {Code: 409, Times: 1},
		"429":               {RetryAfter: 1, Times: 2},
		"500":               {Code: 500, Times: 2},
		"502":               {Status: 502, Times: 2},
		"reset":             {Reset: true, Times: 2},
		"no answer":         {Hang: true, Times: 1},
		"no JSON":           {Garbage: true, Times: 2},
		"9 MiB":             {Bytes: 9 << 20, Times: 1},
	}
}

// The errors that are no answer of a fake.
const (
	idle    = "weixin: -14 until notifystart"
	void    = "weixin: bound elsewhere"
	revoked = "telegram: 401"
	unknown = "telegram: 404"
	webhook = "telegram: 409, a webhook"
	another = "telegram: 409, another program"
)

// kindsOfErrors is how many there are, without those of sends.
func kindsOfErrors() int { return len(weixinErrors()) + len(telegramErrors()) + 6 }

// breakSomething injects the next error of each kind that passes.
func (b *bots) breakSomething(ctx context.Context) error {
	turn, healthy := b.turn, voided+b.random.IntN(botsEach-voided)
	b.turn++
	faults := weixinErrors()
	names := append(sortedKeys(faults), idle)
	if name := names[turn%len(names)]; name == idle {
		b.injected[idle]++
		b.weixin.Idle(tokenOf("weixin", healthy))
	} else {
		b.injected["weixin: "+name]++
		b.weixin.Fail(ilinkd.GetUpdates, faults[name])
	}
	token := tokenOf("telegram", healthy)
	b.telegram.SetWebhook(b.hooked, "") // after one turn
	others := telegramErrors()
	names = append(sortedKeys(others), webhook, another)
	switch name := names[turn%len(names)]; name {
	case webhook:
		b.injected[webhook]++
		b.hooked = token
		b.telegram.SetWebhook(token, "https://elsewhere.example.com/")
	case another:
		b.injected[another]++
		return b.anotherPolls(ctx, token)
	default:
		b.injected["telegram: "+name]++
		b.telegram.Fail(token, others[name])
	}
	return nil
}

// anotherPolls asks for a bot's updates, as another program would, and confirms none. It may get
// the fault that was meant for the bot, and does not wait for it.
func (b *bots) anotherPolls(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.telegram.URL()+"/bot"+token+"/getUpdates", strings.NewReader(`{"timeout":0}`))
	if err != nil {
		return err
	}
	if answer, err := http.DefaultClient.Do(request); err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20)) // what it has is of no use
		return answer.Body.Close()
	}
	return nil
}

// doom has the first bots refused for good: somebody else binds WeChat accounts, and tokens of
// Telegram are revoked or wrong.
func (b *bots) doom() error {
	for n := range voided {
		b.injected[void]++
		b.weixin.Void(tokenOf("weixin", n))
	}
	b.injected[revoked]++
	b.telegram.Revoke(tokenOf("telegram", 0))
	b.injected[unknown]++
	b.forget()
	return nil
}

// forget has Telegram not know the second bot.
func (b *bots) forget() {
	b.telegram.Fail(tokenOf("telegram", 1), telegram.Fault{Code: http.StatusNotFound})
}

// doomed returns the accounts that must be parked.
func (b *bots) doomed() (ids []string) {
	for n := range voided {
		ids = append(ids, fmt.Sprintf("weixin-%d", n), fmt.Sprintf("telegram-%d", n))
	}
	return ids
}

// onlyDoomed reports whether the bots that must be parked are, with a reason that helps, and no
// others.
func (b *bots) onlyDoomed(parked map[string]string) bool {
	for _, id := range b.doomed() {
		if kind, _, _ := strings.Cut(id, "-"); !strings.Contains(parked[id], map[string]string{"weixin": "scan again", "telegram": "no such token"}[kind]) {
			return false
		}
	}
	n := 0
	for id := range parked {
		if strings.HasPrefix(id, "weixin-") || strings.HasPrefix(id, "telegram-") {
			n++
		}
	}
	return n == 2*voided
}

func (b *bots) heal() {
	b.telegram.SetWebhook(b.hooked, "")
	b.weixin.Heal()
	b.telegram.Heal()
	b.forget() // on a busy machine it may not have been asked about that bot yet
	for _, c := range b.connectors {
		c.heal()
	}
}
