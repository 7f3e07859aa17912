package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/testing/upstream/telegram"
)

const (
	chatsEach  = 3 // whom each bot writes to
	sendEvery  = 5 // every so many posts a bot sends something
	sendsAgain = 4 // every so many sends are asked for twice, with one key
)

// asked is a send of a Telegram bot. Its text is its number among those to its chat.
type asked struct {
	bot        int
	chat, text string
	id, state  string
}

// sendErrors are the errors of sendMessage that pass. After some of them nobody knows whether the bot
// has sent the message.
func sendErrors() map[string]telegram.Fault {
	return map[string]telegram.Fault{
		"400":       {Code: 400, Times: 1},
		"403":       {Code: 403, Times: 1},
		"429":       {RetryAfter: 1, Times: 2},
		"500":       {Code: 500, Times: 1},
		"502":       {Status: 502, Times: 1},
		"reset":     {Reset: true, Times: 1},
		"no answer": {Hang: true, Times: 1},
		"no JSON":   {Garbage: true, Times: 1},
		"9 MiB":     {Bytes: 9 << 20, Times: 1},
	}
}

// send has a healthy Telegram bot send a text. Some requests come twice, as after a lost reply.
func (e *endurance) send(ctx context.Context) error {
	b := e.bots
	n := voided + b.random.IntN(botsEach-voided)
	one := &asked{bot: n, chat: fmt.Sprint(100 + b.random.IntN(chatsEach)), text: fmt.Sprint("text ", len(b.asked))}
	for again := range 2 {
		if again == 1 && len(b.asked)%sendsAgain > 0 {
			break
		}
		id, err := e.world.Send(ctx, fmt.Sprintf("telegram-%d", n), one.text, one.chat, one.text)
		if err != nil {
			return err
		}
		if again == 1 && id != one.id {
			return fmt.Errorf("the same request is send %s and then send %s", one.id, id)
		}
		one.id = id
	}
	b.asked = append(b.asked, one)
	return nil
}

// breakSends has the next call of sendMessage of a bot fail.
func (b *bots) breakSends() {
	errors := sendErrors()
	names := sortedKeys(errors)
	name := names[b.turn%len(names)]
	b.injected["telegram, sendMessage: "+name]++
	b.telegram.FailSends(tokenOf("telegram", voided+b.random.IntN(botsEach-voided)), errors[name])
}

// sendsEnded asks what became of sends that had not ended, and reports whether all have.
func (e *endurance) sendsEnded(ctx context.Context) (bool, error) {
	for _, one := range e.bots.asked {
		if one.state != "" && one.state != "queued" && one.state != "attempting" {
			continue
		}
		state, err := e.world.SendState(ctx, one.id)
		if err != nil {
			return false, err
		}
		one.state = state
	}
	return !slices.ContainsFunc(e.bots.asked, func(one *asked) bool { return one.state == "queued" || one.state == "attempting" }), nil
}

// sendFinding is what is expected of sends.
func (b *bots) sendFinding() finding {
	there, states := make(map[string][]int), make(map[string]int) // where each text is among those of its bot
	for n := range botsEach {
		for at, s := range b.telegram.Sent(tokenOf("telegram", n)) {
			there[s.Text] = append(there[s.Text], at)
		}
	}
	doubled, wrong, overtaken := 0, 0, 0
	last := make(map[string]int)
	for _, one := range b.asked {
		states[one.state]++
		at := there[one.text]
		line := one.chat + " of " + fmt.Sprint(one.bot)
		switch {
		case len(at) > 1:
			doubled++
		case one.state == "accepted" && len(at) == 0, one.state == "rejected" && len(at) > 0, one.state != "accepted" && one.state != "rejected" && one.state != "unknown":
			wrong++
		}
		if len(at) > 0 && one.state != "unknown" {
			if was, known := last[line]; known && at[0] < was {
				overtaken++
			}
			last[line] = at[0]
		}
	}
	var parts []string
	for _, state := range sortedKeys(states) {
		parts = append(parts, fmt.Sprintf("%d %s", states[state], state))
	}
	return finding{"every send of a Telegram bot is accepted and there once, rejected and not there, or shown as unknown, and those to one chat are in order",
		fmt.Sprintf("%d asked for: %s; %d there twice, %d with another outcome, %d out of order", len(b.asked), strings.Join(parts, ", "), doubled, wrong, overtaken),
		len(b.asked) > 0 && doubled+wrong+overtaken == 0}
}
