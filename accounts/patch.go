package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// decodePatch returns the fields of a merge patch, or everything that is wrong with it as
// Faults. Merging would not notice an unknown field whose value is null.
func decodePatch(id string, patch []byte) (map[string]json.RawMessage, error) {
	fields, err := strict.Object(patch)
	if fields == nil {
		return nil, err
	}
	var faults Faults
	errors.As(err, &faults)
	faults = append(faults, recordDecoder.Unknown(fields)...)
	if value, named := fields["id"]; named {
		if same, ok := strict.Text(value); !ok || same != id {
			faults.Add("id", "must be the id in the address, or be left out: an id cannot change")
		}
	}
	if value, named := fields["kind"]; named && strict.IsNull(value) {
		faults.Add("kind", "cannot be removed")
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return fields, nil
}

// mergeRecord returns a record with a patch merged into it.
func mergeRecord(record []byte, patch map[string]json.RawMessage) ([]byte, error) {
	fields, err := strict.Stored(record)
	if err != nil {
		return nil, Faults{{Field: "id", Reason: "has a record that cannot be read, so a part of it cannot change; PUT replaces it"}}
	}
	return merge(fields, patch)
}

// merge merges two objects as RFC 7396 says. A value that does not change retains its
// bytes.
func merge(target, patch map[string]json.RawMessage) ([]byte, error) {
	merged := maps.Clone(target)
	if merged == nil {
		merged = make(map[string]json.RawMessage)
	}
	for name, value := range patch {
		inner, isObject := strict.Members(value)
		switch {
		case strict.IsNull(value):
			delete(merged, name)
		case isObject:
			into, _ := strict.Members(merged[name]) // nil if it is not an object: it is replaced
			text, err := merge(into, inner)
			if err != nil {
				return nil, err
			}
			merged[name] = text
		default:
			merged[name] = value
		}
	}
	return encodeJSON(merged)
}

// Move writes a new address into the field url of an account's config, after its third
// party moved. Config is the config of the check that found the move. In one step, the
// record changes only if it still has that config, and the result is judged like any
// record. Move returns ErrNotFound, ErrChanged if somebody changed the account meanwhile,
// and Faults for an address that is not allowed. A move from https to http is not
// allowed.
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
		return Faults{{Field: "config.url", Reason: "is missing, so it cannot move"}}
	case hasScheme(from, "https") && !hasScheme(to, "https"):
		return Faults{{Field: "config.url", Reason: "must not move from https to http"}}
	}
	patch, err := json.Marshal(map[string]any{"config": map[string]string{"url": to}})
	if err != nil {
		return err
	}
	_, _, err = r.patch(ctx, id, patch, Save{Match: Match{Tags: []string{before.Tag}}, moved: withoutQuery(to)})
	return err
}

// withoutQuery returns an address without the parts that may be secret: name and
// password, query and fragment. It returns "" for an unreadable address.
func withoutQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	return u.String()
}

// sameText reports whether two values are the same text, apart from white space.
func sameText(a, b json.RawMessage) bool {
	var first, second bytes.Buffer
	return json.Compact(&first, a) == nil && json.Compact(&second, b) == nil && bytes.Equal(first.Bytes(), second.Bytes())
}

func hasScheme(address, scheme string) bool {
	given, _, ok := strings.Cut(address, "://")
	return ok && strings.EqualFold(given, scheme)
}
