package pages

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	accountMessages = 6                // latest messages that the page of an account shows
	accountEvents   = 60               // events of its timeline, before those alike are folded
	accountKept     = 10 * time.Second // how long a live page shows what costs Redis more to find
)

// oneAccount is what the page of one account shows.
type oneAccount struct {
	ID       string
	Record   accountRecord
	Schedule schedule
	Timeline timelinePage
	Events   []timelineEvent // those of the timeline, folded
	Facts    []fact
	Messages []accountMessage
	Older    string // the address of older events; empty: there are none
	Earlier  bool   // the page shows older events, which do not change
	Found    bool   // false: the messages could not be read
}

// accountRecord is what GET /v1/accounts/{id} says.
type accountRecord struct {
	Kind     string            `json:"kind"`
	Config   json.RawMessage   `json:"config"`
	Cadence  string            `json:"cadence"`
	Priority string            `json:"priority"`
	Budget   int               `json:"retry_budget"`
	Labels   map[string]string `json:"labels"`
	Revision int               `json:"revision"`
	Created  time.Time         `json:"created"`
	Updated  time.Time         `json:"updated"`
	Fault    string            `json:"fault"`
}

// schedule is what GET /v1/accounts/{id}/schedule says.
type schedule struct {
	Now      time.Time   `json:"now"`
	Shard    int         `json:"shard"`
	Fault    string      `json:"fault"`
	Place    string      `json:"place"`
	Due      time.Time   `json:"due"`
	Since    time.Time   `json:"since"`
	Replica  string      `json:"replica"`
	Reason   string      `json:"reason"`
	Priority string      `json:"priority"`
	Lanes    *lanes      `json:"lanes"`
	Rule     string      `json:"rule"`
	DueRule  string      `json:"due_rule"`
	Cadence  string      `json:"cadence"`
	Slots    []time.Time `json:"slots"`
	Nudged   time.Time   `json:"nudged_to"`

	Failures  int       `json:"failures"`
	Left      int       `json:"failures_left"`
	Parks     parking   `json:"parks"`
	Strikes   int       `json:"strikes"`
	Succeeded time.Time `json:"last_success"`
	Never     bool      `json:"never_succeeded"`
	Checks    []string  `json:"checks"`
	Error     string    `json:"last_error"`
	ErrorAt   time.Time `json:"last_error_at"`
	Warning   string    `json:"warning"`
	Retention float64   `json:"retention_seconds"` // 0: unknown
	Headroom  float64   `json:"headroom_seconds"`
	Hold      float64   `json:"hold_seconds"` // 0: calls are not held
	Skip      time.Time `json:"passing_over_before"`
}

// parking says what parks an account that fails.
type parking struct {
	After int       `json:"after"`
	Over  float64   `json:"over_seconds"` // 0: only the number of failures counts
	From  time.Time `json:"from"`
}

// lanes says what is ahead of a waiting account.
type lanes struct {
	Lane    string   `json:"lane"`
	Kind    string   `json:"kind"`
	Ahead   int      `json:"ahead"`
	Urgent  int      `json:"urgent"`
	Normal  int      `json:"normal"`
	Low     int      `json:"low"`
	Seconds *float64 `json:"estimate_seconds"` // nil: unknown
}

// Estimate returns about how many seconds the account waits, if that is known.
func (l *lanes) Estimate() float64 { return *l.Seconds }

// State returns what the account's badge says.
func (s *schedule) State() string {
	switch {
	case s.Place == "parked" && s.Rule == "paused":
		return "paused"
	case s.Place == "parked":
		return "parked"
	case s.Failures > 0:
		return "failing"
	case s.Error != "":
		return "hindered" // by what does not count against it
	case s.Held():
		return "held"
	}
	return s.Place
}

// Held reports whether the third party holds a call of the account.
func (s *schedule) Held() bool { return s.Place == "claimed" && s.Hold > 0 }

// Paused reports whether somebody paused the account.
func (s *schedule) Paused() bool { return s.Rule == "paused" }

// Refused reports whether the account is parked because the third party refuses its secret.
func (s *schedule) Refused() bool {
	return s.Place == "parked" && strings.HasPrefix(s.Reason, "auth: ")
}

// Late reports whether the account is due and no replica has claimed it.
func (s *schedule) Late() bool { return s.Place == "scheduled" && !s.Due.After(s.Now) }

// Strip returns how the last checks went, the oldest first.
func (s *schedule) Strip() []check {
	strip := make([]check, len(s.Checks))
	for i, mark := range s.Checks {
		class := "bad"
		switch mark {
		case "ok":
			class = "good"
		case "more", "blameless", "rate_limited":
			class = "warn"
		}
		strip[len(strip)-1-i] = check{mark, class}
	}
	return strip
}

// check is how one check went.
type check struct{ Mark, Class string }

// Changed returns the latest change of the record, or nil if it is not among the events.
func (a *oneAccount) Changed() *timelineEvent {
	for i := range a.Timeline.Events {
		if e := &a.Timeline.Events[i]; e.Event == "changed" || e.Event == "registered" {
			return e
		}
	}
	return nil
}

func accountPage() *page {
	return &page{
		name: "account", path: "/account", menu: "accounts", data: readAccount,
		actions: map[string]action{
			"/account/check":  does("POST", "/nudge", "checked", nil),
			"/account/pause":  does("POST", "/pause", "paused", nil),
			"/account/resume": does("POST", "/resume", "resumed", func(v *visit) any { return map[string]string{"from": v.r.PostForm.Get("from")} }),
			"/account/delete": func(v *visit) (string, error) {
				return link("/accounts", "said", "account.deleted"), v.do("DELETE", accountPath(v.r.PostForm.Get("id")), nil, nil)
			},
		},
	}
}

// does returns an action that calls a route of one account, and then shows the account.
func does(method, route, said string, body func(*visit) any) action {
	return func(v *visit) (string, error) {
		id := v.r.PostForm.Get("id")
		var sent any
		if body != nil {
			sent = body(v)
		}
		return link("/account", "id", id, "said", "account."+said), v.do(method, accountPath(id)+route, sent, nil)
	}
}

// readAccount returns what the page shows of the account that the address names.
func readAccount(v *visit) (any, error) {
	id := v.Query("id")
	if id == "" {
		return nil, &problem{Status: http.StatusNotFound, Detail: v.lang.text("account.none")}
	}
	a := &oneAccount{ID: id, Earlier: v.Query("cursor") != ""}
	path := accountPath(id)
	if err := errors.Join(v.get(path, &a.Record), v.seldom(path+"/schedule", "", sharedLasts, &a.Schedule)); err != nil {
		return nil, err
	}
	a.Facts = factsOf(a.Record.Config)
	// A live page asks again for what costs more when the account has changed, or after a while.
	state, err := json.Marshal([]any{a.Record.Revision, a.Schedule.Place, a.Schedule.Since, a.Schedule.Failures, a.Schedule.Strikes, a.Schedule.Succeeded, a.Schedule.ErrorAt, a.Schedule.Checks})
	if err != nil {
		return nil, err
	}
	events := address(path+"/timeline", map[string][]string{"limit": {strconv.Itoa(accountEvents)}, "cursor": {v.Query("cursor")}})
	if err := v.seldom(events, string(state), accountKept, &a.Timeline); err != nil {
		return nil, err
	}
	a.Events = folded(a.Timeline.Events)
	if a.Timeline.Next != "" {
		a.Older = v.With("cursor", a.Timeline.Next)
	}
	var found struct{ Messages []accountMessage }
	latest := ""
	for _, e := range a.Timeline.Events {
		if e.Event == "found" {
			latest = e.ID
			break
		}
	}
	if v.May("GET /v1/messages") {
		route := address("/v1/messages", map[string][]string{"account": {id}, "before": {"now"}, "limit": {strconv.Itoa(accountMessages)}})
		if err := v.seldom(route, latest, accountKept, &found); err == nil {
			a.Messages, a.Found = found.Messages, true
		} else if v.r.Context().Err() != nil {
			return nil, err
		}
	}
	return a, nil
}
