package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	fake "github.com/alicebob/miniredis/v2/server"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/accounts/endpoint"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// examined is a report of settings in variables.
func examined(t *testing.T, variables map[string]string) *Report {
	t.Helper()
	if variables["ROUNDS_API_URL"] == "" {
		variables["ROUNDS_API_URL"] = "http://127.0.0.1:1" // nothing is there
	}
	lookup := func(name string) (string, bool) { v, ok := variables[name]; return v, ok }
	o := service.Options{Lookup: lookup}
	s, err := settings.Read(lookup, nil, func(s settings.Settings) error { return service.Validate(s, o) })
	calls := client.New(s.Access.URL, s.Access.Token)
	t.Cleanup(calls.Close)
	r := Examine(t.Context(), Options{Settings: s, Faulty: err, Service: o, Calls: calls, Within: 5 * time.Second, Audit: true})
	return &r
}

// says expects a line with a status, of a part, with a text.
func (r *Report) says(t *testing.T, status Status, part, text string) {
	t.Helper()
	if !slices.ContainsFunc(r.Checks, func(c Check) bool {
		return c.Status == status && c.Part == part && strings.Contains(c.Text, text)
	}) {
		var b bytes.Buffer
		_ = r.Write(&b, strings.Clone)
		t.Errorf("no line is %s, %s: %q in\n%s", status, part, text, b.String())
	}
}

// count returns how many lines are of a part.
func (r *Report) count(part string) (n int) {
	for _, c := range r.Checks {
		if c.Part == part {
			n++
		}
	}
	return n
}

// add stores endpoints with their fields.
func add(t *testing.T, process *redistest.Server, endpoints map[string]string) {
	t.Helper()
	ring, err := circulate.Open(t.Context(), redistest.Connect(t, process), circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, fields := range endpoints {
		e := endpoint.Endpoint{Name: name, Fields: json.RawMessage(`{"name":"` + name + `",` + fields + `}`)}
		if _, err := endpoint.Of(ring).Put(t.Context(), e, endpoint.Absent); err != nil {
			t.Fatal(err)
		}
	}
}

// fill makes a ring with accounts.
func fill(t *testing.T, process *redistest.Server, records ...string) {
	t.Helper()
	ring, err := circulate.Open(t.Context(), redistest.Connect(t, process), circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, record := range records {
		id := string(rune('a' + i))
		if _, err := ring.Register(t.Context(), 0, []circulate.Registration{{ID: id, Record: []byte(record)}}); err != nil {
			t.Fatal(err)
		}
	}
}

// Each part of an installation that uses Redis is looked at.
func TestExamineRedis(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t, redistest.WithAOF())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	open := listener.Addr().String()
	variables := map[string]string{
		"ROUNDS_REDIS_URL": process.URL(), "ROUNDS_ALLOW_NETWORKS": open, "ROUNDS_SECRET_THERE": "hunter2hunter2",
		"ROUNDS_API_TOKEN": "a-token-of-the-test-0123456789",
	}
	r := examined(t, variables)
	r.says(t, warning, "namespace", "rounds has nothing in this Redis yet")
	if made, err := circulate.Made(t.Context(), redistest.Connect(t, process), "rounds"); err != nil || made {
		t.Errorf("a look made the namespace: %v, %v", made, err)
	}
	fill(t, process,
		`{"id":"a","kind":"http","config":{"url":"http://`+open+`/x?key=query-secret","headers":{"X":{"secret":"THERE"},"Y":{"secret":"MISSING"}}}}`,
		`{"id":"b","kind":"feed","config":{"url":"http://10.255.255.1/feed"}}`)
	r = examined(t, variables)
	r.says(t, ok, "settings", "all are valid")
	r.says(t, fault, "api", "rounds serve")
	r.says(t, ok, "redis", "answers after")
	r.says(t, ok, "clock", "agree")
	r.says(t, ok, "namespace", "rounds has 1 shard")
	r.says(t, fault, "replicas", "no replica is alive")
	r.says(t, fault, "replicas", "no monitor is alive")
	r.says(t, ok, "law", "an audit of 2 accounts just now found each in exactly one place")
	r.says(t, ok, "dead letters", "none")
	r.says(t, fault, "secrets", "secret MISSING: ")
	r.says(t, ok, "way out", open+" was reached")
	r.says(t, warning, "way out", "10.255.255.1:80: refused address")
	if r.Faults != 4 || len(r.Todo) != r.Faults+r.Warnings || !strings.Contains(strings.Join(r.Todo, "\n"), "rounds secret set MISSING), or put them into ROUNDS_SECRETS_DIR, or as ROUNDS_SECRET_MISSING into") {
		t.Errorf("%d faults, %d warnings, to do %q", r.Faults, r.Warnings, r.Todo)
	}
	var b bytes.Buffer
	if err := r.Write(&b, strings.Clone); err != nil || strings.Contains(b.String(), "hunter2") || strings.Contains(b.String(), "query-secret") || strings.Contains(b.String(), "a-token") {
		t.Errorf("%v, a secret is in\n%s", err, b.String())
	}

	// Accounts that use no secret are not counted, and a webhook's secret is looked for as well.
	hooks := filepath.Join(t.TempDir(), "webhooks.json")
	if err := os.WriteFile(hooks, []byte(`{"endpoints":[{"name":"crm","url":"https://crm.example.com/","secrets":[{"secret":"CRM"}]},
		{"name":"bus","type":"kafka","brokers":["127.0.0.1:1"],"topic":"t"},
		{"name":"jets","type":"nats","servers":["127.0.0.1:1"],"stream":"S","subject":"a"},
		{"name":"db","type":"postgres","url":{"secret":"DB"}},{"name":"old","type":"postgres","url":{"secret":"OLD"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	with := maps.Clone(variables)
	with["ROUNDS_SERVICE_SECRET_DB"] = "postgres://rounds:hunter2hunter2@127.0.0.1:1/rounds"
	with["ROUNDS_WEBHOOKS_FILE"], with["ROUNDS_ROLES"], with["ROUNDS_SECRET_MISSING"] = hooks, "api,poller,monitor,delivery", "hunter2hunter2"
	r = examined(t, with)
	r.says(t, ok, "secrets", "2 secrets of 1 account can be read")
	r.says(t, warning, "secrets", "webhook crm: secret CRM: ")
	r.says(t, warning, "endpoints", "kafka bus: the servers cannot be reached; its messages wait")
	r.says(t, warning, "endpoints", "nats jets: the servers cannot be reached")
	r.says(t, warning, "endpoints", "postgres db: the servers cannot be reached")
	r.says(t, warning, "endpoints", "postgres old: secret OLD: ")

	// So are endpoints that were added, as the delivery reads them: a declared one of the name counts alone.
	add(t, process, map[string]string{
		"bus": `"type":"kafka","brokers":["` + open + `"],"topic":"t"`, "more": `"type":"kafka","brokers":["127.0.0.1:1"],"topic":"t"`,
		"bound": `"type":"nats","servers":["` + open + `"],"stream":"S","subject":"a","token":{"secret":"DB"}`, "newer": `"type":"pigeon"`, "hook": `"url":"https://crm.example.com/","secrets":[{"secret":"CRM"}]`,
	})
	r = examined(t, with)
	r.says(t, warning, "endpoints", "kafka bus: the servers cannot be reached; its messages wait")
	r.says(t, warning, "endpoints", "kafka more: brokers[0]: must not be a private address; add 127.0.0.1:1 to ROUNDS_ALLOW_NETWORKS of rounds serve; its messages wait")
	r.says(t, warning, "endpoints", "nats bound: secret DB: refused: it is bound to no hosts")
	r.says(t, warning, "endpoints", "pigeon newer: type: must be one of kafka, nats, postgres, webhook; its messages wait")
	if n := r.count("endpoints"); n != 7 {
		t.Errorf("%d endpoints were tried, want 7", n)
	}
	b.Reset()
	if err := r.Write(&b, strings.Clone); err != nil || strings.Contains(b.String(), "hunter2") {
		t.Errorf("%v, a secret is in\n%s", err, b.String())
	}

	process.Kill()
	r = examined(t, variables)
	r.says(t, fault, "redis", "cannot be reached")
	r.says(t, skipped, "law", "Redis cannot be asked")
	r.says(t, skipped, "secrets", "cannot be read")
}

// Servers that may lose data, and those that cannot be used.
func TestExamineServers(t *testing.T) {
	t.Parallel()
	old, err := fake.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(old.Close)
	for name, reply := range map[string]func(*fake.Peer){
		"CLIENT": (*fake.Peer).WriteOK, "INFO": func(c *fake.Peer) { c.WriteBulk("redis_version:5.0.14\r\n") },
	} {
		if err := old.Register(name, func(c *fake.Peer, _ string, _ []string) { reply(c) }); err != nil {
			t.Fatal(err)
		}
	}
	locked := redistest.Start(t)
	conn, err := locked.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, args := range [][]any{{"SETUSER", "own", "on", ">right", "allkeys", "allchannels", "+@all", "-info", "-config"}, {"SETUSER", "default", "off"}} {
		if _, err := conn.Do("ACL", args...); err != nil {
			t.Fatal(err)
		}
	}
	for url, want := range map[string]Check{
		"redis://" + old.Addr().String():                                    {"redis", fault, "is Redis 5.0.14, and rounds needs Redis 6.2", ""},
		redistest.Start(t).URL():                                            {"redis", warning, "appendonly is no, and no snapshots are made", ""},
		redistest.Start(t, redistest.WithArgs("--appendonly", "yes")).URL(): {"redis", ok, "appendfsync is everysec", ""},
		redistest.Start(t, redistest.WithArgs("--maxmemory", "90mb", "--maxmemory-policy", "volatile-lru")).URL(): {"redis", fault, "maxmemory-policy is volatile-lru", ""},
		redistest.Start(t, redistest.WithArgs("--maxmemory", "850kb")).URL():                                      {"redis", warning, "% of maxmemory", ""},
		"redis://own:right@" + locked.Addr():                                                                      {"redis", ok, "INFO may not be asked", ""},
		"redis://own:wrong@" + locked.Addr():                                                                      {"redis", fault, "refused the password", ""},
	} {
		r := examined(t, map[string]string{"ROUNDS_REDIS_URL": url})
		r.says(t, want.Status, want.Part, want.Text)
	}
}

// Without a Redis, the directory and the API are looked at.
func TestExamineWithoutRedis(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := examined(t, map[string]string{"ROUNDS_DATA_DIR": dir})
	r.says(t, ok, "data", "can be written")
	r.says(t, fault, "api", "rounds serve")
	r.says(t, skipped, "redis", "the API is asked, which did not answer")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a look left %v, %v", left, err)
	}
	r = examined(t, map[string]string{"ROUNDS_DATA_DIR": filepath.Join(dir, "later")})
	r.says(t, ok, "data", "is not there yet")
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	examined(t, map[string]string{"ROUNDS_DATA_DIR": file}).says(t, fault, "data", "is not a directory")
	examined(t, map[string]string{"ROUNDS_DATA_DIR": "memory"}).says(t, warning, "data", "everything is lost")

	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"status":401,"title":"Unauthorized"}`, http.StatusUnauthorized)
	}))
	defer refusing.Close()
	given := map[string]string{"ROUNDS_DATA_DIR": dir, "ROUNDS_API_URL": refusing.URL, "ROUNDS_API_TOKEN": "wrong"}
	r = examined(t, given)
	r.says(t, fault, "api", "does not accept the token")
	r.says(t, skipped, "redis", "ROUNDS_REDIS_URL is not set here, so the API is asked, which did not answer")
	delete(given, "ROUNDS_API_TOKEN")
	examined(t, given).says(t, fault, "api", "demands a token or key, but none is set here")
}

// During a change the old shards are not added to the new ones.
func TestExamineCountsShardsAsStatsDo(t *testing.T) {
	server := redistest.Embedded(t)
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ring.Mover().Begin(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	changing, err := circulate.Open(t.Context(), server, circulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if before, during := shardsOf(ring), shardsOf(changing); before != "rounds has 1 shard" || during != "rounds has 3 shards, and the 1 shard from before a change that is not over" {
		t.Errorf("%q, %q", before, during)
	}
}

// Just after an outage of Redis nobody is silent who was heard of when it began: Redis tells when
// it started. Who was silent before is so still.
func TestExamineJustAfterRedisIsBack(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t)
	fill(t, process)
	conn, err := process.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	heard := func(at time.Time, name string) {
		t.Helper()
		for _, beat := range []struct{ key, member string }{{"rounds:replicas", name}, {"{rounds:replicas}:processes:seen", "poller,monitor|" + name}} {
			if _, err := conn.Do("ZADD", beat.key, at.UnixMilli(), beat.member); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := time.Now().Add(-4 * time.Minute)
	heard(before, "alice00000")
	heard(before.Add(-time.Second), "bob0000000")
	heard(before.Add(-4*time.Minute), "carol00000")
	r := examined(t, map[string]string{"ROUNDS_REDIS_URL": process.URL(), "ROUNDS_DEAD_AFTER": "2m"})
	r.says(t, warning, "replicas", "process carol00000 with the roles poller,monitor went silent")
	for _, c := range r.Checks {
		if strings.Contains(c.Text, "no replica is alive") || strings.Contains(c.Text, "no monitor is alive") || strings.Contains(c.Text, "alice") || strings.Contains(c.Text, "bob") {
			t.Errorf("%+v", c)
		}
	}
}

// Redis may have been away without a restart. The API remembers it.
func TestExamineAnOutageThatTheAPISaw(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 5, 0, 30, 0, time.UTC)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"namespace":"rounds","name":"ci","role":"admin","now":"2026-11-26T05:00:30Z","processes":[`+
			`{"name":"p1","roles":["monitor"],"last_heartbeat":"2026-11-26T05:00:00Z","alive":true},{"name":"p2","roles":["monitor"],"last_heartbeat":"2026-11-26T05:00:15Z","alive":false}]}`)
	}))
	defer server.Close()
	d := &doctor{Options: Options{Calls: client.New(server.URL, "")}}
	defer d.Calls.Close()
	d.Settings.Access.URL, d.Settings.Redis.URL, d.Settings.Redis.Namespace = server.URL, "redis://127.0.0.1:1", "rounds"
	d.Settings.Monitor.DeadAfter = 10 * time.Second
	d.api(t.Context())
	stats := accounts.Stats{Now: now}
	stats.Outage = d.outage(&stats)
	for ago, want := range map[time.Duration]bool{30 * time.Second: true, 45 * time.Second: false} {
		if stats.Alive(now.Add(-ago), d.Settings.Monitor.DeadAfter) != want {
			t.Errorf("heard of %v ago: alive is %t, and the outage %+v", ago, !want, stats.Outage)
		}
	}
}

// The API must be that of the namespace that the settings name.
func TestExamineAnAPIOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"namespace":"rounds","name":"ci","role":"admin"}`)
	}))
	defer server.Close()
	d := &doctor{Options: Options{Calls: client.New(server.URL, "")}}
	defer d.Calls.Close()
	d.Settings.Access.URL, d.Settings.Redis.URL = server.URL, "redis://127.0.0.1:1"
	for _, namespace := range []string{"copy", "rounds"} {
		d.Settings.Redis.Namespace = namespace
		d.api(t.Context())
	}
	d.report.says(t, fault, "api", "serves the namespace rounds, not copy")
	d.report.says(t, ok, "api", "ci has the role admin")
}

// A sample says how large it is.
func TestExamineSaysHowManyAccountsItLookedAt(t *testing.T) {
	for n, want := range map[int]string{0: "there is no account", 1: "the account that was looked at uses none", 1000: "none of 1000 accounts that were looked at uses one"} {
		d := &doctor{}
		d.Settings.API.Roles = settings.Roles{settings.RolePoller}
		d.secrets(t.Context(), knowledge{source: nothing{}, list: func(context.Context) ([]accounts.View, error) { return make([]accounts.View, n), nil }})
		d.report.says(t, ok, "secrets", want)
	}
}

// Faults of settings become lines of the report, and everything else is looked at all the same.
func TestExamineFaultySettings(t *testing.T) {
	t.Parallel()
	r := examined(t, map[string]string{"ROUNDS_DATA_DIR": t.TempDir(), "ROUNDS_CHECK_TIMEOUT": "soon", "ROUNDS_SHARDS": "-1"})
	r.says(t, fault, "settings", "ROUNDS_CHECK_TIMEOUT")
	r.says(t, fault, "settings", "ROUNDS_SHARDS")
	r.says(t, ok, "data", "can be written")
	r = examined(t, map[string]string{"ROUNDS_REDIS_URL": "mysql://:hunter2@h", "ROUNDS_PROXY": "http://127.0.0.1:1"})
	r.says(t, fault, "settings", "ROUNDS_REDIS_URL")
	r.says(t, fault, "way out", "the proxy of ROUNDS_PROXY cannot be reached")
	d := doctor{Options: Options{Unknown: []string{"ROUNDS_CONCURENCY"}, Faulty: errors.New("A: x\nB: y")}}
	d.settings()
	d.sum()
	d.report.says(t, warning, "settings", "is it ROUNDS_CONCURRENCY?")
	if d.report.Faults != 2 || d.report.Warnings != 1 || len(d.report.Todo) != 3 || d.report.Todo[2] != "remove or rename ROUNDS_CONCURENCY" {
		t.Errorf("%+v", d.report)
	}
}

// nothing is a source of secrets that has none.
type nothing struct{}

func (nothing) Get(context.Context, string, secrets.Use) (string, error) {
	return "", errors.New("is not there")
}

// A secret that the doctor does not find is reported with the code that checks fail with.
func TestASecretThatIsMissingHasTheCodeOfItsChecks(t *testing.T) {
	d := &doctor{}
	d.Settings.API.Roles = settings.Roles{settings.RolePoller}
	d.secrets(t.Context(), knowledge{source: nothing{}, list: func(context.Context) ([]accounts.View, error) {
		return []accounts.View{{Account: accounts.Account{ID: "a", Kind: "http", Config: json.RawMessage(`{"headers":{"X":{"secret":"NONE"}}}`)}}}, nil
	}})
	code := secrets.CheckError(secrets.ErrNotFound).Code
	if len(d.report.Checks) != 1 || !strings.Contains(d.report.Checks[0].Do, "with the code "+code+",") {
		t.Errorf("got %+v", d.report.Checks)
	}
}

// Where the accounts could not be read, nobody knows which hosts they name.
func TestHostsThatCouldNotBeReadAreNotSaidToBeNone(t *testing.T) {
	for _, known := range []knowledge{{}, {list: func(context.Context) ([]accounts.View, error) { return nil, errors.New("away") }}} {
		d := &doctor{Options: Options{Within: time.Second}}
		d.wayOut(t.Context(), known)
		if last := d.report.Checks[len(d.report.Checks)-1]; last.Status != skipped || !strings.Contains(last.Text, "could not be read") {
			t.Errorf("got %+v", d.report.Checks)
		}
	}
}

// The last audit is reported with how much it looked at. An audit that looked at little proves
// nothing.
func TestTheLastAuditIsToldWithItsSize(t *testing.T) {
	now := time.Date(2026, 11, 25, 1, 0, 0, 0, time.UTC)
	for audited, want := range map[int]Check{
		802:    {"law", warning, "the last audit, 18m44s ago, looked at 802 of 200000 accounts that are registered now", ""},
		199000: {"law", ok, "the last audit, 18m44s ago, found 199000 accounts of 200000 in exactly one place each", ""},
		333800: {"law", ok, "the last audit, 18m44s ago, found 333800 accounts in exactly one place each; 200000 are registered now", ""},
	} {
		d := &doctor{}
		d.concerns(concern.Concerns{Now: now}, &concern.Law{Now: now, State: concern.Kept, Last: &concern.AuditResult{At: now.Add(-18*time.Minute - 44*time.Second), Accounts: audited}}, 200_000, living{})
		d.report.says(t, want.Status, want.Part, want.Text)
	}
}

// Figures that are not of this moment are shown with their time, as in rounds stats.
func TestOldFiguresHaveTheirTime(t *testing.T) {
	now := time.Date(2026, 11, 25, 1, 0, 0, 0, time.UTC)
	d := &doctor{}
	d.concerns(concern.Concerns{Now: now, Concerns: []concern.Concern{
		{Code: concern.FailingJumped, Level: concern.Warn, Text: "4307 accounts", AsOf: now.Add(-time.Minute)},
		{Code: concern.GroupLagging, Level: concern.Warn, Text: "crm lags"},
	}}, &concern.Law{Now: now}, 0, living{})
	d.report.says(t, warning, "accounts", "4307 accounts, as of "+now.Add(-time.Minute).Local().Format(time.DateTime))
	for _, c := range d.report.Checks {
		if c.Part == "groups" && c.Text != "crm lags" {
			t.Errorf("it says %q", c.Text)
		}
	}
}

// Every concern of the service has a part, and all that are more than a note say what to do.
func TestEveryConcernHasAPart(t *testing.T) {
	for _, code := range concern.Codes() {
		if _, found := advices()[code]; !found && !strings.HasPrefix(string(code), "redis_") {
			t.Errorf("%s has no part", code)
		}
	}
	if do := adviceOn(&concern.Concern{Code: concern.TrailLost, Subject: "p1"}).do; !strings.Contains(do, "the log of p1") {
		t.Errorf("for entries that the trail lacks: %q", do)
	}
}

// Where all is well, it says how many replicas and monitors are alive.
func TestHowManyAreAlive(t *testing.T) {
	var there living
	for _, alive := range []bool{true, true, false} {
		there.replica(alive)
	}
	there.process(true, []string{"poller"})
	there.process(true, []string{"poller", "monitor"})
	there.process(false, []string{"monitor"})
	d := &doctor{}
	d.concerns(concern.Concerns{}, &concern.Law{}, 0, there)
	d.report.says(t, ok, "replicas", "2 replicas and a monitor are alive, and all of them agree")
}
