package main

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/rounds-dev/rounds/poller"
)

// counter checks accounts that have one new message each time.
type counter struct{}

// Kind returns "counter".
func (counter) Kind() string { return "counter" }

// Validate accepts any config.
func (counter) Validate(json.RawMessage) error { return nil }

// RateKey returns no key, so accounts share no limit.
func (counter) RateKey(json.RawMessage) string { return "" }

// Check returns the next message.
func (counter) Check(_ context.Context, r poller.Request) (poller.Result, error) {
	last, _ := strconv.Atoi(string(r.Cursor)) // none at first
	next := strconv.Itoa(last + 1)
	return poller.Result{Messages: []poller.Message{{ID: next, Data: json.RawMessage(next)}}, Cursor: []byte(next)}, nil
}
