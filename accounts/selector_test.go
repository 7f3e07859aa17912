package accounts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestSelectorMatches(t *testing.T) {
	const record = `{"id":"a","kind":"feed","config":{"headers":[{"X":{"secret":"KEY"}}],"token":{"secret":"T"}},"labels":{"team":"news","tier":""}}`
	for name, tt := range map[string]struct {
		s      Selector
		place  circulate.Place
		reason string
		want   bool
	}{
		"all":                        {Selector{}, circulate.Scheduled, "", true},
		"kind":                       {Selector{Kinds: []string{"http", "feed"}}, circulate.Scheduled, "", true},
		"other kind":                 {Selector{Kinds: []string{"http"}}, circulate.Scheduled, "", false},
		"labels":                     {Selector{Labels: map[string]string{"team": "news", "tier": ""}}, circulate.Scheduled, "", true},
		"one label of two":           {Selector{Labels: map[string]string{"team": "news", "tier": "gold"}}, circulate.Scheduled, "", false},
		"empty label that is not":    {Selector{Labels: map[string]string{"x": ""}}, circulate.Scheduled, "", false},
		"kind, but no label":         {Selector{Kinds: []string{"feed"}, Labels: map[string]string{"x": "y"}}, circulate.Scheduled, "", false},
		"secret":                     {Selector{Secrets: []string{"OTHER", "KEY"}}, circulate.Scheduled, "", true},
		"a label is no secret":       {Selector{Secrets: []string{"news"}}, circulate.Scheduled, "", false},
		"another secret":             {Selector{Secrets: []string{"OTHER"}}, circulate.Scheduled, "", false},
		"secret, but no kind":        {Selector{Secrets: []string{"T"}, Kinds: []string{"http"}}, circulate.Scheduled, "", false},
		"active":                     {Selector{States: []string{StateActive}}, circulate.Claimed, "", true},
		"active, place not known":    {Selector{States: []string{StateActive}}, "", "", true},
		"active is not parked":       {Selector{States: []string{StateActive}}, circulate.Parked, "paused", false},
		"paused":                     {Selector{States: []string{StatePaused}}, circulate.Parked, "paused by hand", true},
		"paused is not every parked": {Selector{States: []string{StatePaused}}, circulate.Parked, "auth", false},
		"parked":                     {Selector{States: []string{"parked"}}, circulate.Parked, "auth", true},
		"one state of two":           {Selector{States: []string{"waiting", "claimed"}}, circulate.Claimed, "", true},
		"neither state":              {Selector{States: []string{"waiting", "claimed"}}, circulate.Scheduled, "", false},
		"reason":                     {Selector{Reasons: []string{"gone", "auth"}}, circulate.Parked, "auth: 401", true},
		"no reason when not parked":  {Selector{Reasons: []string{""}}, circulate.Scheduled, "", false},
	} {
		if got := tt.s.matches([]byte(record), tt.place, tt.reason); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for text, s := range map[string]Selector{"{": {Kinds: []string{"feed"}}, `{"labels":[]}`: {Labels: map[string]string{"a": "b"}}} {
		if s.matches([]byte(text), circulate.Scheduled, "") {
			t.Errorf("%s is selected", text)
		}
	}
	s := Selector{Prefixes: []string{"a", "b/"}}
	if got := s.passes([]string{"a", "b", "b/1", "c", "ab"}); !slices.Equal(got, []string{"a", "b/1", "ab"}) {
		t.Errorf("ids: %q", got)
	}
}

func TestSecretsIn(t *testing.T) {
	for config, want := range map[string]string{
		`{}`: "", `{"secret":"a","x":[{"secret":"b"},{"secret":"a"}]}`: "a b", `{"secret":7,"x":{"secret":null}}`: "", `["secret"]`: "",
		"{\"s\\u0065cret\":\"a\"}": "a", `{"token":{"secret":{"secret":"c"}}}`: "c", "": "", `{"secret":`: "",
	} {
		if got := strings.Join(SecretsIn([]byte(config)), " "); got != want {
			t.Errorf("%s: %q, want %q", config, got, want)
		}
	}
}

func TestParseSelector(t *testing.T) {
	s, err := ParseSelector(map[string][]string{
		"kind": {"feed"}, "state": {"active", "parked"}, "label": {"a=b=c", "d=", "d="}, "prefix": {"x"}, "reason": {"auth"}, "since": {"90m"}, "host": {"A.example"},
	})
	if err != nil || s.Labels["a"] != "b=c" || len(s.Labels) != 2 || s.Since != 90*time.Minute || s.Hosts[0] != "a.example" || s.Empty() {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := ParseSelector(nil); err != nil || !s.Empty() {
		t.Errorf("nothing: %+v, %v", s, err)
	}
	if s, err := ParseSelector(map[string][]string{"since": {"1h"}, "until": {"2h"}}); err != nil || s.Until != 2*time.Hour || s.Empty() || (Selector{Until: 1}).Empty() {
		t.Errorf("%+v, %v", s, err)
	}
	for _, until := range []string{"1h", "0s", "soon"} {
		var faults Faults
		if _, err := ParseSelector(map[string][]string{"since": {"1h"}, "until": {until}}); !errors.As(err, &faults) || len(faults) != 1 || faults[0].Field != "until" {
			t.Errorf("until %s: %v", until, err)
		}
	}
	many := make([]string, maxSelected+1)
	for i := range many {
		many[i] = "x"
	}
	long := strings.Repeat("x", 2000)
	_, err = ParseSelector(map[string][]string{
		"kind": append(many, ""), "state": {"asleep"}, "label": {"a", "b=1", "b=2", "=x", "y=" + long}, "prefix": {long, "\xff"}, "reason": {long}, "since": {"-1h"}, "error": {""},
	})
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatal(err)
	}
	var fields []string
	for _, f := range faults {
		fields = append(fields, f.Field)
	}
	if want := []string{"since", "label", "label", "kind", "kind", "state", "label", "label", "prefix", "prefix", "reason", "error"}; !slices.Equal(fields, want) {
		t.Errorf("%q: %v", fields, err)
	}
}

func TestSelectorOfChecks(t *testing.T) {
	now := time.Unix(1000000, 0)
	feed := []byte(`{"kind":"feed","config":{"url":"https://News.example:8443/rss"}}`)
	mail := []byte(`{"kind":"imap","config":{"host":"mail.example"}}`)
	view := func(marks, failure string, record []byte) *circulate.View {
		v := &circulate.View{Now: now, Record: record, Place: circulate.Scheduled, Error: failure}
		v.History.Succeeded = now.Add(-time.Hour)
		for _, mark := range []byte(marks) {
			v.History.Marks = append(v.History.Marks, circulate.Mark(mark))
		}
		return v
	}
	corporation := []byte(`{"kind":"wecom-kf","config":{"corp_id":"WW8","base_url":"https://proxy.example"}}`)
	parked := func(reason string) *circulate.View {
		v := view("t", "http_503: no", feed)
		v.Place, v.Reason = circulate.Parked, reason
		return v
	}
	warned := func(warning string) *circulate.View {
		v := view("+", "", feed)
		v.State = Memory{Warning: warning}.Encode()
		return v
	}
	const refused = "http_503: no"
	because := func(text string) Selector { return Selector{Causes: []string{CauseOf(text, "").Name}} }
	for name, tt := range map[string]struct {
		s    Selector
		v    *circulate.View
		want bool
	}{
		"failing":                   {Selector{States: []string{StateFailing}}, view("t+", refused, feed), true},
		"blameless is failing, too": {Selector{States: []string{StateFailing}}, view("b+", refused, feed), true},
		"failing, but parked":       {Selector{States: []string{StateFailing, StateNeverSucceeded}}, parked("gone: http_410: Gone"), false},
		"failing or parked":         {Selector{States: []string{StateFailing, "parked"}}, parked("gone: http_410: Gone"), true},
		"recovered":                 {Selector{States: []string{StateFailing}}, view("+t", "", feed), false},
		"has more":                  {Selector{States: []string{StateFailing}}, view("mt", "", feed), false},
		"not checked yet":           {Selector{States: []string{StateFailing, StateNeverSucceeded}}, view("", "", feed), false},
		"never succeeded":           {Selector{States: []string{StateNeverSucceeded}}, view("ttttttt", refused, feed), true},
		"succeeded long ago":        {Selector{States: []string{StateNeverSucceeded}}, view("tttttttt", refused, feed), false},
		"failing or waiting":        {Selector{States: []string{StateFailing, "scheduled"}}, view("+", "", feed), true},
		"code":                      {Selector{Errors: []string{"http_404", "http_503"}}, view("t", refused, feed), true},
		"kind of error":             {Selector{Errors: []string{"transient"}}, view("t", refused, feed), true},
		"part of a code":            {Selector{Errors: []string{"http"}}, view("t", refused, feed), false},
		"no error":                  {Selector{Errors: []string{"transient"}}, view("+", "", feed), false},
		"code of a warning":         {Selector{Errors: []string{"field_name"}}, warned("cursor_stuck: it stays; field_name: a: b"), true},
		"text of a warning":         {Selector{Errors: []string{"a"}}, warned("cursor_stuck: it stays; field_name: a: b"), false},
		"another warning":           {Selector{Errors: []string{"moved"}}, warned("cursor_stuck: it stays"), false},
		"host of a url":             {Selector{Hosts: []string{"news.example"}}, view("+", "", feed), true},
		"host and port of a url":    {Selector{Hosts: comparedHosts([]string{"NEWS.example:8443"})}, view("+", "", feed), true},
		"another port of a host":    {Selector{Hosts: []string{"news.example:8444"}}, view("+", "", feed), false},
		"not this port of a host":   {Selector{Except: []string{"news.example:8443"}}, view("+", "", feed), false},
		"not another port":          {Selector{Except: []string{"news.example:8444"}}, view("+", "", feed), true},
		"host":                      {Selector{Hosts: []string{"x", "mail.example"}}, view("+", "", mail), true},
		"other host":                {Selector{Hosts: []string{"mail.example"}}, view("+", "", feed), false},
		"corporation":               {Selector{Hosts: []string{"ww8"}}, view("+", "", corporation), true},
		"host of a corporation":     {Selector{Hosts: []string{"proxy.example"}}, view("+", "", corporation), true},
		"not this host":             {Selector{Except: []string{"x", "news.example"}}, view("+", "", feed), false},
		"not another host":          {Selector{Except: []string{"mail.example"}}, view("+", "", feed), true},
		"not this corporation":      {Selector{Except: []string{"ww8"}}, view("+", "", corporation), false},
		"cause":                     {because("http_503: NO"), view("t", refused, feed), true},
		"other cause":               {because("http_504: no"), view("t", refused, feed), false},
		"cause of before":           {because("http_503: no"), view("+", refused, feed), false},
		"cause, has more":           {because("http_503: no"), view("m", refused, feed), false},
		"cause of parking":          {because("http_410: Gone"), parked("gone: http_410: Gone"), true},
		"cause before parking":      {because("http_503: no"), parked("gone: http_410: Gone"), false},
		"paused while it failed":    {because("http_503: no"), parked("paused"), false},
		"finished":                  {because("finished: it was to be checked once"), parked("finished: it was to be checked once"), false},
		"since":                     {Selector{Since: time.Hour}, view("+", "", feed), true},
		"until":                     {Selector{Until: time.Hour + 1}, view("+", "", feed), true},
		"not within so little":      {Selector{Until: time.Hour}, view("+", "", feed), false},
		"between":                   {Selector{Since: time.Hour, Until: 2 * time.Hour, States: []string{StateActive}}, view("+", "", feed), true},
		"not for so long":           {Selector{Since: time.Hour + 1}, view("+", "", feed), false},
		"all of several":            {Selector{Kinds: []string{"imap"}, Errors: []string{"http_503"}}, view("t", refused, feed), false},
	} {
		if got := tt.s.matchesView(tt.v); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Where an account is checked has the port, unless it is the scheme's own.
func TestWhereAnAccountIsChecked(t *testing.T) {
	for config, want := range map[string]string{
		`{"url":"http://127.0.0.1:9000/x"}`:                         "127.0.0.1:9000",
		`{"url":"http://[::1]:9000/"}`:                              "[::1]:9000",
		`{"url":"http://[::1]/"}`:                                   "::1",
		`{"url":"https://Bücher.example:8443/"}`:                    "xn--bcher-kva.example:8443",
		`{"url":"https://a.example:443/"}`:                          "a.example",
		`{"url":"http://a.example:80/"}`:                            "a.example",
		`{"url":"http://a.example:443/"}`:                           "a.example:443",
		`{"host":"mail.example","port":993}`:                        "mail.example",
		`{"corp_id":"WW8","base_url":"https://proxy.example:8443"}`: "ww8",
	} {
		where := WhereOf([]byte(`{"id":"a","kind":"http","config":` + config + `}`))
		if where != want {
			t.Errorf("%s: %q, want %q", config, where, want)
		}
	}
	one, two := CauseOf("connect: no connection to a.example:9000", "a.example:9000"), CauseOf("connect: no connection to b.example:9001", "b.example:9001")
	if three := CauseOf("connect: no connection to b.example", "b.example:9001"); one.Name != two.Name || one.Name != three.Name {
		t.Errorf("the same of several hosts: %s, %s, %s", one.Name, two.Name, three.Name)
	}
}

// Failing accounts are found among the accounts with an error, and not among all
// accounts.
func TestListOfWhatFails(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		r, ring := newRegistry(t, server, 4)
		for i := range 60 {
			if _, err := r.Create(ctx, Account{ID: fmt.Sprintf("a%02d", i), Kind: "plain", Config: []byte(fmt.Sprintf(`{"url":"https://h%d.example/"}`, i%3))}); err != nil {
				t.Fatal(err)
			}
		}
		for id, claim := range claimAll(t, ring) {
			item := circulate.Return{Claim: claim, Mark: circulate.MarkOK, Due: time.Now().Add(time.Hour)}
			switch id[1:] {
			case "03", "06", "09", "10", "11":
				item.Mark, item.Error = 't', "http_404: item "+id
			case "12":
				item.Mark, item.Error, item.Park = 'g', "http_404: item 12", "gone: http_404: item 12"
			case "15":
				item.Mark, item.Error = 't', "http_500: Oops"
			}
			if _, err := ring.Return(ctx, claim.Shard, []circulate.Return{item}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Pause(ctx, "a09"); err != nil {
			t.Fatal(err)
		}
		list := func(s Selector, limit int) (ids string) {
			t.Helper()
			var all []string
			for q := (Query{Limit: limit, Selector: s}); ; {
				page, err := r.List(ctx, q)
				if err != nil {
					t.Fatal(err)
				}
				for i := range page.Views {
					all = append(all, page.Views[i].ID)
				}
				if q.Cursor = page.Next; q.Cursor == "" {
					slices.Sort(all)
					return strings.Join(all, " ")
				}
			}
		}
		missing := CauseOf("http_404: item a00", "").Name
		for _, limit := range []int{2, 100} {
			for want, s := range map[string]Selector{
				"a03 a06 a10 a11 a12":         {Causes: []string{missing}},
				"a03 a06 a12":                 {Causes: []string{missing}, Hosts: []string{"h0.example"}},
				"a10 a11":                     {Causes: []string{missing}, Except: []string{"h0.example"}},
				"a03 a06 a10 a11 a15":         {States: []string{StateFailing}}, // parked ones do not fail
				"a03 a06 a09 a10 a11 a12 a15": {States: []string{StateFailing, string(circulate.Parked)}},
				"a15":                         {States: []string{StateFailing}, Errors: []string{"http_500"}},
				"a09 a12":                     {States: []string{string(circulate.Parked)}},
				"a09":                         {States: []string{StatePaused}},
				"a12":                         {Reasons: []string{"no such", "gone"}},
			} {
				if got := list(s, limit); got != want {
					t.Errorf("%+v: got %s, want %s", s, got, want)
				}
			}
		}
		bulk := func(action Action, s Selector) Progress {
			t.Helper()
			done, err := r.Bulk(ctx, Bulk{Action: action, Selector: s}, noReport)
			if err != nil {
				t.Fatal(err)
			}
			return done
		}
		// Parked accounts are found without a look at the others.
		for _, s := range []Selector{{States: []string{string(circulate.Parked)}}, {States: []string{StatePaused}}, {Reasons: []string{"gone"}}} {
			done, err := r.Bulk(ctx, Bulk{Action: ResumeAll, Selector: s, DryRun: true}, noReport)
			if err != nil || done.Seen < 1 || done.Seen > 2 || done.Matched == 0 {
				t.Errorf("%+v: %+v, %v", s, done, err)
			}
		}
		// Pausing failing accounts does not hide why another one is parked.
		here := Selector{Causes: []string{missing}, Hosts: []string{"h0.example"}}
		if done := bulk(PauseAll, here); done.Matched != 3 || done.Changed != 2 {
			t.Errorf("paused: %+v", done)
		}
		if revived, err := r.Revive(ctx, Revival{Cause: missing, Host: "h1.example"}); err != nil || revived.Revived != 0 {
			t.Errorf("elsewhere: %+v, %v", revived, err)
		}
		if revived, err := r.Revive(ctx, Revival{Cause: missing, Host: "h0.example", Except: []string{"h0.example"}}); err != nil || revived.Revived != 0 {
			t.Errorf("nowhere: %+v, %v", revived, err)
		}
		if revived, err := r.Revive(ctx, Revival{Cause: missing, Host: "h0.example"}); err != nil || revived.Revived != 1 || revived.Skipped != 0 {
			t.Errorf("revived: %+v, %v", revived, err)
		}
		if done := bulk(ResumeAll, here); done.Matched != 1 || done.Changed != 0 { // the one that was revived: its last check failed
			t.Errorf("resumed: %+v", done)
		}
	})
}

// A record that is passed over unread must be one that would not be selected, however it is written.
func TestUnreadRecordsLackWhatIsSelected(t *testing.T) {
	for _, test := range []struct {
		record string
		lacks  bool
	}{
		{`{"kind":"feed","labels":{"team":"a"}}`, false},
		{`{"kind":"feed","labels":{"team": "a", "x": ""}}`, false},
		{`{"kind":"f\u0065ed","labels":{"te\u0061m":"a"}}`, false},
		{`{"kind":"feed","labels":{"team":"ab"}}`, true},
		{`{"kind":"feed","labels":{"teams":"a"}}`, true},
		{`{"kind":"mail","labels":{"team":"a"}}`, true},
		{`{}`, true},
		{``, true},
	} {
		for _, s := range []Selector{
			{Kinds: []string{"web", "feed"}, Labels: map[string]string{"team": "a"}},
			{Kinds: []string{"web", "feed"}, bound: map[string]string{"team": "a"}},
		} {
			if lacks, matches := s.lacks([]byte(test.record)), s.matchesRecord([]byte(test.record)); lacks != test.lacks || matches == test.lacks {
				t.Errorf("%s: lacks %t, selected %t", test.record, lacks, matches)
			}
		}
	}
}
