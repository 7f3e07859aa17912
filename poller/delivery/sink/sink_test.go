package sink_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
)

// pigeons is a type with one field.
type pigeons struct{ named string }

func (p pigeons) Type() string { return p.named }

func (p pigeons) Read(_ sink.Endpoint, r *strict.Reader) sink.Config {
	c := loft{r.Text("loft")}
	r.Known(sink.Names("loft")...)
	return c
}

type loft struct{ name string }

func (l loft) Open() (delivery.Sink, error) { return answers{}, nil }

// answers is a sink with prepared answers, by message id.
type answers struct{ of map[string]error }

func (a answers) Prepare(context.Context) error { return nil }
func (a answers) Close() error                  { return nil }
func (a answers) Handle(_ context.Context, batch []delivery.Delivery) []error {
	errs := make([]error, len(batch))
	for i, d := range batch {
		errs[i] = a.of[d.Message.ID]
	}
	return errs
}

func found(id, kind, of string) delivery.Delivery {
	return delivery.Delivery{Group: "webhook.x", Attempt: 1, Found: circulate.Found{Account: "a", Kind: kind, Message: circulate.Message{ID: id, Type: of}}}
}

func TestRead(t *testing.T) {
	types, err := sink.NewTypes(pigeons{"pigeons"}, pigeons{"webhook"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`[]`:                           "must be one JSON object",
		`{}`:                           "endpoints: missing",
		`{"endpoints":{}}`:             "endpoints: must be a list",
		`{"endpoints":[1]}`:            "endpoints[0]: must be an object",
		`{"endpoints":[],"x":1}`:       "x: unknown field",
		`{"endpoints":[{}]}`:           "endpoints[0].name: missing",
		`{"endpoints":[{"name":"A"}]}`: "endpoints[0].name: must be 1 to 56",
		`{"endpoints":[{"name":"a","type":"doves"}]}`:                                            "endpoints[0].type: must be one of pigeons, webhook",
		`{"endpoints":[{"name":"a","type":""}]}`:                                                 "endpoints[0].type: must be one of",
		`{"endpoints":[{"name":"a","loft":"x","url":""}]}`:                                       "endpoints[0].url: unknown field; the fields are name, type, loft, kinds",
		`{"endpoints":[{"name":"a","loft":"x"},{"name":"a","loft":"y"}]}`:                        "endpoints[1].name: is also the name of another",
		`{"endpoints":[{"name":"a","loft":"x","types":[""],"kinds":"feed","format":"xml"}]}`:     "endpoints[0].types: must not have an empty one",
		`{"endpoints":[{"name":"a","loft":"x","kinds":"feed"}]}`:                                 "endpoints[0].kinds: must be a list",
		`{"endpoints":[{"name":"a","loft":"x","format":"xml"}]}`:                                 "endpoints[0].format: must be cloudevents",
		`{"endpoints":[{"name":"a","loft":"x","types":["` + strings.Repeat(`x","`, 64) + `"]}]}`: "endpoints[0].types: must be at most 64",
		strings.Repeat(" ", 1<<20) + `{}`:                                                        "at most 1 MiB",
	} {
		if _, err := types.Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %s", text, err, want)
		}
	}
	all, err := types.Read(strings.NewReader(`{"endpoints":[
		{"name":"a","type":"pigeons","loft":"north","kinds":["feed"],"types":["text"],"events":true,"format":"cloudevents"},
		{"loft":"south",  "name":"b"}]}`))
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	if a := all[0]; a.Type != "pigeons" || a.Config != (loft{"north"}) || !a.Events || a.Format != sink.CloudEvents || a.Group() != "webhook.a" {
		t.Errorf("got %+v", a)
	}
	if b := all[1]; b.Type != "webhook" || b.Text != `{"loft":"south","name":"b"}` {
		t.Errorf("got %+v", b)
	}
	for _, names := range [][]string{{"a", "a"}, {""}, {"A"}, {strings.Repeat("a", 33)}} {
		var list []sink.Type
		for _, name := range names {
			list = append(list, pigeons{name})
		}
		if _, err := sink.NewTypes(list...); err == nil {
			t.Errorf("%q are allowed", names)
		}
	}
}

func TestFilter(t *testing.T) {
	event := found("1", "feed", "send.accepted")
	event.Event = true
	for _, c := range []struct {
		filter sink.Filter
		of     delivery.Delivery
		want   bool
	}{
		{sink.Filter{}, found("1", "feed", "text"), true},
		{sink.Filter{Kinds: []string{"feed"}}, found("1", "feed", "text"), true},
		{sink.Filter{Kinds: []string{"imap", "feed"}, Types: []string{"image", "text"}}, found("1", "feed", "text"), true},
		{sink.Filter{Kinds: []string{"imap"}}, found("1", "feed", "text"), false},
		{sink.Filter{Types: []string{"image"}}, found("1", "feed", "text"), false},
		{sink.Filter{Types: []string{"image"}}, event, true},
		{sink.Filter{Kinds: []string{"imap"}}, event, false},
		{sink.Filter{Labels: map[string]string{"team": "press"}}, event, true},
		{sink.Filter{Labels: map[string]string{"team": "press", "desk": ""}}, found("1", "feed", "text"), false},
		{sink.Filter{When: condition(t, `labels.team == "press" && kind in ["feed", "imap"] && not event`)}, found("1", "feed", "text"), true},
		{sink.Filter{When: condition(t, `event and type startsWith "send."`)}, event, true},
		{sink.Filter{Types: []string{"image"}, When: condition(t, `true`)}, found("1", "feed", "text"), false},
	} {
		if got, err := c.filter.Passes(&c.of, map[string]string{"team": "press"}); got != c.want || err != nil {
			t.Errorf("%+v of %+v: %t, %v", c.filter, c.of, got, err)
		}
	}
}

// What does not pass is done, and the answers for the others are at their places.
func TestGuard(t *testing.T) {
	of := map[string]error{
		"2": &delivery.Later{Err: errors.New("the loft is shut")}, "3": delivery.ErrHeld, "4": errors.New("no wings"), "5": &delivery.Dead{Err: errors.New("too heavy")},
	}
	counts := make(map[sink.Outcome]int)
	g := sink.NewGuard(answers{of}, sink.Filter{Types: []string{"text"}}, func(o sink.Outcome) { counts[o]++ })
	batch := []delivery.Delivery{found("0", "feed", "image"), found("1", "feed", "text"), found("2", "feed", "text"), found("0", "feed", "image"),
		found("3", "feed", "text"), found("4", "feed", "text"), found("5", "feed", "text")}
	errs := g.Handle(t.Context(), batch)
	if want := []error{nil, nil, of["2"], nil, of["3"], of["4"], of["5"]}; !slices.Equal(errs, want) {
		t.Errorf("got %v", errs)
	}
	for outcome, want := range map[sink.Outcome]int{sink.Filtered: 2, sink.Delivered: 1, sink.Unreachable: 1, sink.Held: 1, sink.Failed: 1, sink.Rejected: 1} {
		if counts[outcome] != want {
			t.Errorf("%s: %d", outcome, counts[outcome])
		}
	}
	if last := g.Last(); last.Outcome != sink.Rejected || last.Why != "too heavy" || last.Delivered.IsZero() {
		t.Errorf("got %+v", last)
	}
	if errs := g.Handle(t.Context(), batch[2:3]); len(errs) != 1 || g.Last().Why != "the loft is shut" {
		t.Errorf("got %v, %+v", errs, g.Last())
	}
	if errs := g.Handle(t.Context(), batch[:1]); errs != nil {
		t.Errorf("got %v", errs)
	}
	if errs := sink.NewGuard(mute{}, sink.Filter{Types: []string{"text"}}, func(sink.Outcome) {}).Handle(t.Context(), batch); errs[0] != nil || errs[1] == nil || errs[2] == nil {
		t.Errorf("a sink that does not answer for all: %v", errs)
	}
	if errs := sink.NewGuard(done{}, sink.Filter{}, func(sink.Outcome) {}).Handle(t.Context(), batch); slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		t.Errorf("a sink that is done with all: %v", errs)
	}
}

type mute struct{ answers }

func (mute) Handle(context.Context, []delivery.Delivery) []error { return []error{nil} }

type done struct{ answers }

func (done) Handle(context.Context, []delivery.Delivery) []error { return nil }

func TestEncode(t *testing.T) {
	d := found("<1>", "feed", "text")
	d.Position, d.Message.Data = "1767225600000-0", []byte("{\n\"n\": 1}")
	key := sink.Key("rounds", d)
	event := d
	event.Event, event.Message.Type, event.Message.Time = true, "send.accepted", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for want, got := range map[string]func() ([]byte, error){
		`{"id":"` + key + `","type":"message.found","timestamp":"2026-01-01T00:00:00Z","data":{"account":"a","kind":"feed","id":"<1>","type":"text","time":null,"data":{"n":1}}}`: func() ([]byte, error) {
			return sink.Encoding{Namespace: "rounds"}.Encode(d, nil)
		},
		`{"type":"send.accepted","timestamp":"2026-01-01T00:00:00Z","data":{"n":1}}`: func() ([]byte, error) {
			return sink.Encoding{Namespace: "rounds", Keyless: true}.Encode(event, nil)
		},
		`{"specversion":"1.0","id":"` + key + `","source":"/rounds/rounds","type":"dev.rounds.send.accepted","subject":"a","time":"2026-01-01T00:00:00Z","datacontenttype":"application/json","data":{"n":1}}`: func() ([]byte, error) {
			return sink.Encoding{Namespace: "rounds", Format: sink.CloudEvents}.Encode(event, nil)
		},
	} {
		if text, err := got(); err != nil || string(text) != want {
			t.Errorf("got  %s, %v\nwant %s", text, err, want)
		}
	}
	for trace, want := range map[string]bool{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": true, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00": false, "x": false} {
		traced := d
		traced.Trace = trace
		for _, format := range []sink.Format{sink.CloudEvents, ""} {
			text, err := sink.Encoding{Namespace: "rounds", Format: format}.Encode(traced, nil)
			if got := strings.Contains(string(text), `"traceparent":"`+trace+`"`); err != nil || got != (want && format == sink.CloudEvents) {
				t.Errorf("%s: %s, %v", trace, text, err)
			}
		}
	}
	d.Message.Data = []byte("{")
	if _, err := (sink.Encoding{}).Encode(d, nil); err == nil {
		t.Error("data that is no JSON is encoded")
	}
	if sink.Key("other", d) == key || sink.Key("rounds", event) != key {
		t.Error("the key does not depend on the namespace alone")
	}
}
