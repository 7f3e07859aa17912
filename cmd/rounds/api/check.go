package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

const (
	// maxCheck is the most bytes of a request: a record, a hint, and a cursor, which is
	// escaped or in base64.
	maxCheck = accounts.MaxRecord + 256<<10
	// maxPages and maxMessages are the most pages that a trial follows, and the most messages
	// of a page.
	maxPages, maxMessages = 5, 100
	// checkPages and checkMessages are the defaults of a request that names no numbers.
	checkPages, checkMessages = 1, 20
	// checkTime is how long a trial may take, with all its pages: less than a reply may take.
	checkTime = 45 * time.Second
	// A message's data is shown up to shownData bytes, and the data of all messages up to shownInAll.
	shownData, shownInAll = 16 << 10, 512 << 10
)

// Kind is a kind of accounts, and what a form for it needs.
type Kind struct {
	Name     string         `json:"name"`
	Fields   []strict.Field `json:"fields,omitempty" doc:"The fields of its config, in the order in which people fill them in; left out if the kind declares none."`
	Replicas int            `json:"replicas" doc:"How many living pollers check it."`
}

// KindList are the kinds that accounts can have.
type KindList struct {
	Kinds []Kind `json:"kinds" nullable:"false"`
}

// CheckRequest is an account to try.
type CheckRequest struct {
	_       struct{}        `additionalProperties:"false"`
	Account json.RawMessage `json:"account" strict:"account" doc:"The account's record, as it would be registered."`
	Cursor  string          `json:"cursor,omitempty" strict:"cursor" doc:"Where to continue: the next_cursor of another trial; left out: at the beginning."`
	Hint    json.RawMessage `json:"hint,omitempty" strict:"hint" doc:"The hint that a nudge would have."`
	Pages   int             `json:"pages,omitempty" strict:"pages,given" minimum:"1" maximum:"5" default:"1" doc:"The most pages to follow while there are more."`
	Limit   int             `json:"limit,omitempty" strict:"limit,given" minimum:"1" maximum:"100" default:"20" doc:"Messages wanted in one page."`
}

// kindRoutes adds the routes with which somebody prepares an account before it is registered: which
// kinds there are and what their configs hold, and a trial that shows what a poller would find.
func (s *Server) kindRoutes(api huma.API) {
	answer(s, api, "list kinds", huma.Operation{
		OperationID: "list-kinds", Method: http.MethodGet, Path: "/v1/kinds", Tags: []string{"accounts"},
		Summary: "List the kinds of accounts", Description: "The kinds that this process knows, and so can register, with the fields of their configs for a form.",
		Errors: []int{401, 503},
	}, s.listKinds)
	if s.options.Try == nil {
		return
	}
	answer(s, api, "check account", huma.Operation{
		OperationID: "check-account", Method: http.MethodPost, Path: "/v1/accounts:check", Tags: []string{"accounts"},
		Summary: "Try an account before it is registered",
		Description: "Asks the third party as a poller would, and returns what a poller would find. The account need not be registered. Nothing is stored: no message, no cursor, no failure. " +
			"The rules for networks and for secrets are those of the pollers, in this process: a secret that only pollers can open fails the trial, with a code that begins with secret. " +
			"A check that fails is a 200 with an error in the reply. A trial takes 45 seconds at most. 503 if several are already under way.",
		MaxBodyBytes: maxCheck, BodyReadTimeout: 30 * time.Second, SkipValidateBody: true,
		Errors: []int{400, 401, 404, 413, 422, 503},
	}, s.checkAccount)
}

func (s *Server) checkAccount(ctx context.Context, in *bodyInput) (trial.Report, error) {
	trail.Of(ctx).LookOnly()
	request, err := s.readCheck(ctx, in.RawBody)
	if err != nil {
		return trial.Report{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	report, err := s.options.Try(ctx, request)
	switch {
	case errors.Is(err, trial.ErrBusy):
		return trial.Report{}, unavailable("several accounts are being tried already: try again")
	case err != nil:
		return trial.Report{}, s.errorReply(ctx, "check account", err) // of this context, whose time may be over
	}
	report.Bound(request.Limit, shownData, shownInAll)
	return *report, nil
}

// readCheck reads a trial that the caller may make: its record must be one that the caller could
// save. It returns every fault at once, as accounts.Faults.
func (s *Server) readCheck(ctx context.Context, text []byte) (trial.Request, error) {
	body, faults := trialDecoder.Decode(text)
	if len(faults) > 0 && faults[0].Field == accounts.RecordField {
		return trial.Request{}, faults
	}
	request := trial.Request{Pages: cmp.Or(body.Pages, checkPages), Limit: cmp.Or(body.Limit, checkMessages), Hint: body.Hint}
	var err error
	if request.Cursor, err = trial.ReadCursor(body.Cursor); err != nil {
		faults.Add("cursor", err.Error())
	}
	if len(body.Hint) > accounts.MaxHint {
		faults.Add("hint", "must be at most "+strconv.Itoa(accounts.MaxHint)+" bytes")
	}
	if request.Pages < 1 || request.Pages > maxPages {
		faults = append(faults, pagesFault)
	}
	if request.Limit < 1 || request.Limit > maxMessages {
		faults = append(faults, limitFault)
	}
	if body.Account == nil {
		faults.Add("account", "missing")
		return request, faults
	}
	err = s.readRecord(ctx, body.Account, &request)
	if more := (accounts.Faults{}); len(faults) > 0 && !errors.As(err, &more) {
		err = nil // the faults have precedence
	}
	return request, faults.And(err)
}

var (
	pagesFault   = accounts.Fault{Field: "pages", Reason: fmt.Sprintf("must be a whole number from 1 to %d", maxPages)}
	limitFault   = accounts.Fault{Field: "limit", Reason: fmt.Sprintf("must be a whole number from 1 to %d", maxMessages)}
	trialDecoder = strict.NewDecoder[CheckRequest]("a trial", pagesFault, limitFault)
)

// readRecord reads the record into a trial. It returns its faults as accounts.Faults.
func (s *Server) readRecord(ctx context.Context, record json.RawMessage, into *trial.Request) error {
	registry := s.registry(ctx)
	a, err := registry.Read(ctx, "", record)
	var faults accounts.Faults
	switch {
	case errors.As(err, &faults):
		within := make(accounts.Faults, len(faults))
		for i, f := range faults {
			within[i] = accounts.Fault{Field: strings.TrimSuffix("account."+f.Field, "."+accounts.RecordField), Reason: f.Reason}
		}
		return within
	case err != nil:
		return err
	}
	into.Account, into.Kind, into.Config, into.Labels = a.ID, a.Kind, a.Config, a.Labels
	if into.Config == nil {
		into.Config = json.RawMessage("{}")
	}
	return registry.Concerns(ctx, a.ID)
}

func (s *Server) listKinds(ctx context.Context, _ *struct{}) (KindList, error) {
	replicas, now, err := s.options.Ring.Replicas(ctx)
	if err != nil {
		return KindList{}, err
	}
	checked, outage := make(map[string]int), s.options.Ring.LastOutage(now)
	for _, one := range replicas {
		var report accounts.Report
		// A replica of another version may report something else, and is then not counted.
		if !outage.Alive(one.Beat, now, s.options.DeadAfter) || json.Unmarshal(one.Report, &report) != nil {
			continue
		}
		for _, kind := range report.Kinds {
			checked[kind]++
		}
	}
	kind := func(k *strict.Kind) Kind { return Kind{Name: k.Name, Fields: k.Fields, Replicas: checked[k.Name]} }
	return KindList{each(s.options.Kinds, kind)}, nil
}
