package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// Most tests send one call after another, which takes four times as long with the race detector. It
// watches those in which something happens at once.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(processes.Watched(m, "TestCountsAreShared", "TestReadinessAsksAFewTimesASecond", "TestJobs", "TestBulkEndsWithItsCaller", "TestBulkStops",
		"TestFollow", "TestFollowMany", "TestFollowEnds", "TestFollowersAreLimited", "TestWhatLastsEndsWithItsKey", "TestATrialThatIsOneTooMany",
		"TestSessionsEndWithWhatTheyWereBegunWith", "TestABodyThatBreaksOff", "TestLookingIsBounded", "TestSightIsBounded", "TestReload", "TestUpdate",
		"TestUploadsAreBound", "TestImportStops", "TestPagesOfASilentRedis", "TestAnOutageSilencesNobody", "TestSearchStreams"))
}

// testKinds knows "plain", which accepts any config, and "web", which needs a url.
type testKinds struct{}

func (testKinds) Validate(kind string, config json.RawMessage) error {
	switch kind {
	case "plain":
		return nil
	case "web":
		var c struct{ URL string }
		if _ = json.Unmarshal(config, &c); c.URL == "" {
			return accounts.Fault{Field: "config.url", Reason: "must not be empty"}
		}
		return nil
	}
	return accounts.Fault{Field: "kind", Reason: "is not known"}
}

// judgeInTests takes every endpoint with a URL.
func judgeInTests(fields []byte) (JudgedEndpoint, error) {
	var e struct {
		URL     string
		Secrets []struct{ Secret string }
	}
	if json.Unmarshal(fields, &e) != nil || e.URL == "" {
		return JudgedEndpoint{}, accounts.Faults{{Field: "url", Reason: "missing"}}
	}
	judged := JudgedEndpoint{Type: "webhook", Hosts: []string{"crm.example:443"}}
	for i, s := range e.Secrets {
		judged.Secrets = append(judged.Secrets, EndpointSecret{Field: fmt.Sprintf("secrets[%d]", i), Name: s.Secret})
	}
	return judged, nil
}

// fixture is a server on an embedded Redis, with what tests need to call it.
type fixture struct {
	*testing.T
	redis  *connect.Embedded
	ring   *circulate.Ring
	api    *Server
	server *httptest.Server
	logs   *bytes.Buffer
	token  string
}

func newFixture(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	f := &fixture{T: t, redis: redistest.Embedded(t), logs: new(bytes.Buffer)}
	var err error
	if f.ring, err = circulate.Open(context.Background(), f.redis, circulate.Options{Shards: 4, Timeline: func() int { return 4000 }}); err != nil {
		t.Fatal(err)
	}
	o := Options{
		Ring: f.ring, Registry: accounts.NewRegistry(f.ring, testKinds{}),
		Log: slog.New(slog.NewTextHandler(f.logs, nil)), PollInterval: time.Millisecond,
		EndpointTypes: []EndpointType{{Kind: strict.Kind{Name: "webhook"}, Keyed: true, Default: true}},
		JudgeEndpoint: judgeInTests,
		Metrics:       http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "rounds_up 1\n") }),
	}
	if change != nil {
		change(&o)
	}
	if o.Trail == nil {
		// The trail's own log is discarded, because tests check what the server logs.
		if o.Trail, err = trail.New(f.ring, trail.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	f.token = o.Token
	if f.api, err = New(o); err != nil {
		t.Fatal(err)
	}
	f.server = httptest.NewServer(f.api)
	t.Cleanup(func() {
		f.api.Close()
		f.server.Close()
	})
	return f
}

func (f *fixture) request(method, path, body string) *http.Request {
	f.Helper()
	r, err := http.NewRequest(method, f.server.URL+path, strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	if f.token != "" {
		r.Header.Set("Authorization", "Bearer "+f.token)
	}
	return r
}

type reply struct {
	status int
	header http.Header
	body   string
}

func (f *fixture) do(r *http.Request) reply {
	f.Helper()
	response, err := f.server.Client().Do(r)
	if err != nil {
		f.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		f.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(body)}
}

// call makes a request, expects a status, and reads the reply into v.
func (f *fixture) call(method, path, body string, status int, v any) reply {
	f.Helper()
	got := f.do(f.request(method, path, body))
	if got.status != status {
		f.Fatalf("%s %s: %d, want %d: %s", method, path, got.status, status, got.body)
	}
	wantType := "application/json"
	if status >= 400 {
		wantType = "application/problem+json"
	}
	if t := got.header.Get("Content-Type"); status != http.StatusNoContent && t != wantType {
		f.Errorf("%s %s: Content-Type %q", method, path, t)
	}
	if v != nil {
		if err := json.Unmarshal([]byte(got.body), v); err != nil {
			f.Fatalf("%s %s: %v: %s", method, path, err, got.body)
		}
	}
	return got
}

// problemBody is a problem as a caller reads it.
type problemBody struct {
	Title, Detail string
	Status        int
	Errors        []struct{ Location, Message string }
}

func (p *problemBody) locations() []string {
	var all []string
	for _, e := range p.Errors {
		all = append(all, e.Location)
	}
	return all
}

func TestAccounts(t *testing.T) {
	f := newFixture(t, nil)
	var a Account
	got := f.call("POST", "/v1/accounts", `{"id":"a","kind":"web","config":{"url":"x?a&b"},"cadence":"every 5m","priority":"urgent","labels":{"team":"red"}}`, 201, &a)
	if l := got.header.Get("Location"); l != "/v1/accounts/a" {
		t.Errorf("Location %q", l)
	}
	if a.ID != "a" || a.Kind != "web" || string(a.Config) != `{"url":"x?a&b"}` || a.Cadence != "every 5m" || a.Labels["team"] != "red" || a.Priority != "urgent" || a.State.Place != circulate.Scheduled || a.State.Due.IsZero() {
		t.Errorf("created: %s", got.body)
	}
	for _, absent := range []string{"since", "replica", "reason", "failures", "strikes", "fault", "$schema"} {
		if strings.Contains(got.body, absent) {
			t.Errorf("%s stands in %s", absent, got.body)
		}
	}
	if got := f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 409, nil); !strings.Contains(got.body, `an account already has the id \"a\"`) {
		t.Errorf("twice: %s", got.body)
	}
	f.call("GET", "/v1/accounts/a", "", 200, &a)
	f.call("PUT", "/v1/accounts/a", `{"kind":"plain"}`, 200, &a)
	if a.Kind != "plain" {
		t.Errorf("changed: %+v", a)
	}
	f.call("PUT", "/v1/accounts/b", `{"id":"b","kind":"plain"}`, 201, nil)

	f.call("POST", "/v1/accounts/a/pause", "", 200, &a)
	if a.State.Place != circulate.Parked || a.State.Reason != "paused" || a.State.Since.IsZero() {
		t.Errorf("paused: %+v", a.State)
	}
	f.call("POST", "/v1/accounts/a/nudge", "", 409, nil)
	a = Account{}
	f.call("POST", "/v1/accounts/a/resume", "", 200, &a)
	if a.State.Place != circulate.Scheduled || a.State.Reason != "" {
		t.Errorf("resumed: %+v", a.State)
	}
	f.call("POST", "/v1/accounts/a/nudge", `{"within":"1s","hint":{"token":"t"},"lives":"1m"}`, 200, &a)
	f.call("POST", "/v1/accounts/a/nudge", "", 200, &a)

	if got := f.call("DELETE", "/v1/accounts/a", "", 204, nil); got.body != "" {
		t.Errorf("deleted: %q", got.body)
	}
	for _, r := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/pause"}, {"POST", "/resume"}, {"POST", "/nudge"}} {
		f.call(r[0], "/v1/accounts/a"+r[1], "", 404, nil)
	}
	if f.logs.Len() > 0 {
		t.Errorf("callers' mistakes were logged: %s", f.logs)
	}
}

func TestIDsInPaths(t *testing.T) {
	f := newFixture(t, nil)
	for _, id := range []string{"a/b", "/", "a//b/", " ", "a b", "é世界🙂", ".", "..", "../x", "%2F", "a%", "a?b=c#d", "a+b", "a;b", ":import", "accounts:export", strings.Repeat("x", 256)} {
		record, err := json.Marshal(Record{ID: id, Kind: "plain"})
		if err != nil {
			t.Fatal(err)
		}
		got := f.call("POST", "/v1/accounts", string(record), 201, nil)
		path := got.header.Get("Location")
		var a Account
		f.call("GET", path, "", 200, &a)
		if a.ID != id {
			t.Errorf("%q is %q at %s", id, a.ID, path)
		}
		f.call("PUT", path, `{"kind":"plain","cadence":"every 2m"}`, 200, &a)
		f.call("POST", path+"/pause", "", 200, &a)
		f.call("DELETE", path, "", 204, nil)
	}
}

func TestFaults(t *testing.T) {
	f := newFixture(t, nil)
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 201, nil)
	long := `{"id":"a","kind":"plain","labels":{"a":"` + strings.Repeat("x", accounts.MaxRecord) + `"}}`
	for _, tt := range []struct {
		method, path, body string
		status             int
		locations          []string
	}{
		{"POST", "/v1/accounts", `{"kind":"web","cadence":"never","colour":"red","Id":"b"}`, 422, []string{"body.Id", "body.colour", "body.id", "body.cadence", "body.config.url"}},
		{"POST", "/v1/accounts", `{"id":7,"kind":"plain"}`, 422, []string{"body.id"}},
		{"POST", "/v1/accounts", `{"id":"x","kind":"x"}`, 422, []string{"body.kind"}},
		{"POST", "/v1/accounts", `{"id":"x","kind":"plain","priority":"high","cadence":"at 2001-01-01T00:00:00Z"}`, 422, []string{"body.priority", "body.cadence"}},
		{"PUT", "/v1/accounts/x", `{"kind":"web","cadence":"at 2001-01-01T00:00:00Z"}`, 422, []string{"body.config.url", "body.cadence"}},
		{"POST", "/v1/accounts", `{"id":"x","kind":"plain","cadence":"at 2001-01-01T00:00:00Z"}`, 422, []string{"body.cadence"}},
		{"POST", "/v1/accounts", `{"id":`, 400, []string{"body"}},
		{"POST", "/v1/accounts", `[]`, 400, []string{"body"}},
		{"POST", "/v1/accounts", ``, 400, nil},
		{"POST", "/v1/accounts", long, 413, nil},
		{"PUT", "/v1/accounts/a", `{"id":"b","kind":"plain","x":1}`, 422, []string{"body.x", "body.id"}},
		{"PUT", "/v1/accounts/" + strings.Repeat("x", 257), `{"kind":"plain"}`, 422, []string{"path.id"}},
		{"PUT", "/v1/accounts/a%00", `{"kind":"plain"}`, 422, []string{"body.id"}},
		{"POST", "/v1/accounts/a/nudge", `{"within":"soon","lives":"1y","x":1}`, 422, []string{"body.lives", "body.within", "body.x"}},
		{"POST", "/v1/accounts/a/nudge", `nope`, 400, []string{"body"}},
		{"GET", "/v1/accounts?limit=0&state=lost&colour=red", "", 422, nil},
		{"GET", "/v1/accounts?limit=1001", "", 422, []string{"query.limit"}},
		{"GET", "/v1/accounts?limit=x", "", 422, []string{"query.limit"}},
		{"GET", "/v1/accounts?limit=0&state=lost", "", 422, []string{"query.limit", "query.state[0]"}},
		{"GET", "/v1/accounts?cursor=x", "", 422, []string{"query.cursor"}},
		{"GET", "/v1/messages?limit=0&after=x&colour=red", "", 422, []string{"query.colour", "query.limit", "query.after"}},
		{"GET", "/v1/nothing", "", 404, nil},
		{"GET", "/", "", 404, nil},
		{"POST", "/v1/accounts/a", "", 405, nil},
		{"GET", "/v1/accounts:import", "", 405, nil},
		{"GET", "/docs/secret", "", 404, nil},
	} {
		var p problemBody
		f.call(tt.method, tt.path, tt.body, tt.status, &p)
		if p.Status != tt.status || p.Title == "" || p.Detail == "" {
			t.Errorf("%s %.60s: %+v", tt.method, tt.path, p)
		}
		if tt.locations != nil && !slices.Equal(p.locations(), tt.locations) {
			t.Errorf("%s %.60s %.60s: faults at %v, want %v", tt.method, tt.path, tt.body, p.locations(), tt.locations)
		}
	}
	if got := f.do(f.request("POST", "/v1/accounts/a", "")); got.header.Get("Allow") != "DELETE, GET, HEAD, PATCH, PUT" {
		t.Errorf("Allow: %q", got.header.Get("Allow"))
	}
}

func TestList(t *testing.T) {
	f := newFixture(t, nil)
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		f.call("POST", "/v1/accounts", `{"id":"`+id+`","kind":"plain"}`, 201, nil)
	}
	f.call("POST", "/v1/accounts/c/pause", "", 200, nil)
	var all []string
	path := "/v1/accounts?limit=2"
	for next := path; next != ""; {
		var list AccountList
		f.call("GET", next, "", 200, &list)
		for _, a := range list.Accounts {
			all = append(all, a.ID)
		}
		if next = ""; list.Next != "" {
			next = path + "&cursor=" + list.Next
		}
	}
	slices.Sort(all)
	if strings.Join(all, "") != "abcde" {
		t.Errorf("listed %v", all)
	}
	var list AccountList
	f.call("GET", "/v1/accounts?state=parked&kind=plain", "", 200, &list)
	if len(list.Accounts) != 1 || list.Accounts[0].ID != "c" || list.Next != "" {
		t.Errorf("parked: %+v", list)
	}
	if got := f.call("GET", "/v1/accounts?kind=web", "", 200, nil); got.body != "{\"accounts\":[],\"looked\":5}\n" {
		t.Errorf("none: %q", got.body)
	}
}

func TestStats(t *testing.T) {
	f := newFixture(t, nil)
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain"}`, 201, nil)
	if _, err := f.ring.Heartbeat(context.Background(), "replica001", []byte(`{"host":"h","in_flight":3}`), time.Minute); err != nil {
		t.Fatal(err)
	}
	var s Stats
	got := f.call("GET", "/v1/stats", "", 200, &s)
	if s.Shards != 4 || s.Accounts != (Places{Registered: 1, Scheduled: 1}) || s.Now.IsZero() || len(s.Replicas) != 1 {
		t.Fatalf("stats: %s", got.body)
	}
	if strings.Contains(got.body, "staleness") || !strings.Contains(got.body, `"waiting_by_lane":{"urgent":0,"normal":0,"low":0}`) {
		t.Errorf("stats: %s", got.body)
	}
	if err := f.ring.KeepStaleness(context.Background(), []byte(`{"at":"2026-11-20T08:00:00Z","scanned":1,"seconds_p50":2.5,"stalest":"a"}`)); err != nil {
		t.Fatal(err)
	}
	if got := f.call("GET", "/v1/stats", "", 200, nil); !strings.Contains(got.body, `"staleness":{"at":"2026-11-20T08:00:00Z","scanned":1,"seconds_p50":2.5,"seconds_p99":0,"seconds_max":0,"stalest":"a","parked_excluded":0}`) {
		t.Errorf("stats: %s", got.body)
	}
	if !strings.Contains(got.body, `"processes":[]`) {
		t.Errorf("processes: %s", got.body)
	}
	for name, x := range map[string]string{"a": "1", "b": "1", "c": "2"} {
		about := `{"version":"v1","host":"h","since":"2026-11-20T08:00:00Z","settings":{"X":"` + x + `"}}`
		if _, err := f.ring.Roster().Attend(context.Background(), circulate.Process{Name: name, Roles: "api,poller"}, []byte(about)); err != nil {
			t.Fatal(err)
		}
	}
	f.call("GET", "/v1/stats", "", 200, &s)
	if len(s.Processes) != 3 || s.Processes[0].Name != "a" || s.Processes[0].Differs != nil || !slices.Equal(s.Processes[2].Differs, []accounts.Difference{{Setting: "X", Value: "2", Usual: "1"}}) {
		t.Errorf("processes: %+v", s.Processes)
	}
	if p := s.Processes[0]; !slices.Equal(p.Roles, []string{"api", "poller"}) || p.Version != "v1" || p.Host != "h" || p.Since.IsZero() || !p.Alive || p.LastHeartbeat.IsZero() {
		t.Errorf("process: %+v", p)
	}
	if r := s.Replicas[0]; !r.Alive || r.Name != "replica001" || r.Host != "h" || r.InFlight != 3 || r.LastHeartbeat.IsZero() {
		t.Errorf("replica: %s", got.body)
	}
	f.redis.SetClock(func() time.Time { return time.Now().Add(time.Minute) })
	s = Stats{}
	f.call("GET", "/v1/stats", "", 200, &s)
	if s.Replicas[0].Alive || s.OverdueSeconds < 50 || len(s.Processes) != 3 || s.Processes[0].Alive || s.Processes[2].Differs != nil {
		t.Errorf("a minute later: %+v", s)
	}
	f.redis.SetClock(func() time.Time { return time.Now().Add(10*time.Minute + time.Second) })
	if f.call("GET", "/v1/stats", "", 200, &s); len(s.Processes)+len(s.Replicas) != 0 {
		t.Errorf("ghosts: %+v, %+v", s.Processes, s.Replicas)
	}
}

func TestRedisAway(t *testing.T) {
	f := newFixture(t, nil)
	f.redis.Miniredis().SetError("LOADING secret-address of 10.0.0.1")
	for _, r := range [][3]string{
		{"POST", "/v1/accounts", `{"id":"a","kind":"plain"}`}, {"PUT", "/v1/accounts/a", `{"kind":"plain"}`}, {"GET", "/v1/accounts/a"},
		{"DELETE", "/v1/accounts/a"}, {"GET", "/v1/accounts"}, {"POST", "/v1/accounts/a/pause"}, {"POST", "/v1/accounts/a/resume"},
		{"GET", "/v1/accounts/a/schedule"}, {"GET", "/v1/parked"}, {"POST", "/v1/parked:revive", `{"reason":"auth"}`},
		{"POST", "/v1/accounts/a/nudge"}, {"POST", "/v1/accounts:import", "{}"}, {"GET", "/v1/accounts:export"}, {"GET", "/v1/stats"},
		{"GET", "/v1/messages"}, {"GET", "/v1/messages?after=now"}, {"GET", "/readyz"},
	} {
		f.logs.Reset()
		got := f.call(r[0], r[1], r[2], 503, nil)
		if got.header.Get("Retry-After") != "5" || strings.Contains(got.body, "secret") || !strings.Contains(got.body, "LOADING") {
			t.Errorf("%s %s: %v %s", r[0], r[1], got.header, got.body)
		}
		if n := strings.Count(f.logs.String(), "\n"); n != 1 || !strings.Contains(f.logs.String(), "secret") {
			t.Errorf("%s %s: logged %q", r[0], r[1], f.logs)
		}
	}
	follow := f.request("GET", "/v1/messages", "")
	follow.Header.Set("Accept", "text/event-stream")
	if got := f.do(follow); got.status != 503 {
		t.Errorf("follow: %d", got.status)
	}
	f.call("GET", "/healthz", "", 200, nil)
	f.logs.Reset()
	f.call("GET", "/readyz", "", 503, nil)
	f.redis.Miniredis().SetError("")
	f.call("GET", "/readyz", "", 200, nil)
	f.call("GET", "/readyz", "", 200, nil)
	if n := strings.Count(f.logs.String(), "\n"); n != 1 {
		t.Errorf("probes logged %q", f.logs)
	}
}

func TestPanic(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(errors.New("secret")) })
	})
	got := f.call("GET", "/metrics", "", 500, nil)
	if strings.Contains(got.body, "secret") || strings.Contains(got.body, "goroutine") || !strings.Contains(f.logs.String(), "secret") {
		t.Errorf("reply %s, log %s", got.body, f.logs)
	}
}

func TestListByHowChecksWent(t *testing.T) {
	f := newFixture(t, nil)
	for _, id := range []string{"bad", "good", "new"} {
		f.call("POST", "/v1/accounts", `{"id":"`+id+`","kind":"plain","config":{"url":"https://`+id+`.example/rss"}}`, 201, nil)
	}
	for shard := range f.ring.Shards() {
		b, err := f.ring.Claim(t.Context(), shard, "replica001", 10, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Claims {
			r := circulate.Return{Claim: &b.Claims[i], Due: b.Now.Add(time.Hour), Mark: circulate.MarkOK}
			switch r.Claim.ID {
			case "bad":
				r.Mark, r.Failures, r.Error = 't', 1, "http_404: not found"
			case "new":
				r.Mark = 0
			}
			if _, err := f.ring.Return(t.Context(), shard, []circulate.Return{r}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for query, want := range map[string]string{
		"state=failing": "bad", "state=never_succeeded": "bad", "error=http_404": "bad", "error=transient&host=BAD.example": "bad",
		"host=good.example": "good", "error=http_500": "", "state=failing&host=good.example": "", "since=1h": "", "since=1ns&error=http_404": "bad",
	} {
		var list AccountList
		got := f.call("GET", "/v1/accounts?"+query, "", 200, &list)
		ids := ""
		for _, a := range list.Accounts {
			ids += a.ID
		}
		if ids != want {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	var bad, good Account
	f.call("GET", "/v1/accounts/bad", "", 200, &bad)
	f.call("GET", "/v1/accounts/good", "", 200, &good)
	if s := bad.State; !s.NeverSucceeded || !s.Failing || !s.LastSuccess.IsZero() || s.LastError != "http_404: not found" || s.LastErrorAt.IsZero() {
		t.Errorf("%+v", s)
	}
	if s := good.State; s.NeverSucceeded || s.Failing || s.LastSuccess.IsZero() || s.LastError != "" {
		t.Errorf("%+v", s)
	}
	if got := f.call("GET", "/v1/accounts?since=soon", "", 422, nil); !strings.Contains(got.body, "query.since") {
		t.Error(got.body)
	}
}
