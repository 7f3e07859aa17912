package checkertest

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/fetch"
	"github.com/rounds-dev/rounds/testing/upstream"
)

func (s Subject) faults(t *testing.T) {
	u := Upstream(t, upstream.Options{})
	checker := s.New(Client(t, fetch.Options{}))
	url := u.URL(s.Route, "a")
	u.Post("a")
	for _, c := range []struct {
		name  string
		fault upstream.Fault
		kind  poller.ErrorKind
		code  string
		after time.Duration
	}{
		{"garbage", upstream.Fault{Garbage: true}, poller.Protocol, "", 0},
		{"429", upstream.Fault{Status: 429, RetryAfter: "7"}, poller.RateLimited, "http_429", 7 * time.Second},
		{"429 without a time", upstream.Fault{Status: 429}, poller.RateLimited, "http_429", 0},
		{"503", upstream.Fault{Status: 503, RetryAfter: "999999"}, poller.Transient, "http_503", 24 * time.Hour},
		{"500", upstream.Fault{Status: 500}, poller.Transient, "http_500", 0},
		{"502", upstream.Fault{Status: 502}, poller.Transient, "http_502", 0},
		{"410", upstream.Fault{Status: 410}, poller.Gone, "http_410", 0},
		{"404", upstream.Fault{Status: 404}, poller.Transient, "http_404", 0},
		{"403", upstream.Fault{Status: 403}, poller.Transient, "http_403", 0},
		{"400", upstream.Fault{Status: 400}, poller.Transient, "http_400", 0},
		{"302 to nowhere", upstream.Fault{Status: 302}, poller.Transient, "http_302", 0},
	} {
		u.Fail("a", c.fault)
		_, err := checker.Check(t.Context(), s.request(url, nil))
		got := Failure(t, err)
		if got.Kind != c.kind || c.code != "" && got.Code != c.code || got.RetryAfter != c.after {
			t.Errorf("%s: got %v, retry after %v", c.name, got, got.RetryAfter)
		}
	}

	u.Fail("a", upstream.Fault{Hang: true})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := checker.Check(ctx, s.request(url, nil))
	if got := Failure(t, err); got.Kind != poller.Transient || got.Code != "timeout" {
		t.Errorf("hang: got %v", got)
	}
	u.Fail("a", upstream.Fault{Status: 204})
	result, err := checker.Check(t.Context(), s.request(url, nil))
	if err != nil || len(result.Messages) != 0 || result.HasMore || result.Cursor != nil {
		t.Errorf("204: got %+v, %v", result, err)
	}
	u.Heal("a")
	if ids, _ := s.drain(t, checker, url, nil); len(ids) != 1 {
		t.Errorf("healed: got %v", ids)
	}
}

func (s Subject) manyAtOnce(t *testing.T) {
	const accounts = 50
	u := Upstream(t, upstream.Options{})
	checker := s.New(Client(t, fetch.Options{}))
	var group sync.WaitGroup
	for n := range accounts {
		group.Go(func() {
			id := strconv.Itoa(n)
			u.PostN(id, n)
			if ids, _ := s.drain(t, checker, u.URL(s.Route, id), nil); len(ids) != n {
				t.Errorf("account %s: got %d messages", id, len(ids))
			}
		})
	}
	group.Wait()
}
