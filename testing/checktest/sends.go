package checktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// SendKind is a kind of account that sends, under test.
type SendKind struct {
	// Start starts a fake third party for one test, and ends it with the test.
	Start func(t *testing.T) SendParty
	// Refused are sends that PrepareSend must refuse. They may hold Hidden.
	Refused []RefusedSend
}

// RefusedSend is a send that PrepareSend must refuse, with an error that names the field.
type RefusedSend struct {
	Send    poller.Outgoing
	Answers *poller.Message // the found message that it answers; nil: none
	Field   string          // such as "to" or "data.text"
}

// ValidSend is a send that can be sent.
type ValidSend struct {
	Send    poller.Outgoing // before PrepareSend; without a Peer if it answers a message
	Answers *poller.Message // the found message that it answers; nil: none
	File    *poller.File    // what the send's data names, if its type is a file; see FileBytes
}

// FileBytes returns the bytes of a valid send's file, which are as many as its size says.
func FileBytes(f *poller.File) []byte {
	data := make([]byte, f.Size)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	return data
}

// opened returns the file of a valid send for an attempt.
func (v ValidSend) opened() *poller.SendFile {
	if v.File == nil {
		return nil
	}
	return &poller.SendFile{File: *v.File, Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(FileBytes(v.File))), nil
	}}
}

// SendParty is a fake third party that takes sends. Everything but Secrets and Token is required.
type SendParty struct {
	// New makes a sender, as another replica would have one.
	New func() poller.Sender
	// Config is a valid config for an account. An account exists as soon as it is named, and its
	// peers may be answered three times at least.
	Config func(account string) json.RawMessage
	// Valid has one send at least for each type that Sending names, a plain text first.
	Valid []ValidSend
	// Token is what a window gives to attempts; empty: nothing.
	Token string
	// Taken returns the sends that an account's third party has, in order: those that it showed to
	// somebody.
	Taken func(account string) []Taken
	// Calls returns how many calls that carry a send have reached the third party, of all accounts,
	// whether it took the send or not.
	Calls func() int
	// Faults are ways in which it fails. One at least must take the send and lose its answer, and one
	// must hang.
	Faults []SendFault
	// Heal ends an account's fault.
	Heal func(account string)
	// Closed is a valid config for a server that refuses connections.
	Closed func(account string) json.RawMessage
	// Secrets are the values of the secrets that Config refers to, and any others that a sender
	// knows and must not reveal.
	Secrets []string
}

// Taken is a send that a third party has.
type Taken struct {
	ID   string // the send's id; empty if the third party is not told
	Peer string
	File []byte // its bytes, if it is a file
}

// SendEnd is what the error of an attempt says about the send.
type SendEnd string

// The ends.
const (
	SendUnknown SendEnd = "unknown" // nobody knows whether the third party has it
	SendAgain   SendEnd = "again"   // it was refused, and is tried again
	SendRefused SendEnd = "refused" // it was refused for good
)

// SendFault is a way in which a third party fails an account's sends until it is healed.
type SendFault struct {
	Name  string
	Break func(account string)
	End   SendEnd       // what the error must say; not needed with Hangs
	Code  string        // of the error; empty: not judged
	After time.Duration // before the next attempt, by the error; 0: not judged
	Takes bool          // the third party takes the send, and its answer does not arrive
	Hangs bool          // only the context ends the attempt
}

// RunSends runs the suite for a kind that sends. It holds what poller.Sender demands: an error says
// that a send was refused only if it was, a cut answer is an unknown end, no call is repeated that may
// have reached the third party, and each attempt of a send has the same id.
func RunSends(t *testing.T, k SendKind) {
	with := func(name string, test func(t *testing.T, p SendParty)) {
		run(t, name, func(t *testing.T) { test(t, k.start(t)) })
	}
	with("types are told", sendTypesAreTold)
	with("valid sends are taken", validSendsAreTaken)
	with("files are judged", filesAreJudged)
	with("wrong sends name their field", k.wrongSendsNameTheirField)
	with("what has become wrong is not sent", whatHasBecomeWrongIsNotSent)
	with("a refused connection is unsent", refusedConnectionsAreUnsent)
	with("contexts end an attempt", contextsEndAnAttempt)
	with("ends are told", endsAreTold)
	with("each attempt has the same id", attemptsHaveOneID)
	with("traces are told", tracesAreTold)
	with("many sends at once", manySendsAtOnce)
}

// start starts the third party, and names what it lacks.
func (k SendKind) start(t *testing.T) SendParty {
	t.Helper()
	if k.Start == nil {
		t.Fatal("SendKind.Start is missing")
	}
	p := k.Start(t)
	for name, missing := range map[string]bool{
		"New": p.New == nil, "Config": p.Config == nil, "Valid": len(p.Valid) == 0, "Taken": p.Taken == nil, "Calls": p.Calls == nil,
		"Faults": len(p.Faults) == 0, "Heal": p.Heal == nil, "Closed": p.Closed == nil,
	} {
		if missing {
			t.Errorf("SendParty.%s is missing", name)
		}
	}
	for _, fault := range p.Faults {
		if fault.Break == nil {
			t.Errorf("SendFault.Break of %q is missing", fault.Name)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return p
}

// prepared returns a valid send as PrepareSend leaves it.
func (p SendParty) prepared(t *testing.T, sender poller.Sender, account string, v ValidSend) poller.Outgoing {
	t.Helper()
	send := v.Send
	send.File = v.File
	if err := sender.PrepareSend(p.Config(account), &send, v.Answers); err != nil {
		t.Fatalf("%s to %q is refused: %v", v.Send.Type, v.Send.Peer, err)
	}
	if send.Type != v.Send.Type || v.Send.Peer != "" && send.Peer != v.Send.Peer {
		t.Errorf("%s to %q has become %s to %q", v.Send.Type, v.Send.Peer, send.Type, send.Peer)
	}
	if n := len(send.Peer); n == 0 || n > circulate.MaxPeer || !utf8.ValidString(send.Peer) || strings.ContainsFunc(send.Peer, unicode.IsControl) {
		t.Errorf("%s goes to %q", send.Type, send.Peer)
	}
	if !json.Valid(send.Data) || len(send.Data) > circulate.MaxSendData {
		t.Errorf("%s has data of %d bytes: %.80q", send.Type, len(send.Data), send.Data)
	}
	hidesSecrets(t, "a prepared send", send.Peer+string(send.Data), p.Secrets)
	return send
}

// request returns the first attempt of a valid send.
func (p SendParty) request(t *testing.T, sender poller.Sender, account string, v ValidSend) poller.SendRequest {
	t.Helper()
	send := p.prepared(t, sender, account, v)
	return poller.SendRequest{
		Account: account, Config: p.Config(account), ID: circulate.NewSendID(account), Attempt: 1,
		Peer: send.Peer, Type: send.Type, Data: send.Data, File: v.opened(), Token: p.Token,
	}
}

// attempt makes an attempt, and returns how many calls it made and how many sends the third party took.
func (p SendParty) attempt(ctx context.Context, t *testing.T, sender poller.Sender, r poller.SendRequest) (sent poller.Sent, calls, taken int, err error) {
	t.Helper()
	calls, taken = p.Calls(), len(p.Taken(r.Account))
	sent, err = sender.Send(ctx, r)
	notNilEnd(t, err)
	return sent, p.Calls() - calls, len(p.Taken(r.Account)) - taken, err
}

// accepted makes an attempt that must be accepted, by one call.
func (p SendParty) accepted(t *testing.T, sender poller.Sender, r poller.SendRequest) poller.Sent {
	t.Helper()
	sent, calls, taken, err := p.attempt(t.Context(), t, sender, r)
	if err != nil {
		tellsNothing(t, "a send", err, p.Secrets)
		t.Fatalf("%s to %q: %v", r.Type, r.Peer, err)
	}
	if calls != 1 {
		t.Errorf("%s was sent by %d calls", r.Type, calls)
	}
	if taken > 1 {
		t.Errorf("one %s was taken %d times", r.Type, taken)
	}
	if len(sent.VendorID) > circulate.MaxIDLength || !utf8.ValidString(sent.VendorID) || strings.ContainsFunc(sent.VendorID, unicode.IsControl) {
		t.Errorf("%s has the vendor's id %q", r.Type, sent.VendorID)
	}
	hidesSecrets(t, "the vendor's id", sent.VendorID, p.Secrets)
	return sent
}

// last returns what the third party took last.
func (p SendParty) last(t *testing.T, r poller.SendRequest) Taken {
	t.Helper()
	all := p.Taken(r.Account)
	if len(all) == 0 {
		t.Fatalf("%s was accepted, and the third party does not have it", r.Type)
	}
	one := all[len(all)-1]
	if one.Peer != r.Peer || one.ID != "" && one.ID != r.ID {
		t.Errorf("%s went to %q as %q, want %q as %q", r.Type, one.Peer, one.ID, r.Peer, r.ID)
	}
	return one
}

// endOf returns what an error says about a send.
func endOf(err error) (end SendEnd, code string, after time.Duration) {
	var known *poller.SendError
	var failed *poller.CheckError
	switch {
	case errors.As(err, &known) && known.Final:
		return SendRefused, known.Code, known.After
	case known != nil:
		return SendAgain, known.Code, known.After
	case errors.As(err, &failed):
		return SendUnknown, failed.Code, 0
	}
	return SendUnknown, "", 0
}

// notNilEnd ends the test if an error has a nil *poller.SendError in it.
func notNilEnd(t *testing.T, err error) {
	t.Helper()
	if known := new(poller.SendError); errors.As(err, &known) && known == nil {
		t.Fatal("got a nil *poller.SendError, which is not a nil error: a sender must return nil itself")
	}
	notNil(t, err)
}

func sendTypesAreTold(t *testing.T, p SendParty) {
	sender := p.New()
	sending := sender.Sending(p.Config("a"))
	if len(sending.Types) == 0 {
		t.Error("the account cannot send anything")
	}
	if !slices.Contains([]poller.Doubt{poller.DoubtStays, poller.DoubtRepeats, poller.DoubtTraces}, sending.Doubt) {
		t.Errorf("%q is none of the doubts", sending.Doubt)
	}
	if _, ok := sender.(poller.Tracer); !ok && sending.Doubt == poller.DoubtTraces {
		t.Error("the kind says that it traces sends, and is no poller.Tracer")
	}
	for i, name := range sending.Types {
		if name == "" || slices.Contains(sending.Types[:i], name) {
			t.Errorf("the types are %q", sending.Types)
		}
		if !slices.ContainsFunc(p.Valid, func(v ValidSend) bool { return v.Send.Type == name }) {
			t.Errorf("SendParty.Valid has no send of type %q", name)
		}
	}
	for _, v := range p.Valid {
		if !slices.Contains(sending.Types, v.Send.Type) {
			t.Errorf("the types are %q, and a valid send has type %q", sending.Types, v.Send.Type)
		}
	}
	for _, config := range []string{"", "{", "[]", `"` + Hidden + `"`} { // a record may be older than its kind
		sender.Sending(json.RawMessage(config))
	}
}

func validSendsAreTaken(t *testing.T, p SendParty) {
	sender := p.New()
	for i, v := range p.Valid {
		r := p.request(t, sender, fmt.Sprint("valid", i), v)
		p.accepted(t, sender, r)
		if got := p.last(t, r); v.File != nil && !bytes.Equal(got.File, FileBytes(v.File)) {
			t.Errorf("%s was taken with %d bytes, which are not the file's %d", r.Type, len(got.File), v.File.Size)
		}
	}
}

// filesAreJudged sends files that cannot be sent: they are missing, empty, too large, or the store does
// not give all of their bytes. No third party then has the send.
func filesAreJudged(t *testing.T, p SendParty) {
	sender := p.New()
	sending := sender.Sending(p.Config("a"))
	for _, v := range p.Valid {
		if is := slices.Contains(sending.Files, v.Send.Type); is != (v.File != nil) {
			t.Errorf("Sending.Files has %s: %t, and the valid send has a file: %t", v.Send.Type, is, v.File != nil)
		}
		if v.File == nil {
			continue
		}
		for _, data := range []string{`{}`, `{"file":""}`, `{"file":7}`, `{"file":"f","` + Hidden + `":1}`, `{"file":"f","caption":7}`} {
			send := v.Send
			send.Data = json.RawMessage(data)
			if err := sender.PrepareSend(p.Config("a"), &send, v.Answers); err == nil || !named(err, "data") {
				t.Errorf("%s with %s: %v", v.Send.Type, data, err)
			} else {
				tellsNothing(t, data, err, p.Secrets)
			}
		}
		empty := v.Send
		empty.File = &poller.File{}
		if err := sender.PrepareSend(p.Config("a"), &empty, v.Answers); err == nil || !named(err, "data.file") {
			t.Errorf("an empty %s: %v", v.Send.Type, err)
		}
		r := p.request(t, sender, "files", v)
		broken := &poller.CheckError{Kind: poller.Transient, Code: "file_store", Message: "the store is away"}
		for name, file := range map[string]*poller.SendFile{
			"no file":                      nil,
			"a file that cannot be opened": {File: *v.File, Open: func(context.Context) (io.ReadCloser, error) { return nil, broken }},
			"a file that breaks off": {File: *v.File, Open: func(context.Context) (io.ReadCloser, error) {
				return io.NopCloser(io.MultiReader(bytes.NewReader(FileBytes(v.File)[:v.File.Size/2]), iotest.ErrReader(broken))), nil
			}},
			"a file that is too short": {File: *v.File, Open: func(context.Context) (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(FileBytes(v.File)[:v.File.Size/2])), nil
			}},
		} {
			r.File = file
			_, _, taken, err := p.attempt(t.Context(), t, sender, r)
			end, _, _ := endOf(err)
			if taken > 0 || err == nil || end == SendUnknown || file == nil && end != SendRefused {
				t.Errorf("%s with %s: taken %d times, %s: %v", v.Send.Type, name, taken, end, err)
			}
			if file != nil {
				unsent(t, v.Send.Type+" with "+name, err)
			}
			tellsNothing(t, name, err, p.Secrets)
		}
	}
}

func (k SendKind) wrongSendsNameTheirField(t *testing.T, p SendParty) {
	sender := p.New()
	good := p.prepared(t, sender, "a", p.Valid[0])
	wrong := func(field string, change func(*poller.Outgoing)) RefusedSend {
		send := good
		change(&send)
		return RefusedSend{Send: send, Field: field}
	}
	all := append([]RefusedSend{
		wrong("to", func(s *poller.Outgoing) { s.Peer = "" }),
		wrong("to", func(s *poller.Outgoing) { s.Peer = strings.Repeat("1", circulate.MaxPeer+1) }),
		wrong("data", func(s *poller.Outgoing) { s.Data = nil }),
		wrong("data", func(s *poller.Outgoing) { s.Data = json.RawMessage("[]") }),
		wrong("data", func(s *poller.Outgoing) { s.Data = json.RawMessage(`"` + Hidden + `"`) }),
		wrong("data", func(s *poller.Outgoing) { s.Data = json.RawMessage("{}") }),
	}, k.Refused...)
	for _, data := range []string{"", "null", "[]", `{}`, `"` + Hidden + `"`} {
		answers := wrong("", func(s *poller.Outgoing) { s.Peer = "" })
		answers.Answers = &poller.Message{ID: "1", Data: json.RawMessage(data)}
		all = append(all, answers) // whom it is for is not known; the error may name to or reply_to
	}
	for _, one := range all {
		send := one.Send
		err := sender.PrepareSend(p.Config("a"), &send, one.Answers)
		name := fmt.Sprintf("%s to %.20q with %.60q", one.Send.Type, one.Send.Peer, one.Send.Data)
		switch {
		case err == nil:
			t.Errorf("%s: prepared, want an error of %s", name, one.Field)
		case one.Field == "" && !named(err, "to") && !named(err, "reply_to"):
			t.Errorf("%s: the error names neither to nor reply_to: %v", name, err)
		case one.Field != "" && !named(err, one.Field):
			t.Errorf("%s: the error does not name %s: %v", name, one.Field, err)
		}
		tellsNothing(t, name, err, p.Secrets)
	}
}

// named reports whether a line of an error begins with a field, or with a field within it.
func named(err error, field string) bool {
	for line := range strings.Lines(err.Error()) {
		if strings.HasPrefix(line, field+": ") || strings.HasPrefix(line, field+".") {
			return true
		}
	}
	return false
}

// whatHasBecomeWrongIsNotSent attempts sends whose account has changed since they were queued.
func whatHasBecomeWrongIsNotSent(t *testing.T, p SendParty) {
	sender := p.New()
	for name, config := range map[string]string{
		"a config that is no object":  `"` + Hidden + `"`,
		"a config without its fields": `{}`,
		"a config of a later version": `{"other":"` + Hidden + `"}`,
	} {
		r := p.request(t, sender, "a", p.Valid[0])
		r.Config = json.RawMessage(config)
		_, calls, _, err := p.attempt(t.Context(), t, sender, r)
		if end, _, _ := endOf(err); err == nil || end == SendUnknown {
			t.Errorf("%s: got %v, want a *poller.SendError", name, err)
		}
		if calls > 0 {
			t.Errorf("%s: sent", name)
		}
		tellsNothing(t, name, err, p.Secrets)
	}
}

func refusedConnectionsAreUnsent(t *testing.T, p SendParty) {
	sender := p.New()
	r := p.request(t, sender, "a", p.Valid[0])
	r.Config = p.Closed("a")
	_, calls, _, err := p.attempt(t.Context(), t, sender, r)
	unsent(t, "a refused connection", err)
	if calls > 0 {
		t.Error("SendParty.Closed is the config of a server that takes calls: nothing was tried")
	}
	tellsNothing(t, "a refused connection", err, p.Secrets)
}

// unsent expects an error that says that no byte of the call left.
func unsent(t *testing.T, name string, err error) {
	t.Helper()
	var known *poller.SendError
	if !errors.As(err, &known) || known.Final || !known.Unsent {
		t.Errorf("%s: no byte left, and the error does not say Unsent: %v", name, err)
	}
}

func contextsEndAnAttempt(t *testing.T, p SendParty) {
	sender := p.New()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, calls, _, err := p.attempt(over, t, sender, p.request(t, sender, "a", p.Valid[0]))
	if err == nil || calls > 0 {
		t.Errorf("cancelled before: %d calls, %v", calls, err)
	}
	unsent(t, "cancelled before", err)
	hung := 0
	for i, fault := range p.Faults {
		if !fault.Hangs {
			continue
		}
		hung++
		account := fmt.Sprint("hangs", i)
		p.accepted(t, sender, p.request(t, sender, account, p.Valid[0])) // what it needs besides, it has from now on
		fault.Break(account)
		calls, err := 0, error(nil)
		for limit := 50 * time.Millisecond; calls == 0 && limit < 10*time.Second; limit *= 2 { // a busy machine may need more to make the call
			timed, cancel := context.WithTimeout(t.Context(), limit)
			_, calls, _, err = p.attempt(timed, t, sender, p.request(t, sender, account, p.Valid[0]))
			cancel()
		}
		if end, _, _ := endOf(err); err == nil || end != SendUnknown {
			t.Errorf("%s, timed: the call was under way, and its end is %s: %v", fault.Name, end, err)
		}
		if calls != 1 {
			t.Errorf("%s, timed: %d calls", fault.Name, calls)
		}
		tellsNothing(t, fault.Name, err, p.Secrets)
		p.Heal(account)
	}
	if hung == 0 {
		t.Error("no fault hangs: nothing was tried")
	}
}

func endsAreTold(t *testing.T, p SendParty) {
	sender, cut := p.New(), false
	for i, fault := range p.Faults {
		if fault.Hangs {
			continue
		}
		account := fmt.Sprint("fault", i)
		p.accepted(t, sender, p.request(t, sender, account, p.Valid[0])) // over a connection that is open from now on
		r := p.request(t, sender, account, p.Valid[0])
		fault.Break(account)
		_, calls, taken, err := p.attempt(t.Context(), t, sender, r)
		end, code, after := endOf(err)
		switch {
		case err == nil:
			t.Errorf("%s: accepted", fault.Name)
		case fault.Takes && end != SendUnknown:
			t.Errorf("%s: the third party has it, and its end is %s: %v", fault.Name, end, err)
		case end != fault.End:
			t.Errorf("%s: its end is %s, want %s: %v", fault.Name, end, fault.End, err)
		case fault.Code != "" && code != fault.Code:
			t.Errorf("%s: the code is %s, want %s", fault.Name, code, fault.Code)
		case fault.After > 0 && after != fault.After:
			t.Errorf("%s: tried again after %v, want %v", fault.Name, after, fault.After)
		}
		if fault.End == SendUnknown && calls != 1 {
			t.Errorf("%s: the end of a call is unknown, and there were %d", fault.Name, calls)
		}
		if fault.Takes != (taken == 1) || taken > 1 {
			t.Errorf("%s: taken %d times", fault.Name, taken)
		}
		cut = cut || fault.Takes
		tellsNothing(t, fault.Name, err, p.Secrets)
		p.Heal(account)
		r.Attempt++
		p.accepted(t, sender, r)
		p.last(t, r)
	}
	if !cut {
		t.Error("no fault takes a send and loses its answer: nothing was tried")
	}
}

// attemptsHaveOneID repeats a send by another replica.
func attemptsHaveOneID(t *testing.T, p SendParty) {
	r := p.request(t, p.New(), "a", p.Valid[0])
	first := p.accepted(t, p.New(), r)
	id := p.last(t, r).ID
	r.Attempt++
	second := p.accepted(t, p.New(), r)
	if again := p.last(t, r); again.ID != id {
		t.Errorf("its second attempt has the id %q, its first one %q", again.ID, id)
	}
	if p.New().Sending(p.Config("a")).Doubt == poller.DoubtRepeats {
		if n := len(p.Taken("a")); n != 1 {
			t.Errorf("the kind says that it deduplicates, and the third party took a send %d times", n)
		}
		if id == "" || first != second {
			t.Errorf("the kind says that it deduplicates: the third party knows the id %q, and answers %+v, then %+v", id, first, second)
		}
	}
	other := p.request(t, p.New(), "a", p.Valid[0])
	p.accepted(t, p.New(), other)
	if taken := p.last(t, other); id != "" && taken.ID == id {
		t.Errorf("two sends have the id %q", id)
	}
}

// tracesAreTold looks for sends, if the kind says that it can: one that the third party has, and others.
func tracesAreTold(t *testing.T, p SendParty) {
	sender := p.New()
	tracer, ok := sender.(poller.Tracer)
	if !ok || sender.Sending(p.Config("a")).Doubt != poller.DoubtTraces {
		return
	}
	trace := func(ctx context.Context, r poller.SendRequest) (poller.Sent, bool, error) {
		calls := p.Calls()
		r.File, r.Token = nil, ""
		sent, found, err := tracer.Trace(ctx, r)
		if err != nil {
			tellsNothing(t, "a trace", err, p.Secrets)
		}
		if n := p.Calls() - calls; n != 0 {
			t.Errorf("a trace made %d calls that carry a send", n)
		}
		return sent, found, err
	}
	for i, v := range p.Valid {
		r := p.request(t, sender, fmt.Sprint("traced", i), v)
		if _, found, err := trace(t.Context(), r); found || err != nil {
			t.Errorf("before %s is sent, it is found: %t, %v", r.Type, found, err)
		}
		want := p.accepted(t, sender, r)
		if got, found, err := trace(t.Context(), r); !found || err != nil || got.VendorID != want.VendorID {
			t.Errorf("%s was accepted as %q; found %t as %q, %v", r.Type, want.VendorID, found, got.VendorID, err)
		}
		if _, found, err := trace(t.Context(), p.request(t, sender, r.Account, v)); found || err != nil {
			t.Errorf("another %s is found: %t, %v", r.Type, found, err)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, found, err := trace(over, r); found || err == nil {
			t.Errorf("cancelled before: found %t, %v", found, err)
		}
		r.Config = p.Closed(r.Account)
		if _, found, err := trace(t.Context(), r); found || err == nil {
			t.Errorf("at a server that refuses connections: found %t, %v", found, err)
		}
	}
}

func manySendsAtOnce(t *testing.T, p SendParty) {
	sender := p.New()
	var group sync.WaitGroup
	for n := range 20 {
		r := p.request(t, sender, fmt.Sprint("many", n), p.Valid[0])
		group.Go(func() {
			defer contain(t)
			if _, err := sender.Send(t.Context(), r); err != nil {
				t.Errorf("account %s: %v", r.Account, err)
			}
			if taken := p.Taken(r.Account); len(taken) != 1 || taken[0].Peer != r.Peer || taken[0].ID != "" && taken[0].ID != r.ID {
				t.Errorf("account %s: taken %+v", r.Account, taken)
			}
		})
	}
	group.Wait()
}

// Answer is what a third party may answer to a send, and what the attempt says then.
type Answer[F any] struct {
	Fault   F             // what is done to the call
	End     SendEnd       // empty: the third party has the send, and there is no error
	Code    string        // of the error; empty: not judged
	After   time.Duration // before the next attempt, by the error
	Account bool          // the account is to be checked
	Unsent  bool          // no byte of the send has left
}

// RunAnswers attempts a send for each answer. Attempt returns the error of the attempt, and values
// that it must not tell.
func RunAnswers[F any](t *testing.T, answers map[string]Answer[F], attempt func(t *testing.T, fault F) (secrets []string, err error)) {
	for name, want := range answers {
		t.Run(name, func(t *testing.T) {
			secrets, err := attempt(t, want.Fault)
			if want.End == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			notNilEnd(t, err)
			end, code, after := endOf(err)
			var refused poller.SendError
			if known := new(poller.SendError); errors.As(err, &known) {
				refused = *known
			}
			if err == nil || end != want.End || want.Code != "" && code != want.Code || after != want.After || refused.Account != want.Account || refused.Unsent != want.Unsent {
				t.Errorf("got %s, %s, after %v, account %v, unsent %v: %v", end, code, after, refused.Account, refused.Unsent, err)
			}
			tellsNothing(t, "the error", err, secrets)
		})
	}
}

// RunSendAddresses is RunAddresses for where sends go, and where their secrets do. The checkers of h
// are senders, and attempt the send, with what a window gives to it.
func RunSendAddresses(t *testing.T, h HTTP, send poller.Outgoing, token string) {
	t.Helper()
	sender := func(c poller.Checker) poller.Checker {
		s, ok := c.(poller.Sender)
		if !ok {
			t.Fatalf("%T is no poller.Sender", c)
		}
		return sending{s, send, token}
	}
	of, withSecrets := h.New, h.WithSecrets
	h.New = func(client *fetch.Client) poller.Checker { return sender(of(client)) }
	if withSecrets != nil {
		h.WithSecrets = func(client *fetch.Client, source secrets.Source) poller.Checker {
			return sender(withSecrets(client, source))
		}
	}
	RunAddresses(t, h)
}

// sending makes a checker of a sender: each check attempts a send.
type sending struct {
	poller.Sender
	send  poller.Outgoing
	token string
}

// Check attempts the send.
func (s sending) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	_, err := s.Send(ctx, poller.SendRequest{
		Account: r.Account, Config: r.Config, ID: circulate.NewSendID(r.Account), Attempt: 1,
		Peer: s.send.Peer, Type: s.send.Type, Data: s.send.Data, Token: s.token,
	})
	var known *poller.SendError
	if errors.As(err, &known) && known != nil {
		failed := poller.CheckError{Code: known.Code, Message: known.Message, Err: known.Err}
		return poller.Result{}, &failed
	}
	return poller.Result{}, err
}
