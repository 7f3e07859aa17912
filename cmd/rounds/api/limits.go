package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/circulate/limit"
)

// Limit is a limit that replicas share, how much of it is used, and who waits for it.
type Limit struct {
	Name string `json:"name" doc:"As in ROUNDS_LIMITS: KIND for a whole kind, KIND/KEY for one rate key. A very long name is cut."`
	Kind string `json:"kind"`
	Key  string `json:"rate_key,omitempty" doc:"Such as a host; left out for a limit of a whole kind."`

	Every       float64 `json:"every_seconds,omitempty" doc:"With a rate: the time from one start to the next, on average."`
	Burst       int     `json:"burst,omitempty" doc:"With a rate: how many checks may start at once."`
	Taken       int     `json:"taken" doc:"With a rate: how many starts of the burst are used up now."`
	Concurrency int     `json:"concurrency,omitempty" doc:"How many checks may run at once; left out: any number."`
	Running     int     `json:"running" doc:"With a concurrency: how many checks run now."`

	Asked   int       `json:"asked" doc:"How often checks asked in the last thirty to sixty seconds."`
	Denied  int       `json:"denied" doc:"How many of these were told to wait."`
	Waiting int       `json:"waiting" doc:"About how many checks wait for their turn."`
	Until   time.Time `json:"until,omitzero" doc:"When the last of these has its turn."`
}

// Pause is an owner of accounts, such as a corporation, that is left alone for a while because its
// third party asked for that.
type Pause struct {
	Owner
	Until  time.Time `json:"until"`
	Reason string    `json:"reason,omitempty" doc:"The third party's code."`
}

// Owner is the party for which a third party issues credentials.
type Owner struct {
	Owner string `json:"owner" doc:"The owner, as its kind names it."`
	Kind  string `json:"kind,omitempty" doc:"The kind of its accounts."`
	Name  string `json:"name,omitempty" doc:"The owner's own name, such as a corporation's id."`
	At    string `json:"at,omitempty" doc:"The address of the third party."`
}

// ownerOf reads an owner in the form in which kinds name it: KIND|NAME|URL.
func ownerOf(text string) Owner {
	o := Owner{Owner: text}
	if parts := strings.Split(text, "|"); len(parts) == 3 {
		o.Kind, o.Name, o.At = parts[0], parts[1], parts[2]
	}
	return o
}

// LimitList is limits and pauses.
type LimitList struct {
	Now       time.Time `json:"now" doc:"By Redis' clock."`
	Limits    []Limit   `json:"limits" nullable:"false" doc:"The limits that checks asked lately, or wait for. The ones that denied most come first."`
	More      int       `json:"more" doc:"How many limits are left out. Each process reports its 64 busiest ones."`
	Paused    []Pause   `json:"paused" nullable:"false" doc:"The longest first."`
	PausedToo int       `json:"more_paused" doc:"How many pauses are left out."`
}

type limitsReply struct {
	Body LimitList
}

// addLimits adds the route that lists limits.
func (r Outlook) addLimits() {
	huma.Register(r.API, huma.Operation{
		OperationID: "list-limits", Method: http.MethodGet, Path: "/v1/limits", Tags: []string{"service"},
		Summary:     "Limits, how they are used, and who is paused",
		Description: "Limits that replicas share, the checks that wait for them, and owners that their third party asked to leave alone. The replicas report every five seconds what they see. A limit that no check asked for five minutes is left out, unless a check waits longer.",
		Errors:      []int{401, 422, 503},
	}, func(ctx context.Context, request *struct {
		Limit int `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"The most limits, and the most pauses."`
	}) (*limitsReply, error) {
		states, more, now, err := limit.BoardOf(r.Ring).States(ctx, request.Limit)
		if err != nil {
			return nil, r.Problem(ctx, "list limits", err)
		}
		pauses, morePaused, _, err := credential.Of(r.Ring).Paused(ctx, request.Limit)
		if err != nil {
			return nil, r.Problem(ctx, "list limits", err)
		}
		list := LimitList{Now: now.UTC(), Limits: make([]Limit, len(states)), More: more, Paused: make([]Pause, len(pauses)), PausedToo: morePaused}
		for i := range states {
			list.Limits[i] = limitOf(&states[i])
		}
		for i, p := range pauses {
			list.Paused[i] = Pause{ownerOf(p.Owner), p.Until.UTC(), p.Reason}
		}
		return &limitsReply{list}, nil
	})
}

func limitOf(s *limit.State) Limit {
	l := Limit{
		Name: s.Name, Every: s.Every.Seconds(), Burst: s.Burst, Taken: s.Taken, Concurrency: s.Concurrency, Running: s.Running,
		Asked: s.Asked, Denied: s.Denied, Waiting: s.Waiting,
	}
	l.Kind, l.Key, _ = strings.Cut(s.Name, "/")
	if !s.Last.IsZero() {
		l.Until = s.Last.UTC().Truncate(time.Millisecond)
	}
	return l
}
