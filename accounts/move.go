package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// Move writes another address into the config of an account, as url, where its third party
// has moved. Config is the one that the account was checked with: the record
// changes only if it still has that one, and in one step. What comes of it is judged
// as any record. It returns ErrNotFound, ErrChanged where somebody changed
// the account meanwhile, and Faults for an address that is not allowed: from
// https no move leads to http.
func (r *Registry) Move(ctx context.Context, id string, config json.RawMessage, to string) error {
	before, err := r.Get(ctx, id)
	if err != nil {
		return err
	}
	if before.Fault != "" || !sameText(before.Config, config) {
		return fmt.Errorf("%w: %q", ErrChanged, id)
	}
	fields, _ := strict.Members(config)
	from, ok := strict.TextIn(fields, "url")
	switch {
	case !ok:
		return Faults{{Field: "config.url", Reason: "is not there, so that it cannot move"}}
	case hasScheme(from, "https") && !hasScheme(to, "https"):
		return Faults{{Field: "config.url", Reason: "must not move from https to http"}}
	}
	patch, err := json.Marshal(map[string]any{"config": map[string]string{"url": to}})
	if err != nil {
		return err
	}
	_, _, err = r.Patch(ctx, id, patch, Match{Tags: []string{before.Tag}})
	return err
}

// sameText reports whether two values are written alike, but for the space in them.
func sameText(a, b json.RawMessage) bool {
	var first, second bytes.Buffer
	return json.Compact(&first, a) == nil && json.Compact(&second, b) == nil && bytes.Equal(first.Bytes(), second.Bytes())
}

func hasScheme(address, scheme string) bool {
	given, _, ok := strings.Cut(address, "://")
	return ok && strings.EqualFold(given, scheme)
}
