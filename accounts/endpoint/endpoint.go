// Package endpoint stores the endpoints that people add while the service runs, beside those that the
// file ROUNDS_WEBHOOKS_FILE declares. It does not know what their fields mean: package
// poller/delivery/sink reads them, in the process that takes an endpoint and again in each process
// that delivers to it.
//
// An endpoint holds no secret, only the names of secrets.
//
// A process of a version without stored endpoints does not know them, and delivers to the declared
// ones alone. An endpoint stays until somebody removes it. Its consumer group is another thing: who
// removes the endpoint says whether the group stays.
package endpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// Most is how many endpoints a namespace may have, besides the declared ones.
	Most = document.MostEndpoints
	// MaxText is the most bytes of an endpoint's fields.
	MaxText = 32 << 10

	maxBy = 128
)

var (
	// ErrFull reports that there are as many endpoints as there may be.
	ErrFull = document.ErrFull
	// ErrChanged reports an endpoint that is not as the caller has seen it.
	ErrChanged = errors.New("endpoint: somebody else has changed or removed it")
	// ErrNone reports that there is no such endpoint.
	ErrNone = errors.New("endpoint: there is none of this name")
)

// Endpoint is a stored endpoint.
type Endpoint struct {
	Name     string          `json:"-"`
	Fields   json.RawMessage `json:"endpoint"`     // an object with its fields, as the file would have them
	Start    string          `json:"start"`        // where its group begins if there is none: a position
	By       string          `json:"by,omitempty"` // the name of the principal that stored it last
	Set      time.Time       `json:"set,omitzero"` // when that was, by Redis' clock
	Revision int64           `json:"-"`            // differs after each change
}

// Endpoints has the stored endpoints of a namespace.
type Endpoints struct{ vault document.Vault }

// Of returns the endpoints of a ring's namespace.
func Of(ring *circulate.Ring) Endpoints { return Endpoints{document.Of(ring).Destinations()} }

// Seen says which state of an endpoint a change is for: a revision, Any, or Absent.
type Seen int64

// What is not the number of a revision.
const (
	Any    Seen = -1 // whatever is there
	Absent Seen = 0  // no endpoint has the name
)

// Put stores an endpoint that is as the caller has seen it. It returns ErrChanged if it is not, and
// ErrFull if there is no room. With Any or Absent, it is safe to repeat.
func (s Endpoints) Put(ctx context.Context, e Endpoint, seen Seen) (Endpoint, error) {
	for len(e.By) > maxBy || !utf8.ValidString(e.By) { // until the longest beginning that may be stored
		e.By = e.By[:min(len(e.By)-1, maxBy)]
	}
	if len(e.Fields) > MaxText {
		return e, fmt.Errorf("endpoint %s: must have at most %d bytes, has %d", e.Name, MaxText, len(e.Fields))
	}
	text, err := json.Marshal(e)
	if err != nil {
		return e, fmt.Errorf("endpoint %s: %w", e.Name, err)
	}
	var stored document.Sealed
	done := true
	switch seen {
	case Any:
		stored, _, err = s.vault.Put(ctx, e.Name, text)
	case Absent:
		stored, done, err = s.vault.Add(ctx, e.Name, text)
	default:
		if done, err = s.vault.Replace(ctx, e.Name, int64(seen), text); done && err == nil {
			stored, _, err = s.vault.Get(ctx, e.Name) // for its revision
		}
	}
	switch {
	case err != nil:
		return e, err
	case !done:
		return e, ErrChanged
	}
	e.Revision = stored.Revision
	return e, nil
}

// Remove removes an endpoint, and reports whether there was one.
func (s Endpoints) Remove(ctx context.Context, name string) (bool, error) {
	return s.vault.Remove(ctx, name)
}

// Get returns an endpoint, or ErrNone.
func (s Endpoints) Get(ctx context.Context, name string) (Endpoint, error) {
	stored, found, err := s.vault.Get(ctx, name)
	switch {
	case err != nil:
		return Endpoint{}, err
	case !found:
		return Endpoint{}, ErrNone
	}
	return read(stored), nil
}

// Revision returns a number that changes with each change of an endpoint.
func (s Endpoints) Revision(ctx context.Context) (int64, error) { return s.vault.Revision(ctx) }

// All returns the endpoints by name. One that cannot be read has no fields.
func (s Endpoints) All(ctx context.Context) ([]Endpoint, error) {
	var all []Endpoint
	for after := ""; len(all) < 2*Most; {
		page, err := s.vault.Page(ctx, after, document.MaxPage)
		if err != nil {
			return nil, err
		}
		for _, stored := range page {
			all = append(all, read(stored))
		}
		if len(page) < document.MaxPage {
			break
		}
		after = page[len(page)-1].Name
	}
	slices.SortFunc(all, func(a, b Endpoint) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// read returns the endpoint of a stored value.
func read(stored document.Sealed) Endpoint {
	var e Endpoint
	if json.Unmarshal(stored.Value, &e) != nil {
		e = Endpoint{}
	}
	e.Start = cmp.Or(e.Start, circulate.StreamStart)
	e.Name, e.Revision = stored.Name, stored.Revision
	return e
}
