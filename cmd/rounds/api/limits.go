package api

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/budget"
	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/circulate/limit"
)

// Limit is a limit that replicas share, how much of it is used, and who waits for it.
type Limit struct {
	Name string `json:"name" doc:"As in ROUNDS_LIMITS: KIND for a whole kind, KIND/KEY for one rate key, egress/NAME for a way out. A very long name is cut."`
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

// Down is what accounts share by their rate key, such as a host, or a way out, while it does not answer or pauses.
type Down struct {
	Name  string    `json:"name" doc:"KIND/KEY, egress/NAME for a way out, or KIND/KEY (via NAME) for what that way out does not reach. A very long name is cut."`
	Kind  string    `json:"kind"`
	Key   string    `json:"rate_key" doc:"Such as a host."`
	Way   string    `json:"way,omitempty" doc:"The way out that does not reach it, while others may; direct for accounts without a way; left out: it is down for all."`
	State string    `json:"state" enum:"down,paused" doc:"down: its checks fail, and its accounts wait. paused: its third party asked to wait."`
	Since time.Time `json:"since"`
	Next  time.Time `json:"next" doc:"When the next probe goes out. A past time: a probe is under way, or waits for an account that is due."`
	Cause string    `json:"reason,omitempty" doc:"The code of the failure that was last reported."`
}

func downOf(t *limit.Trouble) Down {
	d := Down{Name: t.Name, State: "down", Since: t.Since.UTC(), Next: t.Next.UTC(), Cause: t.Cause}
	d.Kind, d.Key, _ = strings.Cut(t.Name, "/")
	d.Key, d.Way = limit.CutVia(d.Key)
	if t.Paused {
		d.State = "paused"
	}
	return d
}

// LimitList is limits, pauses and what is down.
type LimitList struct {
	Now       time.Time `json:"now" doc:"By Redis' clock."`
	Limits    []Limit   `json:"limits" nullable:"false" doc:"The limits that checks asked lately, or wait for. The ones that denied most come first."`
	More      int       `json:"more" doc:"How many limits are left out. Each process reports its 64 busiest ones."`
	Paused    []Pause   `json:"paused" nullable:"false" doc:"The longest first."`
	PausedToo int       `json:"more_paused" doc:"How many pauses are left out."`
	Down      []Down    `json:"down" nullable:"false" doc:"The longest first."`
	DownToo   int       `json:"more_down" doc:"How many of these are left out."`

	Budget *budget.Standing `json:"adaptive_budget,omitempty" doc:"The budget of checks that adaptive accounts share; left out without one."`
}

// limitRoutes adds the routes that list limits and credentials.
func (s *Server) limitRoutes(api huma.API) {
	answer(s, api, "list limits", huma.Operation{
		OperationID: "list-limits", Method: http.MethodGet, Path: "/v1/limits", Tags: []string{"service"},
		Summary:     "Limits, how they are used, and who is paused",
		Description: "Limits that replicas share, the checks that wait for them, owners that their third party asked to leave alone, and hosts and ways out that are down or pause. The replicas report every five seconds what they see. A limit that no check asked for five minutes is left out, unless a check waits longer.",
		Errors:      []int{401, 422, 503},
	}, s.listLimits)
	answer(s, api, "list credentials", huma.Operation{
		OperationID: "list-credentials", Method: http.MethodGet, Path: "/v1/credentials", Tags: []string{"service"},
		Summary:     "Credentials that third parties issued, and their age",
		Description: "Access tokens and the like that replicas fetched in the last week and share, at most 10000, without their values, which are sealed: the API cannot open them. A credential that is fetched during a walk may be on two pages.",
		Errors:      []int{401, 422, 503},
	}, s.listCredentials)
}

func (s *Server) listLimits(ctx context.Context, r *struct {
	Limit int `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"The most limits, the most pauses and the most hosts that are down."`
}) (LimitList, error) {
	states, more, now, err := limit.BoardOf(s.options.Ring).States(ctx, r.Limit)
	if err != nil {
		return LimitList{}, err
	}
	pauses, morePaused, _, err := credential.Of(s.options.Ring).Paused(ctx, r.Limit)
	if err != nil {
		return LimitList{}, err
	}
	troubles, _, err := limit.TroublesOf(s.options.Ring).All(ctx)
	if err != nil {
		return LimitList{}, err
	}
	down := slices.SortedFunc(maps.Values(troubles), func(a, b *limit.Trouble) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Name, b.Name))
	})
	moreDown := max(0, len(down)-r.Limit)
	list := LimitList{Now: now.UTC(), Limits: each(states, limitOf), More: more, PausedToo: morePaused, Down: []Down{}, DownToo: moreDown}
	for _, t := range down[:len(down)-moreDown] {
		list.Down = append(list.Down, downOf(t))
	}
	if state, ok, err := budget.Current(ctx, s.options.Ring); err != nil {
		return LimitList{}, err
	} else if ok {
		list.Budget = &state
	}
	paused := func(p *credential.Pause) Pause { return Pause{ownerOf(p.Owner), p.Until.UTC(), p.Reason} }
	list.Paused = each(pauses, paused)
	return list, nil
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

// Credential is a credential that a third party issued and all replicas share, without its value.
type Credential struct {
	Owner
	ID    string `json:"id" doc:"Distinguishes the credentials of an owner. Another secret has another id."`
	State string `json:"state" enum:"valid,due,fetching,failed,refused,paused,expired" doc:"refused: the third party refuses the secret. paused: the third party asked to leave the owner alone; there may still be a value. failed: the last fetch failed; there may still be a value. fetching: a replica fetches it, and there is no value yet. due: it is due to be replaced. expired: nobody has asked for it since."`

	Fetched time.Time `json:"fetched,omitzero" doc:"When the fetch of the value began."`
	Expires time.Time `json:"expires,omitzero" doc:"When the value expires; left out if there is none."`
	Refresh time.Time `json:"refresh,omitzero" doc:"When the value is due to be replaced."`

	Retry  time.Time `json:"retry,omitzero" doc:"No replica tries again before this time."`
	Reason string    `json:"reason,omitempty" doc:"Why the last fetch failed, the secret is refused or the owner is paused: the third party's code."`
}

// CredentialList is a page of credentials.
type CredentialList struct {
	Now         time.Time    `json:"now" doc:"By Redis' clock."`
	Credentials []Credential `json:"credentials" nullable:"false" doc:"The most recently fetched or tried ones first."`
	Next        string       `json:"next,omitempty" doc:"The cursor of the next page; left out on the last one. A page may be short, even empty, and not be the last."`
}

func (s *Server) listCredentials(ctx context.Context, r *struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"The most credentials on the page."`
	Cursor string `query:"cursor" maxLength:"16" doc:"The previous page's next."`
}) (CredentialList, error) {
	skip := 0
	if r.Cursor != "" {
		var err error
		if skip, err = strconv.Atoi(r.Cursor); err != nil || skip < 1 || skip > 1_000_000 || strconv.Itoa(skip) != r.Cursor {
			return CredentialList{}, invalid("query.cursor", "must be the field next of a page before")
		}
	}
	listed, passed, now, err := credential.Of(s.options.Ring).List(ctx, skip, r.Limit)
	list := CredentialList{Now: now.UTC(), Credentials: each(listed, func(l *credential.Listed) Credential { return credentialOf(l, now) })}
	if passed == r.Limit {
		list.Next = strconv.Itoa(skip + passed)
	}
	return list, err
}

func credentialOf(l *credential.Listed, now time.Time) Credential {
	c := Credential{
		Owner: ownerOf(l.Owner), ID: l.ID, Fetched: inUTC(l.Fetched), Expires: inUTC(l.Expires), Refresh: inUTC(l.Refresh),
		Reason: l.Reason,
	}
	switch {
	case !l.Refused.IsZero():
		c.State, c.Retry = "refused", inUTC(l.Refused)
	case !l.Paused.IsZero():
		c.State, c.Retry = "paused", inUTC(l.Paused)
		c.Reason = l.PauseReason
	case !l.Failed.IsZero():
		c.State, c.Retry = "failed", inUTC(l.Failed)
	case !l.Expires.IsZero() && l.Refresh.After(now):
		c.State = "valid"
	case !l.Expires.IsZero():
		c.State = "due"
	case !l.Fetching.IsZero():
		c.State = "fetching"
	default:
		c.State = "expired"
	}
	return c
}
