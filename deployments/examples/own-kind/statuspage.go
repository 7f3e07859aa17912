package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/cmd/rounds/command"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// statuspage checks status pages that Statuspage hosts. The config is the page's
// address: {"url": "https://www.githubstatus.com"}. Each state of an incident is a
// message; the cursor is the state of every incident that the page still shows.
type statuspage struct {
	*form
	client *fetch.Client
}

type site struct {
	url string // of the page, without a slash at its end
}

// form has the methods Validate and Fields: it judges configs when accounts are registered, and
// describes them to people.
type form = strict.Form[site]

// newStatuspage returns a checker that uses the process' client. The client refuses
// private addresses, limits the size of answers, and follows the settings.
func newStatuspage(tools command.Tools) (poller.Checker, error) {
	return statuspage{client: tools.Client, form: strict.NewForm([]strict.Entry[site]{{
		Field: strict.Field{
			Name: "url", Type: strict.URL, Required: true, Example: "https://www.githubstatus.com",
			Label: strict.Words{EN: "Address", ZH: "地址"},
			Help:  strict.Words{EN: "Where the status page is.", ZH: "状态页的地址。"},
		},
		Read: func(v strict.Value, to *site) { to.url, _ = tools.Client.ReadBaseURL(v) },
	}})}, nil
}

// Kind returns the name for "--kind".
func (statuspage) Kind() string { return "statuspage" }

// RateKey returns the page's host. Accounts of one host share limits and outages.
func (s statuspage) RateKey(config json.RawMessage) string {
	at, _ := s.form.Read(config) // the zero site if the config is not valid
	return fetch.Host(at.url)
}

// incident is an incident of a page. The last update comes first.
type incident struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Status  string    `json:"status"`
	Impact  string    `json:"impact"`
	Link    string    `json:"shortlink"`
	Updated time.Time `json:"updated_at"`
}

// Check reports what changed since the cursor, the oldest first.
func (s statuspage) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	at, err := s.form.Read(r.Config)
	if err != nil {
		return poller.Result{}, poller.ConfigError(err)
	}
	seen := map[string]time.Time{}
	if len(r.Cursor) > 0 {
		if err := json.Unmarshal(r.Cursor, &seen); err != nil {
			return poller.Result{}, poller.CursorError(err)
		}
	}
	answer, err := s.client.Do(ctx, fetch.Call{URL: at.url + "/api/v2/incidents.json", MaxBody: 1 << 20, MaxRedirects: 3})
	if err != nil {
		return poller.Result{}, fetch.CheckError(err) // sets kind and scope
	}
	if answer.Status != http.StatusOK {
		return poller.Result{}, refusal(answer)
	}
	var page struct{ Incidents []incident }
	if json.Unmarshal(answer.Body, &page) != nil || page.Incidents == nil {
		return poller.Result{}, &poller.CheckError{Kind: poller.Protocol, Code: "not_a_page", Message: "the answer has no list of incidents"}
	}
	return report(page.Incidents, seen, max(r.Limit, 1))
}

// report returns at most limit messages. Incidents that the page no longer shows are
// forgotten, so that the cursor stays small.
func report(incidents []incident, seen map[string]time.Time, limit int) (poller.Result, error) {
	slices.SortStableFunc(incidents, func(a, b incident) int { return a.Updated.Compare(b.Updated) })
	var result poller.Result
	next := make(map[string]time.Time, len(incidents))
	for _, i := range incidents {
		before, known := seen[i.ID]
		switch {
		case known && before.Equal(i.Updated):
		case len(result.Messages) == limit:
			result.HasMore = true
			if known {
				next[i.ID] = before
			}
			continue
		default:
			data, err := json.Marshal(i)
			if err != nil {
				return poller.Result{}, err
			}
			result.Messages = append(result.Messages, poller.Message{
				ID: fmt.Sprintf("%s/%d", i.ID, i.Updated.UnixMilli()), Type: "incident", Time: i.Updated.UTC(), Data: data,
			})
		}
		next[i.ID] = i.Updated
	}
	var err error
	result.Cursor, err = json.Marshal(next)
	return result, err
}

// refusal returns the error for a status. Only an error of this page alone counts
// against the account.
func refusal(answer *fetch.Response) *poller.CheckError {
	e := &poller.CheckError{
		Kind: poller.Transient, Code: fmt.Sprintf("http_%d", answer.Status),
		Message: "the page answered " + http.StatusText(answer.Status), RetryAfter: answer.RetryAfter(),
	}
	switch answer.Status {
	case http.StatusTooManyRequests:
		e.Kind, e.Scope = poller.RateLimited, poller.ScopeRateKey
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		e.Scope = poller.ScopeRateKey
	case http.StatusGone:
		e.Kind = poller.Gone
	}
	return e
}
