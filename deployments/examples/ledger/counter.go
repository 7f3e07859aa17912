package main

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/rounds-dev/rounds/poller"
)

// counter checks accounts that have one new message each time.
type counter struct{}

// Kind is the accounts'.
func (counter) Kind() string { return "counter" }

// Validate finds nothing wrong.
func (counter) Validate(json.RawMessage) error { return nil }

// RateKey shares no limit with anybody.
func (counter) RateKey(json.RawMessage) string { return "" }

// Check finds the message after the last one found.
func (counter) Check(_ context.Context, r poller.Request) (poller.Result, error) {
	last, _ := strconv.Atoi(string(r.Cursor)) // none at first
	next := strconv.Itoa(last + 1)
	return poller.Result{Messages: []poller.Message{{ID: next, Data: json.RawMessage(next)}}, Cursor: []byte(next)}, nil
}
