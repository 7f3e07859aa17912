package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func (f *fixture) add(ids ...string) {
	f.Helper()
	var text strings.Builder
	for i, id := range ids {
		fmt.Fprintf(&text, "{\"id\":%q,\"kind\":\"plain\",\"labels\":{\"n\":\"%d\"}}\n", id, i)
	}
	if got := f.do(f.request("POST", "/v1/accounts:import", text.String())); !strings.Contains(got.body, fmt.Sprintf(`"created":%d,`, len(ids))) {
		f.Fatal(got.body)
	}
}

func TestBulk(t *testing.T) {
	f := newFixture(t, nil)
	f.add("a-1", "a-2", "b-1", "b/ü")
	for _, c := range []struct{ method, path, want string }{
		{"POST", "/v1/accounts:pause?prefix=a-&dry_run=true", `{"summary":{"seen":4,"matched":2,"changed":2,"unchanged":0,"failed":0,"unknown":0}}`},
		{"POST", "/v1/accounts:pause?prefix=a-&label=n%3D1", `{"summary":{"seen":4,"matched":1,"changed":1,"unchanged":0,"failed":0,"unknown":0}}`},
		{"POST", "/v1/accounts:pause?prefix=a-&prefix=b%2F%C3%BC&kind=plain", `{"summary":{"seen":4,"matched":3,"changed":2,"unchanged":1,"failed":0,"unknown":0},"reasons":[{"reason":"paused","count":1,"examples":["a-2"]}]}`},
		{"POST", "/v1/accounts:resume?all=true", `{"summary":{"seen":4,"matched":4,"changed":3,"unchanged":1,"failed":0,"unknown":0},"reasons":[{"reason":"active","count":1,"examples":["b-1"]}]}`},
		{"POST", "/v1/accounts:nudge?id=a-1&id=b%2F%C3%BC&rate=0.5", `{"summary":{"seen":2,"matched":2,"changed":2,"unchanged":0,"failed":0,"unknown":0}}`},
		{"POST", "/v1/accounts:delete?state=active&label=n%3D0", `{"summary":{"seen":4,"matched":1,"changed":1,"unchanged":0,"failed":0,"unknown":0}}`},
	} {
		got := f.do(f.request(c.method, c.path, ""))
		lines := strings.Split(strings.TrimSpace(got.body), "\n")
		if got.status != 200 || got.header.Get("Content-Type") != "application/x-ndjson" || lines[len(lines)-1] != c.want {
			t.Errorf("%s: %d %s, want %s", c.path, got.status, got.body, c.want)
		}
	}
	if list := f.listed("prefix=a-&prefix=b%2F&state=active&state=parked&kind=plain"); len(list) != 2 {
		t.Errorf("listed: %+v", list)
	}
	var list AccountList
	f.call("GET", "/v1/accounts?id=a-2&id=none", "", 200, &list)
	if len(list.Accounts) != 1 || list.Accounts[0].ID != "a-2" {
		t.Errorf("listed by ids: %+v", list)
	}
	for query, want := range map[string]AccountCount{"": {Count: 3, Complete: true}, "?id=a-2&kind=plain": {Count: 1, Complete: true}} {
		var count AccountCount
		if f.call("GET", "/v1/accounts:count"+query, "", 200, &count); count != want {
			t.Errorf("%s: counted %+v", query, count)
		}
	}
	if got := f.do(f.request("GET", "/v1/accounts:export?label=n%3D1", "")); got.status != 200 || !strings.HasPrefix(got.body, `{"id":"a-2"`) || strings.Count(got.body, "\n") != 1 {
		t.Errorf("exported: %d %s", got.status, got.body)
	}
}

func TestBulkIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	f.add("a")
	for _, c := range []struct {
		method, path, body string
		want               []string
	}{
		{"POST", "/v1/accounts:delete", "", []string{`"query.all"`}},
		{"POST", "/v1/accounts:delete?all=false", "", []string{`"query.all"`}},
		{"POST", "/v1/accounts:pause?all=true&kind=a", "", []string{`"query.all"`}},
		{"POST", "/v1/accounts:delete?all=true", `{"kind":"web"}`, []string{`"query"`, "takes no body"}},
		{"POST", "/v1/accounts:delete?all=yes&dry_run=maybe&knd=x&label=l&state=on", "", []string{`"query.all"`, `"query.dry_run"`, `"query.knd"`, `"query.label"`, `"query.state"`}},
		{"POST", "/v1/accounts:delete?all=true&all=true", "", []string{`"query.all"`, "once"}},
		{"POST", "/v1/accounts:pause?all=true&rate=1", "", []string{`"query.rate"`}},
		{"POST", "/v1/accounts:nudge?all=true&rate=0", "", []string{`"query.rate"`}},
		{"POST", "/v1/accounts:nudge?all=true&rate=1e9", "", []string{`"query.rate"`}},
		{"GET", "/v1/accounts:count?state=on", "", []string{`query.state`}},
		{"GET", "/v1/accounts:count?kind=x&looks=999", "", []string{`query.looks`}},
		{"POST", "/v1/accounts:delete?a%zz", "", []string{`"query"`}},
		{"GET", "/v1/accounts:export?state=on&x=1", "", []string{`"query.state"`, `"query.x"`}},
		{"GET", "/v1/accounts?state=on", "", []string{`query.state`}},
		{"GET", "/v1/accounts?label=l", "", []string{`"query.label"`}},
	} {
		got := f.do(f.request(c.method, c.path, c.body))
		if got.status != 422 || got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", c.path, got.status, got.body)
		}
		for _, want := range c.want {
			if !strings.Contains(got.body, want) {
				t.Errorf("%s: no %s in %s", c.path, want, got.body)
			}
		}
	}
	f.call("GET", "/v1/accounts/a", "", 200, nil)
}

// interrupting is a server that calls do once, before it lends a certain connection.
type interrupting struct {
	circulate.Server
	left atomic.Int64
	do   func(context.Context)
}

func (s *interrupting) Conn(ctx context.Context, key string) (redis.Conn, error) {
	if s.left.Add(-1) == 0 {
		s.do(ctx)
	}
	return s.Server.Conn(ctx, key)
}

func TestBulkStops(t *testing.T) {
	f := newFixture(t, nil)
	f.add("a")
	f.redis.Miniredis().SetError("OOM secret")
	if got := f.do(f.request("POST", "/v1/accounts:delete?all=true", "")); got.status != 503 || strings.Contains(got.body, "secret") {
		t.Errorf("redis refuses: %d %s", got.status, got.body)
	}

	// If the reply has begun, its last line has the error.
	const changing = "the number of shards is changing: try again"
	for _, want := range []string{atItsLimit, "the server is shutting down", changing} {
		redis := redistest.Embedded(t)
		server := &interrupting{Server: redis}
		f := newFixture(t, func(o *Options) {
			ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 1})
			if err != nil {
				t.Fatal(err)
			}
			o.Ring, o.Registry = ring, accounts.NewRegistry(ring, testKinds{})
		})
		f.add("a", "b")
		server.do = func(ctx context.Context) {
			if want == changing {
				f.api.Replaced()
			} else {
				f.api.Close()
			}
			<-ctx.Done()
		}
		if strings.HasPrefix(want, "Redis") {
			server.do = func(context.Context) { redis.Miniredis().SetError("OOM secret") }
		}
		server.left.Store(4) // before the step that deletes: the time, the ids and the look come first
		got := f.do(f.request("POST", "/v1/accounts:delete?all=true", ""))
		wanted := `{"error":"delete stopped; repeating it is safe: ` + want + `","summary":{"seen":2,"matched":2,"changed":0,"unchanged":0,"failed":2,"unknown":0}}`
		if got.status != 200 || !strings.HasSuffix(got.body, wanted+"\n") {
			t.Errorf("%d %s, want %s", got.status, got.body, wanted)
		}
	}
}

// Progress is reported while the action runs.
func TestBulkTellsHowFarItIs(t *testing.T) {
	server := &interrupting{Server: redistest.Embedded(t)}
	f := newFixture(t, func(o *Options) {
		ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		o.Ring, o.Registry = ring, accounts.NewRegistry(ring, testKinds{})
	})
	f.add("a", "b")
	told := make(chan struct{})
	server.do = func(context.Context) { <-told }
	server.left.Store(4) // before the step that deletes
	response, err := f.server.Client().Do(f.request("POST", "/v1/accounts:delete?all=true", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	l := jsonLines{t, bufio.NewScanner(response.Body)}
	var line BulkLine
	l.next(&line)
	close(told)
	if line.Progress == nil || line.Summary != nil || line.Error != "" {
		t.Errorf("first line: %+v", line)
	}
	for line.Summary == nil {
		line = BulkLine{}
		l.next(&line)
	}
	l.end()
	if line.Summary.Changed != 2 || line.Error != "" {
		t.Errorf("last line: %+v %+v", line, line.Summary)
	}
}

// When a caller goes away, its action ends.
func TestBulkEndsWithItsCaller(t *testing.T) {
	server := &interrupting{Server: redistest.Embedded(t)}
	var ring *circulate.Ring
	f := newFixture(t, func(o *Options) {
		var err error
		if ring, err = circulate.Open(t.Context(), server, circulate.Options{Shards: 1}); err != nil {
			t.Fatal(err)
		}
		o.Ring, o.Registry = ring, accounts.NewRegistry(ring, testKinds{})
	})
	f.add("a", "b")
	ctx, cancel := context.WithCancel(t.Context())
	server.do = func(ctx context.Context) {
		cancel()
		<-ctx.Done() // until the server notices
	}
	server.left.Store(4)
	response, err := f.server.Client().Do(f.request("POST", "/v1/accounts:delete?all=true", "").WithContext(ctx))
	if err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	f.server.Close() // waits for the request
	if n, err := ring.Count(t.Context(), 0); err != nil || n.Registered != 2 {
		t.Errorf("%+v, %v", n, err)
	}
	if f.logs.Len() > 0 {
		t.Error(f.logs)
	}
}

// listed returns the accounts of all pages. A page ends after a while of looking, whatever it has found.
func (f *fixture) listed(query string) (all []Account) {
	f.Helper()
	for cursor := ""; ; {
		var page AccountList
		f.call("GET", "/v1/accounts?"+query+"&cursor="+url.QueryEscape(cursor), "", 200, &page)
		all = append(all, page.Accounts...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}
