package pages

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	accountMessages = 6                // latest messages that the page of an account shows
	accountEvents   = 60               // events of its timeline, before similar ones are folded
	accountKept     = 10 * time.Second // how long a live page shows what costs Redis more
	checksKept      = 4 * time.Second  // the same of the latest checks
)

// oneAccount is what the page of one account shows.
type oneAccount struct {
	ID       string
	Record   api.Account
	Schedule schedule
	Timeline api.TimelinePage
	Events   []timelineEvent // the events of the timeline, folded
	Facts    []fact
	Messages []accountMessage
	Checks   *latestChecks // nil: they could not be read
	Talk     *talk         // nil: it could not be read
	Box      *answerBox    // nil: the visitor cannot answer
	Unboxed  bool          // there is a peer to answer, and the page has no box yet
	Older    string        // the address of older events; empty: there are none
	Earlier  bool          // the page shows older events, which do not change
	Found    bool          // false: the messages could not be read

	at string // the address of its live stream; empty: the page's own
}

// schedule says where an account is, and when it is checked next.
type schedule struct{ api.Schedule }

// State returns the state that the account's badge shows.
func (s *schedule) State() string {
	if state := standing(string(s.Place), s.Paused(), s.Failures, s.Error != ""); state != "claimed" || !s.Held() {
		return state
	}
	return "held"
}

// listed returns the state that an account's badge shows in a list.
func listed(s api.State) string {
	return standing(string(s.Place), s.Reason == "paused", s.Failures, s.Failing)
}

// standing returns the state of an account, with what is wrong before where it is.
func standing(place string, paused bool, failures int, lastFailed bool) string {
	switch {
	case place == "parked" && paused:
		return "paused"
	case place == "parked":
		return "parked"
	case failures > 0:
		return "failing"
	case lastFailed:
		return "hindered" // its last check failed without counting against it
	}
	return place
}

// Held reports whether the third party holds a call of the account.
func (s *schedule) Held() bool { return s.Place == "claimed" && s.Hold > 0 }

// Paused reports whether somebody paused the account.
func (s *schedule) Paused() bool { return s.Rule == "paused" }

// Refused reports whether the account is parked because the third party refuses its secret.
func (s *schedule) Refused() bool {
	return s.Place == "parked" && strings.HasPrefix(s.Reason, "auth: ")
}

// Late reports whether the account is due but no replica has claimed it.
func (s *schedule) Late() bool { return s.Place == "scheduled" && !s.Due.After(s.Now) }

// Strip returns how the last checks went, the oldest first.
func (s *schedule) Strip() []check {
	strip := make([]check, len(s.Checks))
	for i, mark := range s.Checks {
		strip[len(strip)-1-i] = checkOf(mark)
	}
	return strip
}

// latestChecks are the latest checks of an account, as far as pollers reported them.
type latestChecks struct{ Checks []latestCheck }

// latestCheck is how one of them went.
type latestCheck struct{ api.AccountCheck }

// Shown returns how the check went.
func (c *latestCheck) Shown() check { return checkOf(c.Outcome) }

// check is how one check went.
type check struct{ Mark, Class string }

// checkOf returns the check that ended with a mark.
func checkOf(mark string) check {
	switch mark {
	case "ok":
		return check{mark, "good"}
	case "more", "blameless", "rate_limited", "maintenance":
		return check{mark, "warn"}
	}
	return check{mark, "bad"}
}

// Changed returns the latest change of the record, or nil if it is not among the events.
func (a *oneAccount) Changed() *api.TimelineEvent {
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
			"/account": answerPeer,
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
		return nil, refusal(http.StatusNotFound, v.lang.text("account.none"))
	}
	a := &oneAccount{ID: id, Earlier: v.Query("cursor") != ""}
	path := accountPath(id)
	if err := errors.Join(v.get(path, &a.Record), v.seldom(path+"/schedule", "", sharedLasts, &a.Schedule)); err != nil {
		return nil, err
	}
	a.Facts = factsOf(a.Record.Config)
	// A live page asks for the timeline again, which costs more, only when the account has changed or
	// after a while.
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
	if v.May("GET /v1/messages") {
		err = a.readMessages(v)
	}
	var checks latestChecks
	if failed := v.seldom(path+"/checks", "", checksKept, &checks); failed == nil {
		a.Checks = &checks
	} else {
		err = errors.Join(err, failed)
	}
	if v.May(routeTalk) {
		err = errors.Join(err, a.readTalk(v))
	}
	if err != nil && v.r.Context().Err() != nil {
		return nil, err
	}
	return a, nil // without what could not be read
}

// latestFound returns the id of the latest event of the timeline that found messages.
func (a *oneAccount) latestFound() string {
	for _, e := range a.Timeline.Events {
		if e.Event == "found" {
			return e.ID
		}
	}
	return ""
}

// readMessages reads the latest messages, again only when the timeline has newer ones or after a
// while.
func (a *oneAccount) readMessages(v *visit) error {
	var found struct{ Messages []accountMessage }
	route := address("/v1/messages", map[string][]string{"account": {a.ID}, "before": {"now"}, "limit": {strconv.Itoa(accountMessages)}})
	if err := v.seldom(route, a.latestFound(), accountKept, &found); err != nil {
		return err
	}
	a.Messages, a.Found = found.Messages, true
	return nil
}
