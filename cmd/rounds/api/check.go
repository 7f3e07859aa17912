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

// CheckRequest is an account to try.
type CheckRequest struct {
	_       struct{}        `additionalProperties:"false"`
	Account json.RawMessage `json:"account" doc:"The account's record, as it would be registered."`
	Cursor  string          `json:"cursor,omitempty" doc:"Where to continue: the next_cursor of another trial; left out: at the beginning."`
	Hint    json.RawMessage `json:"hint,omitempty" doc:"The hint that a nudge would have."`
	Pages   int             `json:"pages,omitempty" minimum:"1" maximum:"5" default:"1" doc:"The most pages to follow while there are more."`
	Limit   int             `json:"limit,omitempty" minimum:"1" maximum:"100" default:"20" doc:"Messages wanted in one page."`
}

type checkInput struct {
	RawBody []byte `contentType:"application/json"`
}

type checkReply struct{ Body trial.Report }

func (r Intake) addCheck() {
	if r.Try == nil {
		return
	}
	huma.Register(r.API, huma.Operation{
		OperationID: "check-account", Method: http.MethodPost, Path: "/v1/accounts:check", Tags: []string{"accounts"},
		Summary: "Try an account before it is registered",
		Description: "Asks the third party as a poller would, and returns what a poller would find. The account need not be registered. Nothing is stored: no message, no cursor, no failure. " +
			"The rules for networks and for secrets are those of the pollers, in this process: a secret that only pollers can open fails the trial, with a code that begins with secret. " +
			"A check that fails is a 200 with an error in the reply. A trial takes 45 seconds at most. 503 if several are already under way.",
		MaxBodyBytes: maxCheck, BodyReadTimeout: 30 * time.Second, SkipValidateBody: true,
		Errors: []int{400, 401, 404, 413, 422, 503},
	}, r.checkAccount)
}

func (r Intake) checkAccount(ctx context.Context, in *checkInput) (*checkReply, error) {
	trail.Of(ctx).LookOnly()
	request, err := r.readCheck(ctx, in.RawBody)
	if err != nil {
		return nil, r.Problem(ctx, "check account", err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	report, err := r.Try(ctx, request)
	switch {
	case errors.Is(err, trial.ErrBusy):
		return nil, r.Busy("several accounts are being tried already: try again")
	case err != nil:
		return nil, r.Problem(ctx, "check account", err)
	}
	report.Bound(request.Limit, shownData, shownInAll)
	return &checkReply{*report}, nil
}

// readCheck reads a trial that the caller may make: its record must be one that the caller could
// save. It returns every fault at once, as accounts.Faults.
func (r Intake) readCheck(ctx context.Context, text []byte) (trial.Request, error) {
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
	err = r.readRecord(ctx, body.Account, &request)
	if more := (accounts.Faults{}); len(faults) > 0 && !errors.As(err, &more) {
		err = nil // the faults have precedence
	}
	return request, faults.And(err)
}

var (
	pagesFault   = accounts.Fault{Field: "pages", Reason: fmt.Sprintf("must be a whole number from 1 to %d", maxPages)}
	limitFault   = accounts.Fault{Field: "limit", Reason: fmt.Sprintf("must be a whole number from 1 to %d", maxMessages)}
	trialDecoder = strict.NewDecoder[struct {
		Account json.RawMessage `strict:"account"`
		Cursor  string          `strict:"cursor"`
		Hint    json.RawMessage `strict:"hint"`
		Pages   int             `strict:"pages,given"`
		Limit   int             `strict:"limit,given"`
	}]("a trial", pagesFault, limitFault)
)

// readRecord reads the record into a trial. It returns its faults as accounts.Faults.
func (r Intake) readRecord(ctx context.Context, record json.RawMessage, into *trial.Request) error {
	registry := r.Registry(ctx)
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
	into.Account, into.Kind, into.Config = a.ID, a.Kind, a.Config
	if into.Config == nil {
		into.Config = json.RawMessage("{}")
	}
	return registry.Concerns(ctx, a.ID)
}
