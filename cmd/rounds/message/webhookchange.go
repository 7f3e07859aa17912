package message

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts/endpoint"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

var (
	// ErrWebhookDeclared reports a webhook endpoint that a file declares, and that only the file changes.
	ErrWebhookDeclared = errors.New("message: the webhook endpoint is declared in a file")
	// ErrTestUnanswered reports a test of which nobody said how it ended.
	ErrTestUnanswered = errors.New("message: no process has said how the test ended")
)

const (
	// takenWithin is the longest time until processes deliver to an endpoint that was just added.
	takenWithin = 6 * time.Second
	// testedWithin is the longest time until a process says how a test ended: the longest timeout of an
	// endpoint, and a few looks.
	testedWithin = 40 * time.Second
	// endedWithin is how long a removal waits for the consumers to end.
	endedWithin = 15 * time.Second
	// withdrawnWithin is how long it then waits until they report the endpoint no more.
	withdrawnWithin = 3 * time.Second
	lookAgain       = 250 * time.Millisecond
)

// Tested is how the test of an endpoint ended.
type Tested document.Tested

// TestWebhook has one of the processes that deliver to an endpoint send it a test event, and waits
// until that ends. The error is ErrNoWebhook, ErrWebhookIdle, ErrTestUnanswered, or the ring's.
func (r *Reader) TestWebhook(ctx context.Context, name string) (Tested, error) {
	w, err := r.Webhook(ctx, name)
	if err != nil {
		return Tested{}, err
	}
	board := document.Of(r.ring).Endpoints()
	var by string
	found := func(reports []document.Report) bool {
		i := slices.IndexFunc(reports, func(one document.Report) bool {
			return one.Process != "" && (w.Stored == nil || w.Declared || one.Revision == w.Stored.Revision)
		})
		if i >= 0 {
			by = reports[i].Process
		}
		return i >= 0
	}
	within := takenWithin
	if w.Stored == nil {
		within = 0
	}
	switch ok, err := awaitReports(ctx, board, name, within, found); {
	case err != nil:
		return Tested{}, err
	case !ok:
		return Tested{}, fmt.Errorf("%w: %q", ErrWebhookIdle, name)
	}
	order := document.Order{Endpoint: name, Action: document.Test, Process: by, ID: circulate.NewReplica()}
	if err := board.Tell(ctx, order); err != nil {
		return Tested{}, err
	}
	var done Tested
	ok, err := awaitReports(ctx, board, name, testedWithin, func(reports []document.Report) bool {
		for _, one := range reports {
			for _, t := range one.Tests {
				if t.ID == order.ID {
					done = Tested(t)
					return true
				}
			}
		}
		return false
	})
	if err == nil && !ok {
		err = fmt.Errorf("%w: %q", ErrTestUnanswered, name)
	}
	return done, err
}

// awaitReports waits until the reports about an endpoint are as wanted, and reports whether they are.
func awaitReports(ctx context.Context, board document.Endpoints, name string, within time.Duration, wanted func([]document.Report) bool) (bool, error) {
	for end := time.Now().Add(within); ; {
		all, _, err := board.Reports(ctx)
		switch {
		case err != nil:
			return false, err
		case wanted(all[name]):
			return true, nil
		case !time.Now().Before(end):
			return false, nil
		}
		if !pause(ctx, lookAgain) {
			return false, context.Cause(ctx)
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// MayStoreWebhook returns ErrWebhookDeclared if a process has an endpoint of the name from its file.
func (r *Reader) MayStoreWebhook(ctx context.Context, name string) error {
	return r.notDeclared(ctx, name)
}

// notDeclared returns ErrWebhookDeclared if a process has an endpoint from its file.
func (r *Reader) notDeclared(ctx context.Context, name string) error {
	reports, _, err := document.Of(r.ring).Endpoints().Reports(ctx)
	if err == nil && declared(reports[name]) {
		err = fmt.Errorf("%w: %q", ErrWebhookDeclared, name)
	}
	return err
}

// RemoveWebhook removes a stored endpoint. Processes stop delivering to it within a few seconds. Unless
// its position is to stay, RemoveWebhook waits until they have, and removes its consumer group, and that
// it is disabled. It reports whether there is no group any more: while a process still delivers, the
// group stays. Dead letters stay. The error is ErrNoWebhook, ErrWebhookDeclared if there is no stored
// endpoint but a declared one, or the ring's.
func (r *Reader) RemoveWebhook(ctx context.Context, name string, stays bool) (forgotten bool, err error) {
	removed, err := endpoint.Of(r.ring).Remove(ctx, name)
	if err != nil {
		return false, err
	}
	declared := r.notDeclared(ctx, name)
	switch {
	case !removed && declared != nil:
		return false, declared
	case !removed:
		return false, fmt.Errorf("%w: %q", ErrNoWebhook, name)
	case stays || declared != nil: // a declared endpoint of the name goes on with the group
		return false, nil
	}
	for end := time.Now().Add(endedWithin); ; {
		err := r.RemoveGroup(ctx, WebhookGroup+name)
		switch {
		case err == nil, errors.Is(err, ErrNoGroup):
			if _, err := r.ring.Endpoints().Enable(ctx, name); err != nil {
				return false, err
			}
			// Wait until no process reports the endpoint, so that whoever looks next does not see it.
			_, err := awaitReports(ctx, document.Of(r.ring).Endpoints(), name, withdrawnWithin, func(reports []document.Report) bool { return len(reports) == 0 })
			return err == nil, err
		case !errors.Is(err, ErrGroupAlive):
			return false, err
		case !time.Now().Before(end):
			return false, nil
		}
		if !pause(ctx, lookAgain) {
			return false, context.Cause(ctx)
		}
	}
}
