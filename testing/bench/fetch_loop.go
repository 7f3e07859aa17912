package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/connector"
	"github.com/rounds-dev/rounds/poller/checkers/feed"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// fetchWorkers is how many calls the loop makes at once: more do not make it faster.
const fetchWorkers = 64

// fetchLoop makes the replica's calls in a loop over net/http: it has no queue, no time-outs, no
// limits, and judges no address. It reads what comes with the replica's parsers.
type fetchLoop struct {
	port, hosts, accounts int

	client   http.Client
	checkers poller.Checkers
	next     atomic.Int64
	cursor   []byte   // of a feed, after its first check
	etags    []string // by account
}

// fetchLoopServe is the loop, until its input ends.
func fetchLoopServe(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	l := &fetchLoop{client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: fetchWorkers}}}
	flags := flag.NewFlagSet("fetchloop", flag.ContinueOnError)
	flags.String("redis", "", "not used")
	flags.String("authority", "", "not used")
	profile := flags.String("profile", "", "as of fetchserve")
	flags.IntVar(&l.port, "port", 0, "of the fake")
	flags.IntVar(&l.hosts, "hosts", 0, "of the accounts")
	flags.IntVar(&l.accounts, "accounts", 0, "how many there are")
	if err := flags.Parse(args); err != nil {
		return err
	}
	answered := fetch.New(fetch.Options{Transport: answered{}})
	var err error
	if l.checkers, err = poller.NewCheckers(feed.New(answered, secrets.Source{}), connector.New(answered, secrets.Source{})); err != nil {
		return err
	}
	l.etags = make([]string, l.accounts)
	for i := range l.etags {
		l.etags[i] = `"0"`
	}
	first, err := l.parse(ctx, 0, &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}, []byte(fetchFeed()))
	if err != nil {
		return err
	}
	l.cursor = first.Cursor
	return answering(in, out, *profile, func(what string, n int) (any, error) {
		if what != "call" {
			return nil, fmt.Errorf("fetchloop: %q", what)
		}
		return l.calls(ctx, n)
	})
}

// calls makes so many calls, and returns what they used.
func (l *fetchLoop) calls(ctx context.Context, n int) (used fetchUsed, err error) {
	before, err := fetchUsage()
	if err != nil {
		return used, err
	}
	began := time.Now()
	var left atomic.Int64
	left.Store(int64(n))
	var workers sync.WaitGroup
	errs := make([]error, fetchWorkers)
	for w := range errs {
		workers.Go(func() {
			for left.Add(-1) >= 0 && errs[w] == nil {
				errs[w] = l.call(ctx, int(l.next.Add(1)-1)%l.accounts)
			}
		})
	}
	workers.Wait()
	used.Seconds = time.Since(began).Seconds()
	after, err := fetchUsage()
	used.CPU, used.Mallocs = after.CPU-before.CPU, after.Mallocs-before.Mallocs
	return used, errors.Join(append(errs, err)...)
}

// loopRequest is what a connector is asked.
type loopRequest struct {
	Version int            `json:"version"`
	CheckID string         `json:"check_id"`
	Account map[string]any `json:"account"`
	Limit   int            `json:"limit"`
	Attempt int            `json:"attempt"`
}

// call makes one call for an account.
func (l *fetchLoop) call(ctx context.Context, i int) error {
	request, err := l.request(ctx, i)
	if err != nil {
		return err
	}
	answer, err := l.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	switch answer.StatusCode {
	case http.StatusNotModified, http.StatusNoContent:
		return nil
	case http.StatusOK:
		_, err := l.parse(ctx, i, answer, body)
		if etag := answer.Header.Get("ETag"); etag != "" {
			l.etags[i] = etag
		}
		return err
	}
	return errors.New(answer.Status)
}

func (l *fetchLoop) request(ctx context.Context, i int) (*http.Request, error) {
	url := fetchURL(l.port, i, l.hosts)
	if isFeed(i) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err == nil {
			request.Header.Set("Accept", "application/rss+xml")
			request.Header.Set("If-None-Match", l.etags[i])
		}
		return request, err
	}
	id := fetchID(i)
	body, err := json.Marshal(loopRequest{1, strconv.Itoa(i), map[string]any{"id": id, "config": map[string]string{"url": url}}, 200, 1})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err == nil {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json")
	}
	return request, err
}

// parse has a checker read an answer that is here already.
func (l *fetchLoop) parse(ctx context.Context, i int, answer *http.Response, body []byte) (poller.Result, error) {
	kind, cursor := "feed", l.cursor
	if !isFeed(i) {
		kind, cursor = "http", nil
	}
	come := &http.Response{StatusCode: answer.StatusCode, Header: answer.Header, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}
	return l.checkers[kind].Check(context.WithValue(ctx, answeredKey{}, come), poller.Request{
		Account: fetchID(i), CheckID: "1", Config: json.RawMessage(`{"url":"https://example.com/"}`), Cursor: cursor, Limit: 200, Attempt: 1,
	})
}

type answeredKey struct{}

// answered is a transport whose answer stands in the request's context.
type answered struct{}

// RoundTrip implements http.RoundTripper.
func (answered) RoundTrip(r *http.Request) (*http.Response, error) {
	come, ok := r.Context().Value(answeredKey{}).(*http.Response)
	if !ok {
		return nil, errors.New("no answer")
	}
	return come, nil
}
