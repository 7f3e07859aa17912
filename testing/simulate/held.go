package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/census"
)

const (
	// holdOf is how long calls are held: far longer than a check may usually take.
	holdOf = 100 * time.Second
	// renewedBy is the longest that a claim is not renewed while a call is held.
	renewedBy = 165 * time.Second
	// usualEnd is what may come between two calls.
	usualEnd = 10 * time.Second
)

// Hold says how long the upstream holds the calls of an account.
func (checker) Hold(config json.RawMessage) time.Duration {
	var s settings
	_ = json.Unmarshal(config, &s) // it was validated
	return time.Duration(s.Hold * float64(time.Second))
}

// holdsOf reports whether the calls of an account are held.
func holdsOf(a *accounts.Account) bool { return checker{}.Hold(a.Config) > 0 }

// hold holds a call until messages come or the hold has passed. One in ten of the latter ends as a
// gateway ends it.
func (u *upstream) hold(ctx context.Context, r poller.Request, s settings, chance func(uint64) float64) (poller.Result, error) {
	comes := time.Duration(1.5 * chance(3) * float64(r.Hold))
	if err := wait(ctx, min(comes, r.Hold)); err != nil {
		return poller.Result{}, err
	}
	switch {
	case comes < r.Hold:
		return u.found(r, s, 1+int(3*chance(4)), false)
	case chance(5) < 0.1:
		u.set(func() { u.last[r.Account] = time.Now() }) // this is no failure
		return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Code: "http_524", Message: "as a gateway says it"}
	}
	return poller.Result{}, nil
}

// calls returns how many calls of an account are under way.
func (u *upstream) calls(account string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.running[account])
}

// isHeld checks that a call of an account whose calls are held is under way.
func (o *oracle) isHeld(a *census.Account) {
	if o.up.calls(a.ID) > 0 {
		return
	}
	o.up.mu.Lock()
	last := o.up.last[a.ID]
	o.up.mu.Unlock()
	if since := time.Since(last); since > usualEnd && !o.reg.touchedSince(a.ID, time.Now().Add(-usualEnd)) {
		o.violated("I6: no call of %q is under way, the last ended %v ago; it is in %v: %s", a.ID, since, a.Places, o.reg.why(a.ID))
	}
}

// why returns why an account is where it is.
func (r *registrar) why(id string) string {
	e, err := r.registry.Explain(context.Background(), id)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s (%v)", e.Why, e.Marks)
}
