package api

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

// tried returns an option for a server whose trials find messages, and keeps what was asked.
func tried(asked *trial.Request) func(*Options) {
	return func(o *Options) {
		o.Try = func(_ context.Context, r trial.Request) (*trial.Report, error) {
			*asked = r
			page := trial.FoundPage{NextCursor: "7"}
			for range 9 {
				page.Messages = append(page.Messages, trial.FoundMessage{ID: "m", Data: json.RawMessage(`{"n":1}`)})
			}
			if strings.Contains(string(r.Config), "long") {
				page.Messages[0].Data, _ = json.Marshal(strings.Repeat("x", 20_000))
			}
			return &trial.Report{Kind: r.Kind, Account: r.Account, Limit: r.Limit, Pages: []trial.FoundPage{page}}, nil
		}
	}
}

func TestAnAccountIsTried(t *testing.T) {
	var asked trial.Request
	f := newFixture(t, tried(&asked))
	var got trial.Report
	f.call("POST", "/v1/accounts:check", `{"account":{"id":"new","kind":"web","config":{"url":"long"}},"cursor":"base64:AP8=","hint":{"token":"t"},"pages":3,"limit":4}`, 200, &got)
	if asked.Account != "new" || asked.Kind != "web" || string(asked.Config) != `{"url":"long"}` || string(asked.Cursor) != "\x00\xff" ||
		string(asked.Hint) != `{"token":"t"}` || asked.Pages != 3 || asked.Limit != 4 {
		t.Errorf("asked %+v", asked)
	}
	if p := got.Pages[0]; len(p.Messages) != 4 || p.LeftOut != 5 || p.NextCursor != "7" || p.Messages[0].DataBytes != 20_002 || string(p.Messages[0].Data) != "null" {
		t.Errorf("got %+v", got)
	}
	f.call("POST", "/v1/accounts:check", `{"account":{"id":"new","kind":"plain"}}`, 200, &got)
	if string(asked.Config) != "{}" || asked.Pages != 1 || asked.Limit != 20 || asked.Cursor != nil || asked.Hint != nil {
		t.Errorf("asked %+v", asked)
	}
	// Nothing of it is stored.
	f.call("GET", "/v1/accounts/new", "", 404, nil)
	if kept := f.trail(""); len(kept) != 0 {
		t.Errorf("the trail has %+v", kept)
	}
}

func TestATrialNamesEveryFault(t *testing.T) {
	f := newFixture(t, tried(new(trial.Request)))
	for body, want := range map[string][]string{
		`{"account":{"kind":"web","config":{}},"pages":0,"limit":"x","cursor":"base64:?","other":1}`: {"body.account.config.url", "body.account.id", "body.cursor", "body.limit", "body.other", "body.pages"},
		`{}`:             {"body.account"},
		`{"account":[]}`: {"body.account"},
		`{"account":{"id":"a","kind":"plain"},"hint":"` + strings.Repeat("x", accounts.MaxHint) + `"}`: {"body.hint"},
		`{"account":{"id":"a","kind":"plain"},"pages":6,"limit":101,"cursor":7}`:                       {"body.cursor", "body.limit", "body.pages"},
	} {
		p := f.errorReply("POST", "/v1/accounts:check", body, 422)
		if got := p.locations(); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%.80s: got %v", body, got)
		}
	}
	f.errorReply("POST", "/v1/accounts:check", `[]`, 400)
	f.errorReply("POST", "/v1/accounts:check", strings.Repeat(" ", 600<<10), 413)
}

func TestATrialThatIsOneTooMany(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Try = func(context.Context, trial.Request) (*trial.Report, error) { return nil, trial.ErrBusy }
	})
	got := f.call("POST", "/v1/accounts:check", `{"account":{"id":"a","kind":"plain"}}`, 503, nil)
	if got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "try again") || f.logs.Len() > 0 {
		t.Errorf("got %+v, log %s", got, f.logs)
	}
}

// A caller who is bound to labels tries only what the caller could save.
func TestABoundCallerTriesItsOwn(t *testing.T) {
	var asked trial.Request
	f := newFixture(t, func(o *Options) {
		tried(&asked)(o)
		o.RequireKey = true
	})
	sales := accounts.Account{ID: "theirs", Kind: "plain", Labels: map[string]string{"team": "sales"}}
	if _, err := f.api.options.Registry.Create(t.Context(), sales); err != nil {
		t.Fatal(err)
	}
	press := f.as(f.key(key.New{Name: "press", Role: access.Editor, Labels: access.Labels{"team": "press"}}))
	press.call("POST", "/v1/accounts:check", `{"account":{"id":"ours","kind":"plain","labels":{"team":"press"}}}`, 200, nil)
	asked = trial.Request{}
	press.call("POST", "/v1/accounts:check", `{"account":{"id":"theirs","kind":"plain","labels":{"team":"press"}}}`, 404, nil)
	for _, labels := range []string{`{}`, `{"team":"sales"}`} {
		press.call("POST", "/v1/accounts:check", `{"account":{"id":"ours","kind":"plain","labels":`+labels+`}}`, 422, nil)
	}
	f.as(f.key(key.New{Name: "operator", Role: access.Operator})).call("POST", "/v1/accounts:check", `{"account":{"id":"a","kind":"plain"}}`, 403, nil)
	if asked.Account != "" {
		t.Errorf("tried %+v", asked)
	}
}

func TestKinds(t *testing.T) {
	field := strict.Field{Name: "url", Type: strict.URL, Required: true, Label: strict.Words{EN: "Address", ZH: "地址"}, Help: strict.Words{EN: "Where.", ZH: "地址。"}, Example: "https://example.com"}
	f := newFixture(t, func(o *Options) {
		o.Kinds = []strict.Kind{{Name: "plain"}, {Name: "web", Fields: []strict.Field{field}}}
	})
	for name, report := range map[string]string{"aaaaaaaaaa": `{"kinds":["web","other"]}`, "bbbbbbbbbb": `{"kinds":["web"]}`, "cccccccccc": `{"kinds":7}`} {
		if _, err := f.ring.Heartbeat(t.Context(), name, []byte(report), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	var got KindList
	reply := f.call("GET", "/v1/kinds", "", 200, &got)
	if len(got.Kinds) != 2 || got.Kinds[0].Replicas != 0 || got.Kinds[0].Fields != nil || got.Kinds[1].Replicas != 2 || got.Kinds[1].Fields[0].Label.ZH != "地址" {
		t.Errorf("got %s", reply.body)
	}
	f = newFixture(t, nil)
	if reply := f.call("GET", "/v1/kinds", "", 200, nil); reply.body != "{\"kinds\":[]}\n" {
		t.Errorf("got %s", reply.body)
	}
	f.call("POST", "/v1/accounts:check", `{}`, 404, nil)
}
