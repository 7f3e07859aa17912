package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/testing/upstream"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
	"github.com/rounds-dev/rounds/testing/upstream/telegram"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

const (
	connectorsEach = 4 // accounts of each connector
	sendersOfCorp  = 6 // accounts of customer service that send
	sendEvery      = 5 // every so many posts something is sent
	sendsAgain     = 4 // every so many sends are asked for twice, with one key
)

// asked is a send. Its text tells it from all others.
type asked struct {
	account, peer, text string

	id, state string
}

func (a *asked) ended() bool { return a.state != "" && a.state != "queued" && a.state != "attempting" }

// outlet is a kind of account that sends, and its fake.
type outlet struct {
	name     string
	accounts []string                      // healthy ones
	peers    []string                      // whom each writes to
	once     bool                          // the third party takes a send once, however often it comes
	faults   []string                      // what the calls that send may meet, by name
	fail     func(account, fault string)   // has the next such call of an account meet one
	sent     func(account string) []string // the texts that the third party has, in order
	// open has the peers write, who may be answered when that is found; nil: anybody may be.
	open func(ctx context.Context, account string) error

	asked []*asked
	turn  int    // of the faults
	next  string // the account that sends next; "": any
}

// failing returns the names of faults, and a function that has calls meet one. The first one is an
// answer that breaks, after which nobody knows whether the third party has the send.
func failing[F any](faults map[string]F, fail func(account string, f F)) (names []string, meet func(account, fault string)) {
	names = slices.Sorted(maps.Keys(faults))
	cut := slices.Index(names, cutName)
	names[0], names[cut] = names[cut], names[0]
	return names, func(account, fault string) { fail(account, faults[fault]) }
}

const cutName = "an answer that is cut"

// textsOf returns the texts of what a fake has.
func textsOf[S any](sent []S, text func(S) string) (texts []string) {
	for _, s := range sent {
		texts = append(texts, text(s))
	}
	return texts
}

// newOutlets are the outlets of a run.
func (e *endurance) newOutlets() []*outlet {
	var bots [2][]string
	for n := voided; n < botsEach; n++ {
		bots[0], bots[1] = append(bots[0], fmt.Sprintf("weixin-%d", n)), append(bots[1], fmt.Sprintf("telegram-%d", n))
	}
	weixin := &outlet{name: "a WeChat account", accounts: bots[0], peers: []string{"person@im.wechat"},
		sent: func(account string) []string {
			return textsOf(e.bots.weixin.Sent(tokenOfAccount(account)), func(s ilink.Sent) string { return s.Text })
		},
		open: func(_ context.Context, account string) error {
			e.bots.weixin.Post(tokenOfAccount(account), "text")
			return nil
		},
	}
	weixin.faults, weixin.fail = failing(map[string]ilinkd.Fault{
		cutName: {Cut: true, Times: 1}, "500": {Status: 500, Times: 1}, "502": {Status: 502, Times: 1}, "reset": {Reset: true, Times: 1},
		"no answer": {Hang: true, Times: 1}, "no JSON": {Garbage: true, Times: 1}, "9 MiB": {Bytes: 9 << 20, Times: 1}, "-2, once": {Code: -2, Times: 1},
		"an unknown code": {Code: -99, Times: 1},
	}, func(_ string, f ilinkd.Fault) { e.bots.weixin.Fail(ilinkd.SendMessage, f) })

	service := &outlet{name: "an account of customer service", peers: []string{"wm-customer"},
		sent: func(account string) []string {
			return textsOf(e.world.Fake.Sent(account), func(s wecom.Sent) string { return s.Text })
		},
		open: func(ctx context.Context, account string) error {
			e.world.Fake.Post(account, "text")
			return e.world.Callback(ctx, e.calm.ID, account)
		},
	}
	for n := range sendersOfCorp {
		service.accounts = append(service.accounts, e.calm.Account(len(parking())+n))
	}
	service.faults, service.fail = failing(map[string]wecom.Fault{
		cutName: {Cut: true, Times: 1}, "-1": {Code: -1, Times: 1}, "95001": {Code: 95001, Times: 1}, "HTTP 500": {Status: 500, Times: 1}, "reset": {Reset: true, Times: 1},
		"no answer": {Hang: true, Times: 1}, "no JSON": {Garbage: true, Times: 1}, "9 MiB": {Bytes: 9 << 20, Times: 1},
	}, func(_ string, f wecom.Fault) { e.world.Fake.Fail(e.calm.ID, wecom.SendMsg, f) })

	bot := &outlet{name: "a Telegram bot", accounts: bots[1], peers: []string{"100", "101", "102"},
		sent: func(account string) []string {
			return textsOf(e.bots.telegram.Sent(tokenOfAccount(account)), func(s telegram.Sent) string { return s.Text })
		},
	}
	bot.faults, bot.fail = failing(map[string]telegram.Fault{
		cutName: {Cut: true, Times: 1}, "400": {Code: 400, Times: 1}, "403": {Code: 403, Times: 1}, "429": {RetryAfter: 1, Times: 2}, "500": {Code: 500, Times: 1},
		"502": {Status: 502, Times: 1}, "reset": {Reset: true, Times: 1}, "no answer": {Hang: true, Times: 1}, "no JSON": {Garbage: true, Times: 1}, "9 MiB": {Bytes: 9 << 20, Times: 1},
	}, func(account string, f telegram.Fault) { e.bots.telegram.FailSends(tokenOfAccount(account), f) })

	all := []*outlet{weixin, service, bot}
	for _, c := range e.bots.connectors {
		o := &outlet{name: c.name, once: c.once, accounts: c.accounts, peers: []string{"anna", "ben", "carl"},
			sent: func(account string) []string {
				return textsOf(c.fake.Sent(account), func(s upstream.Sent) string { return textOf(s.Data) })
			},
		}
		o.faults, o.fail = failing(map[string]upstream.Fault{
			cutName: {Cut: true, Times: 1}, "rejected": {ErrorKind: "rejected", Times: 1}, "transient": {ErrorKind: "transient", Times: 1}, "429": {Status: 429, RetryAfter: "1", Times: 1},
			"500": {Status: 500, Times: 1}, "no answer": {Hang: true, Times: 1}, "no JSON": {Garbage: true, Times: 1}, "9 MiB": {Bytes: 9 << 20, Times: 1},
		}, c.fake.FailSends)
		all = append(all, o)
	}
	return all
}

// send has an account send a text. The outlets take turns. Some requests come twice, as after a lost
// reply.
func (e *endurance) send(ctx context.Context) error {
	o := e.outlets[e.sends%len(e.outlets)]
	e.sends++
	one := &asked{account: o.next, peer: anyOf(e.random, o.peers), text: fmt.Sprint("text ", e.sends)}
	if o.next = ""; one.account == "" {
		one.account = anyOf(e.random, o.accounts)
	}
	if o.open != nil {
		if err := o.open(ctx, one.account); err != nil {
			return err
		}
	}
	for again := range 2 {
		if again == 1 && len(o.asked)%sendsAgain > 0 {
			break
		}
		id, err := e.world.Send(ctx, one.account, one.text, one.peer, one.text)
		if err != nil {
			return err
		}
		if again == 1 && id != one.id {
			return fmt.Errorf("the same request is send %s and then send %s", one.id, id)
		}
		one.id = id
	}
	o.asked = append(o.asked, one)
	return nil
}

// breakSends has the next send of each outlet meet its next fault.
func (e *endurance) breakSends() {
	for _, o := range e.outlets {
		fault := o.faults[o.turn%len(o.faults)]
		if e.onlyCuts {
			fault = cutName
		}
		o.turn++
		o.next = anyOf(e.random, o.accounts)
		e.bots.injected[o.name+" sends: "+fault]++
		o.fail(o.next, fault)
	}
}

// kindsOfSendErrors is how many there are.
func (e *endurance) kindsOfSendErrors() (n int) {
	for _, o := range e.outlets {
		n += len(o.faults)
	}
	return n
}

// sendsEnded asks what became of sends that had not ended, and reports whether all have. Where one
// still waits, its peer writes again: what it had written may be lost.
func (e *endurance) sendsEnded(ctx context.Context) (bool, error) {
	all := true
	for _, o := range e.outlets {
		for _, one := range o.asked {
			if one.ended() && !(o.once && one.state == "unknown") {
				continue
			}
			var err error
			if one.state, err = e.world.SendState(ctx, one.id); err != nil {
				return false, err
			}
			if all = all && one.ended() && !(o.once && one.state == "unknown"); one.state == "queued" && o.open != nil {
				if err := o.open(ctx, one.account); err != nil {
					return false, err
				}
			}
		}
	}
	return all, nil
}

// finding is what is expected of an outlet's sends.
func (o *outlet) finding() finding {
	there := make(map[string][]int) // where each text is among those of its account
	for _, account := range o.accounts {
		for at, text := range o.sent(account) {
			there[text] = append(there[text], at)
		}
	}
	states := make(map[string]int)
	doubled, wrong, overtaken := 0, 0, 0
	last := make(map[string]int)
	for _, one := range o.asked {
		states[one.state]++
		at := there[one.text]
		line := one.account + " " + one.peer
		switch {
		case len(at) > 1:
			doubled++
		case one.state == "accepted" && len(at) == 0, one.state == "rejected" && len(at) > 0,
			one.state != "accepted" && one.state != "rejected" && (one.state != "unknown" || o.once):
			wrong++
		}
		if len(at) > 0 && one.state != "unknown" && !o.once { // what is repeated goes last
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
	expected := "is accepted and there once, rejected and not there, or shown as unknown, and those to one peer are in order"
	if o.once {
		expected = "is accepted and there once, or rejected and not there, and none stays unknown"
	}
	return finding{fmt.Sprintf("every send of %s %s", o.name, expected),
		fmt.Sprintf("%d asked for: %s; %d there twice, %d with another outcome, %d out of order", len(o.asked), strings.Join(parts, ", "), doubled, wrong, overtaken),
		len(o.asked) > 0 && doubled+wrong+overtaken == 0}
}
