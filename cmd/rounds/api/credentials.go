package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/circulate/credential"
)

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

type credentialsReply struct {
	Body CredentialList
}

// addCredentials adds the route that lists credentials.
func (r Outlook) addCredentials() {
	huma.Register(r.API, huma.Operation{
		OperationID: "list-credentials", Method: http.MethodGet, Path: "/v1/credentials", Tags: []string{"service"},
		Summary:     "Credentials that third parties issued, and their age",
		Description: "Access tokens and the like that replicas fetched in the last week and share, at most 10000, without their values, which are sealed: the API cannot open them. A credential that is fetched during a walk may be on two pages.",
		Errors:      []int{401, 422, 503},
	}, func(ctx context.Context, request *struct {
		Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"The most credentials on the page."`
		Cursor string `query:"cursor" maxLength:"16" doc:"The previous page's next."`
	}) (*credentialsReply, error) {
		skip := 0
		if request.Cursor != "" {
			var err error
			if skip, err = strconv.Atoi(request.Cursor); err != nil || skip < 1 || skip > 1_000_000 || strconv.Itoa(skip) != request.Cursor {
				return nil, r.Invalid("query.cursor", "must be the field next of a page before")
			}
		}
		listed, passed, now, err := credential.Of(r.Ring).List(ctx, skip, request.Limit)
		if err != nil {
			return nil, r.Problem(ctx, "list credentials", err)
		}
		list := CredentialList{Now: now.UTC(), Credentials: make([]Credential, len(listed))}
		for i := range listed {
			list.Credentials[i] = credentialOf(&listed[i], now)
		}
		if passed == request.Limit {
			list.Next = strconv.Itoa(skip + passed)
		}
		return &credentialsReply{list}, nil
	})
}

func credentialOf(l *credential.Listed, now time.Time) Credential {
	utc := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return t.UTC()
	}
	c := Credential{
		Owner: ownerOf(l.Owner), ID: l.ID, Fetched: utc(l.Fetched), Expires: utc(l.Expires), Refresh: utc(l.Refresh),
		Reason: l.Reason,
	}
	switch {
	case !l.Refused.IsZero():
		c.State, c.Retry = "refused", utc(l.Refused)
	case !l.Paused.IsZero():
		c.State, c.Retry = "paused", utc(l.Paused)
		c.Reason = l.PauseReason
	case !l.Failed.IsZero():
		c.State, c.Retry = "failed", utc(l.Failed)
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
