// Package checkertest is the suite that every checker over HTTP must pass.
package checkertest

import (
	"encoding/json"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/fetch"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// Subject is a checker under test.
type Subject struct {
	// New makes a checker that calls through client.
	New func(client *fetch.Client) poller.Checker
	// Config is a valid config for a URL.
	Config func(url string) json.RawMessage
	// Route is where upstream.Upstream serves what the checker reads.
	Route string
	// Secret is a value that New's checker sends along; empty: none.
	Secret string
}

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	t.Run("each message once", s.eachMessageOnce)
	t.Run("faults", s.faults)
	t.Run("broken cursor", s.brokenCursor)
	t.Run("many at once", s.manyAtOnce)
	t.Run("private addresses", s.privateAddresses)
	t.Run("no secret is told", s.noSecretIsTold)
	t.Run("no secret is told by Validate", s.noSecretIsToldByValidate)
}

// Client makes a client that reaches 127.0.0.1 and nothing else that is private.
func Client(t *testing.T, options fetch.Options) *fetch.Client {
	t.Helper()
	options.Allow = append(options.Allow, netip.MustParsePrefix("127.0.0.1/32"))
	client := fetch.New(options)
	t.Cleanup(client.Close)
	return client
}

// Upstream starts a fake third party.
func Upstream(t *testing.T, options upstream.Options) *upstream.Upstream {
	t.Helper()
	u, stop, err := upstream.Serve(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return u
}

// Failure gives the *poller.CheckError that an error must be.
func Failure(t *testing.T, err error) *poller.CheckError {
	t.Helper()
	var failed *poller.CheckError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v, want a *poller.CheckError", err)
	}
	return failed
}

func (s Subject) request(url string, cursor []byte) poller.Request {
	return poller.Request{Account: "a", CheckID: "c1", Config: s.Config(url), Cursor: cursor, Limit: 7, Attempt: 1}
}

// drain checks until there is no more, and gives the ids and the cursor.
func (s Subject) drain(t *testing.T, checker poller.Checker, url string, cursor []byte) ([]string, []byte) {
	t.Helper()
	var ids []string
	for range 100 {
		r := s.request(url, cursor)
		result, err := checker.Check(t.Context(), r)
		if err != nil {
			t.Error(err)
			return nil, nil
		}
		if len(result.Messages) > r.Limit {
			t.Errorf("%d messages, over the limit of %d", len(result.Messages), r.Limit)
		}
		for _, m := range result.Messages {
			ids = append(ids, m.ID)
			if m.Time.IsZero() || time.Since(m.Time) > time.Hour || !json.Valid(m.Data) {
				t.Errorf("%s: time %v, data %s", m.ID, m.Time, m.Data)
			}
		}
		if result.Cursor != nil {
			cursor = result.Cursor
		}
		if !result.HasMore {
			return ids, cursor
		}
	}
	t.Error("no end after 100 pages")
	return nil, nil
}

func (s Subject) eachMessageOnce(t *testing.T) {
	u := Upstream(t, upstream.Options{})
	checker := s.New(Client(t, fetch.Options{}))
	var cursor []byte
	var ids []string
	next := 1
	for _, n := range []int{0, 25, 0, 7, 8, 1, 0} {
		u.PostN("a", n)
		ids, cursor = s.drain(t, checker, u.URL(s.Route, "a"), cursor)
		if len(ids) != n {
			t.Errorf("after %d were posted: got %v", n, ids)
		}
		for _, id := range ids {
			if want := upstream.MessageID("a", next); id != want {
				t.Fatalf("got %s, want %s", id, want)
			}
			next++
		}
	}
	if overlaps := u.Stats("a").Overlaps; overlaps != 0 {
		t.Errorf("%d checks overlapped", overlaps)
	}
}

func (s Subject) brokenCursor(t *testing.T) {
	u := Upstream(t, upstream.Options{})
	checker := s.New(Client(t, fetch.Options{}))
	_, err := checker.Check(t.Context(), s.request(u.URL(s.Route, "a"), []byte("\x00{")))
	if got := Failure(t, err); got.Kind != poller.CursorInvalid {
		t.Errorf("got %v", got)
	}
}
