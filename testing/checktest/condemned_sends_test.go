package checktest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/checktest"
)

// sendModel is a third party in memory that takes sends, and its sender, with at most one flaw.
type sendModel struct {
	*model
	once bool // it deduplicates

	mu     sync.Mutex
	taken  map[string][]checktest.Taken
	faults map[string]string
	calls  int
}

func (m *sendModel) Sending(json.RawMessage) poller.Sending {
	s := poller.Sending{Types: []string{"text"}}
	switch m.flaw {
	case "it sends nothing":
		s.Types = nil
	case "a type twice":
		s.Types = append(s.Types, "text")
	case "a type without a send":
		s.Types = append(s.Types, "image")
	case "a send of another type":
		s.Types = []string{"word"}
	case "another doubt":
		s.Doubt = "perhaps"
	}
	switch {
	case m.once:
		s.Doubt = poller.DoubtRepeats
	case s.Doubt == "":
		s.Doubt = poller.DoubtTraces
	}
	return s
}

// Trace looks for a send.
func (m *sendModel) Trace(ctx context.Context, r poller.SendRequest) (poller.Sent, bool, error) {
	if ctx.Err() != nil && m.flaw != "a trace ignores its context" {
		return poller.Sent{}, false, ctx.Err()
	}
	if strings.Contains(string(r.Config), "closed") && m.flaw != "a trace takes no answer for no" {
		return poller.Sent{}, false, &poller.CheckError{Code: "connect", Message: "no connection"}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := slices.IndexFunc(m.taken[r.Account], func(t checktest.Taken) bool { return t.ID == r.ID })
	switch m.flaw {
	case "a trace finds anything":
		return poller.Sent{VendorID: "v0"}, true, nil
	case "a trace finds nothing":
		return poller.Sent{}, false, nil
	case "a trace finds another":
		return poller.Sent{VendorID: "other"}, known >= 0, nil
	case "a trace tells a secret":
		return poller.Sent{}, false, errors.New("asked with " + secret)
	case "a trace sends":
		m.calls++
	}
	if known < 0 {
		return poller.Sent{}, false, nil
	}
	return poller.Sent{VendorID: fmt.Sprint("v", known)}, true, nil
}

func (m *sendModel) PrepareSend(_ json.RawMessage, s *poller.Outgoing, answers *poller.Message) error {
	if m.flaw == "any send is valid" {
		return nil
	}
	var found struct{ From string }
	if answers != nil && s.Peer == "" {
		_ = json.Unmarshal(answers.Data, &found) // data of another form names nobody
		if s.Peer = found.From; m.flaw == "an answer goes to the wrong one" {
			s.Peer = "\x00"
		}
		if s.Peer == "" && m.flaw == "an answer to nobody" {
			s.Peer = "somebody"
		}
	}
	var faults []error
	if s.Type != "text" {
		faults = append(faults, errors.New("type: must be text"))
	}
	if s.Peer == "" || len(s.Peer) > 512 {
		faults = append(faults, errors.New("to: must be a name"))
	}
	if textOf(s.Data) == "" {
		faults = append(faults, errors.New("data: must have a text"))
	}
	switch err := errors.Join(faults...); {
	case err != nil && m.flaw == "an error names no field":
		return errors.New("it is wrong")
	case err != nil && m.flaw == "an error quotes the send":
		return fmt.Errorf("%w: %s %s", err, s.Type, s.Data)
	case err != nil:
		return err
	}
	switch m.flaw {
	case "a secret in the data":
		s.Data = json.RawMessage(`{"text":"` + secret + `"}`)
	case "data that is no JSON":
		s.Data = json.RawMessage(`{`)
	case "another peer":
		s.Peer += "x"
	}
	return nil
}

func textOf(data json.RawMessage) string {
	var content struct{ Text string }
	if json.Unmarshal(data, &content) != nil {
		return ""
	}
	return content.Text
}

func (m *sendModel) Send(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	if err := m.Validate(r.Config); err != nil && m.flaw != "it sends with any config" {
		return poller.Sent{}, poller.Unsent(poller.ConfigError(err))
	}
	unreached := &poller.SendError{Unsent: true, Code: "connect", Message: "no connection"}
	if ctx.Err() != nil && m.flaw != "it ignores its context" || r.Config != nil && strings.Contains(string(r.Config), "closed") {
		switch m.flaw {
		case "a refused connection is unknown":
			return poller.Sent{}, &poller.CheckError{Code: "connect", Message: "no connection"}
		case "a refused connection is final":
			unreached.Final = true
		}
		return poller.Sent{}, unreached
	}
	sent, err := m.call(ctx, r)
	if m.flaw == "what is sent is sent again" || m.flaw == "a cut answer is asked again" && err != nil {
		sent, err = m.call(ctx, r)
	}
	return sent, err
}

// call is a call that reaches the third party.
func (m *sendModel) call(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	fault := m.faults[r.Account]
	id, peer := r.ID, r.Peer
	switch m.flaw {
	case "each attempt has its own id":
		id = fmt.Sprint(r.ID, r.Attempt)
	case "all sends have one id":
		id = "one"
	case "it mixes peers up":
		peer = "nobody"
	case "it loses sends where many are sent":
		if strings.HasPrefix(r.Account, "many") {
			return poller.Sent{}, nil
		}
	}
	switch fault {
	case "hang":
		m.mu.Unlock()
		<-ctx.Done()
		m.mu.Lock()
		if m.flaw == "a hang is tried again" {
			return poller.Sent{}, &poller.SendError{Code: "timeout", Message: "no answer"}
		}
		return poller.Sent{}, &poller.CheckError{Code: "timeout", Message: "no answer"}
	case "refuse", "busy":
		return poller.Sent{}, m.refusal(fault)
	}
	known := slices.IndexFunc(m.taken[r.Account], func(t checktest.Taken) bool { return t.ID == id })
	if known < 0 || !m.once || m.flaw == "it does not deduplicate" {
		m.taken[r.Account] = append(m.taken[r.Account], checktest.Taken{ID: id, Peer: peer})
		known = len(m.taken[r.Account]) - 1
	}
	if fault == "cut" {
		return poller.Sent{}, m.cut()
	}
	sent := poller.Sent{VendorID: fmt.Sprint("v", known)}
	switch m.flaw {
	case "a vendor's id of two lines":
		sent.VendorID = "v\n1"
	case "a secret in the vendor's id":
		sent.VendorID = secret
	case "no failure is a nil error of its type":
		var failed *poller.SendError
		return sent, failed
	}
	return sent, nil
}

// cut is the error of an answer that did not arrive.
func (m *sendModel) cut() error {
	failed := &poller.CheckError{Code: "reset", Message: "the connection broke"}
	switch m.flaw {
	case "a cut answer is a refusal":
		return poller.Refused("reset", "the connection broke")
	case "a cut answer is tried again":
		return &poller.SendError{Code: "reset", Message: "the connection broke"}
	case "a cut answer is taken for accepted":
		return nil
	case "a cut answer tells a secret":
		failed.Message += " with " + secret
	case "a cut answer has a cause that tells a secret":
		failed.Err = errors.New("asked with " + secret)
	case "a cut answer makes it panic":
		panic("no answer")
	}
	return failed
}

// refusal is the error of a refusal.
func (m *sendModel) refusal(fault string) error {
	e := &poller.SendError{Final: fault == "refuse", Code: fault, Message: "it is refused"}
	if !e.Final {
		e.After = 9 * time.Second
	}
	switch m.flaw {
	case "a refusal is unknown":
		return &poller.CheckError{Code: fault, Message: "it is refused"}
	case "a refusal for now is final":
		e.Final = true
	case "a refusal without its code":
		e.Code = "other"
	case "a refusal without its wait":
		e.After = 0
	case "a refusal tells a token":
		e.Message += " for /?token=1"
	}
	return e
}

func (m *sendModel) start(*testing.T) checktest.SendParty {
	flaw := m.flaw
	m = &sendModel{model: &model{flaw: flaw}, once: m.once, taken: make(map[string][]checktest.Taken), faults: make(map[string]string)}
	set := func(account, fault string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.faults[account] = fault
	}
	fault := func(name string, end checktest.SendEnd) checktest.SendFault {
		f := checktest.SendFault{Name: name, Break: func(account string) { set(account, name) }, End: end, Takes: name == "cut", Hangs: name == "hang"}
		if end == checktest.SendAgain {
			f.Code, f.After = name, 9*time.Second
		}
		return f
	}
	party := checktest.SendParty{
		New:    func() poller.Sender { return m },
		Config: func(account string) json.RawMessage { return json.RawMessage(`{"account":"` + account + `"}`) },
		Closed: func(string) json.RawMessage { return json.RawMessage(`{"account":"closed"}`) },
		Valid: []checktest.ValidSend{
			{Send: poller.Outgoing{Peer: "anna", Type: "text", Data: json.RawMessage(`{"text":"x"}`)}},
			{Send: poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, Answers: &poller.Message{Data: json.RawMessage(`{"from":"ben"}`)}},
		},
		Taken: func(account string) []checktest.Taken {
			m.mu.Lock()
			defer m.mu.Unlock()
			return slices.Clone(m.taken[account])
		},
		Calls: func() int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.calls
		},
		Faults:  []checktest.SendFault{fault("cut", checktest.SendUnknown), fault("refuse", checktest.SendRefused), fault("busy", checktest.SendAgain), fault("hang", "")},
		Heal:    func(account string) { set(account, "") },
		Secrets: []string{secret},
	}
	switch flaw {
	case "a party without Taken":
		party.Taken = nil
	case "a fault of sends without Break":
		party.Faults[0].Break = nil
	case "no fault of sends hangs":
		party.Faults = party.Faults[:3]
	case "no fault cuts":
		party.Faults = party.Faults[1:]
	case "a closed server that is open":
		party.Closed = party.Config
	case "it traces and has no way to":
		party.New = func() poller.Sender { return struct{ poller.Sender }{m} }
	}
	return party
}

// TestSendModel has a process of its own for each flaw, and without one both sorts of third party.
func TestSendModel(t *testing.T) {
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprintf("deduplicates %t", once), func(t *testing.T) {
			m := &sendModel{model: &model{flaw: os.Getenv(flaw)}, once: once}
			checktest.RunSends(t, checktest.SendKind{Start: m.start, Refused: []checktest.RefusedSend{
				{Send: poller.Outgoing{Peer: "anna", Type: "text", Data: json.RawMessage(`{"words":"` + checktest.Hidden + `"}`)}, Field: "data"},
			}})
		})
	}
}

// The suite condemns each flaw that a sender may have, by the judgement that is there for it.
func TestTheSuiteOfSendsCondemns(t *testing.T) {
	flaws := map[string]string{
		"": "",

		"it sends nothing": "the account cannot send anything", "a type twice": `the types are ["text" "text"]`, "a type without a send": `no send of type "image"`,
		"a send of another type": `a valid send has type "text"`, "another doubt": `"perhaps" is none of the doubts`,

		"any send is valid": "prepared, want an error of to", "an error names no field": "the error does not name to", "an error quotes the send": `tells "hush-hush"`,
		"an answer goes to the wrong one": `text goes to "\x00"`, "an answer to nobody": "prepared, want an error of ",
		"a secret in the data": `a prepared send tells "0pen-sesame-42"`, "data that is no JSON": "text has data of 1 bytes", "another peer": `text to "anna" has become text to "annax"`,

		"it sends with any config":        "a config that is no object: sent",
		"a refused connection is unknown": "a refused connection: no byte left", "a refused connection is final": "a refused connection: no byte left", "a closed server that is open": "nothing was tried",
		"it ignores its context": "cancelled before: 1 calls", "a hang is tried again": "hang, timed: the call was under way, and its end is again",

		"what is sent is sent again": "text was sent by 2 calls", "a cut answer is asked again": "cut: the end of a call is unknown, and there were 2",
		"a cut answer is a refusal": "cut: the third party has it, and its end is refused", "a cut answer is tried again": "cut: the third party has it, and its end is again",
		"a cut answer is taken for accepted": "cut: accepted", "a cut answer tells a secret": `cut tells "0pen-sesame-42"`,
		"a cut answer has a cause that tells a secret": `cut tells "0pen-sesame-42"`, "a cut answer makes it panic": "the checker panicked: no answer",
		"a refusal is unknown": "refuse: its end is unknown, want refused", "a refusal for now is final": "busy: its end is refused, want again",
		"a refusal without its code": "busy: the code is other", "a refusal without its wait": "busy: tried again after 0s", "a refusal tells a token": `busy tells "token="`,
		"no failure is a nil error of its type": "got a nil *poller.SendError",

		"each attempt has its own id": `1", want "`, "all sends have one id": `as "one", want `, "it mixes peers up": `went to "nobody"`,
		"it does not deduplicate": "the third party took a send 2 times", "it loses sends where many are sent": "account many3: taken []",
		"a vendor's id of two lines": `the vendor's id "v\n1"`, "a secret in the vendor's id": `the vendor's id tells "0pen-sesame-42"`,

		"it traces and has no way to": "is no poller.Tracer", "a trace finds anything": "before text is sent, it is found", "a trace finds nothing": "found false as",
		"a trace finds another": `found true as "other"`, "a trace ignores its context": "cancelled before: found true", "a trace takes no answer for no": "at a server that refuses connections: found ",
		"a trace tells a secret": `a trace tells "0pen-sesame-42"`, "a trace sends": "a trace made 1 calls",

		"a party without Taken": "SendParty.Taken is missing", "a fault of sends without Break": `SendFault.Break of "cut" is missing`,
		"no fault of sends hangs": "no fault hangs: nothing was tried", "no fault cuts": "no fault takes a send and loses its answer",
	}
	for _, name := range slices.Sorted(maps.Keys(flaws)) {
		condemned(t, "TestSendModel", name, flaws[name])
	}
}
