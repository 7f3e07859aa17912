package api

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

// asked is how the matrix calls a route. The zero value is enough if the test only needs to
// know whether the caller gets past the table of rights.
type asked struct {
	path, body string // {id}, {name} and {send} are replaced; empty: the route's own path
	ok         []int  // the statuses that an allowed caller may get; none: anything but 401 and 403

	shows bool // the answer contains the caller's own accounts, and must not contain others
	// counts returns a text that the answer must contain if the caller has so many accounts in
	// the matrix's world.
	counts func(own int) string
	spoils bool // the accounts are made again before the next call
}

// calls says how the matrix calls the routes about accounts. For a route with account scope,
// callers who may see the account must get another answer than the 404 for those who may not.
func calls() map[string]asked {
	record := `{"kind":"plain","labels":{"team":"{team}"}}`
	counted := func(format string) func(int) string {
		return func(own int) string { return fmt.Sprintf(format, own) }
	}
	return map[string]asked{
		"GET /v1/whoami":                             {ok: []int{200}},
		"GET /openapi.json":                          {ok: []int{200}},
		"GET /metrics":                               {ok: []int{200}},
		"GET /v1/accounts":                           {path: "/v1/accounts?limit=1000", ok: []int{200}, shows: true},
		"POST /v1/accounts":                          {body: `{"id":"press-new","kind":"plain","labels":{"team":"press"}}`, ok: []int{201}, spoils: true},
		"GET /v1/accounts/{id}":                      {ok: []int{200}},
		"PUT /v1/accounts/{id}":                      {body: record, ok: []int{200}, spoils: true},
		"PATCH /v1/accounts/{id}":                    {body: `{"cadence":"every 9m"}`, ok: []int{200}, spoils: true},
		"DELETE /v1/accounts/{id}":                   {ok: []int{204}, spoils: true},
		"GET /v1/accounts/{id}/schedule":             {ok: []int{200}},
		"GET /v1/accounts/{id}/timeline":             {ok: []int{200}},
		"GET /v1/accounts/{id}/conversations":        {ok: []int{200}},
		"GET /v1/accounts/{id}/trail":                {ok: []int{200}},
		"GET /v1/accounts/{id}/versions":             {ok: []int{200}},
		"GET /v1/accounts/{id}/checks":               {ok: []int{200}},
		"POST /v1/accounts/{id}/restore":             {body: `{"version":"1-1"}`, ok: []int{404}}, // TestVersionsComeBack has one that is there
		"POST /v1/accounts/{id}/pause":               {ok: []int{200}, spoils: true},
		"POST /v1/accounts/{id}/resume":              {ok: []int{200}, spoils: true},
		"POST /v1/accounts/{id}/nudge":               {ok: []int{200}, spoils: true},
		"POST /v1/accounts/{id}/sends":               {ok: []int{422}, body: `{}`}, // no account of the matrix can send: TestSend has one that can
		"GET /v1/sends":                              {ok: []int{200}, shows: true},
		"GET /v1/sends/{id}":                         {path: "/v1/sends/{send}", ok: []int{200}},
		"GET /v1/sends/{id}/file":                    {path: "/v1/sends/{send}/file", ok: []int{404}},           // TestSendsTellTheirFiles has one with a file
		"GET /v1/sends/{id}/file/thumbnail":          {path: "/v1/sends/{send}/file/thumbnail", ok: []int{404}}, // the same
		"POST /v1/sends/{id}/cancel":                 {path: "/v1/sends/{send}/cancel", ok: []int{200}},
		"POST /v1/sends/{id}/retry":                  {path: "/v1/sends/{send}/retry", ok: []int{409}},
		"POST /v1/sends/{id}/resolve":                {path: "/v1/sends/{send}/resolve", body: `{"state":"accepted"}`, ok: []int{409}},
		"GET /v1/kinds":                              {ok: []int{200}},
		"POST /v1/accounts:check":                    {body: `{"account":{"id":"press-1","kind":"plain","labels":{"team":"press"}}}`, ok: []int{200}},
		"GET /v1/accounts:export":                    {ok: []int{200}, shows: true},
		"POST /v1/accounts:import":                   {body: `{"id":"press-1","kind":"plain","labels":{"team":"press"}}`, ok: []int{200}, spoils: true},
		"POST /v1/accounts:pause":                    {path: "/v1/accounts:pause?all=true&dry_run=true", ok: []int{200}, counts: counted(`"summary":{"seen":%[1]d,"matched":%[1]d,`)},
		"POST /v1/accounts:nudge":                    {path: "/v1/accounts:nudge?all=true&dry_run=true", ok: []int{200}, counts: counted(`"summary":{"seen":%[1]d,"matched":%[1]d,`)},
		"GET /v1/accounts:count":                     {ok: []int{200}, counts: counted(`{"count":%d,"complete":true}`)},
		"POST /v1/accounts:resume":                   {path: "/v1/accounts:resume?all=true&dry_run=true", ok: []int{200}, counts: counted(`"summary":{"seen":%[1]d,"matched":%[1]d,`)},
		"POST /v1/accounts:delete":                   {path: "/v1/accounts:delete?all=true", ok: []int{200}, counts: counted(`"summary":{"seen":%[1]d,"matched":%[1]d,"changed":%[1]d`), spoils: true},
		"POST /v1/accounts:retry":                    {path: "/v1/accounts:retry?all=true&dry_run=true", ok: []int{200}, counts: counted(`"summary":{"seen":%[1]d,"matched":%[1]d,`)},
		"POST /v1/accounts:set":                      {path: "/v1/accounts:set?all=true&dry_run=true&cadence=every+9m", ok: []int{200}, counts: counted(`"summary":{"seen":%[1]d,"matched":%[1]d,`)},
		"GET /v1/jobs":                               {ok: []int{200}},
		"GET /v1/jobs/{id}":                          {path: "/v1/jobs/none", ok: []int{404}},        // TestJobs has one that is there
		"POST /v1/jobs/{id}/stop":                    {path: "/v1/jobs/none/stop", ok: []int{404}},   // the same
		"POST /v1/jobs/{id}/resume":                  {path: "/v1/jobs/none/resume", ok: []int{404}}, // the same
		"POST /v1/jobs/{id}/undo":                    {path: "/v1/jobs/none/undo", ok: []int{404}},   // the same
		"GET /v1/parked":                             {ok: []int{200}, shows: true},
		"POST /v1/parked:revive":                     {body: `{"reason":"paused","dry_run":true}`, ok: []int{200}, counts: func(own int) string { return fmt.Sprintf(`"revived":%d,`, own/2) }},
		"GET /v1/messages":                           {ok: []int{200}, shows: true},
		"GET /v1/messages:search":                    {ok: []int{200}, shows: true},
		"GET /v1/messages/{ref}":                     {path: "/v1/messages/0:1-1", ok: []int{404}},                   // TestGetMessage has one that is there
		"GET /v1/messages/{ref}/files/{n}":           {path: "/v1/messages/0:1-1/files/0", ok: []int{404}},           // TestFilesAreRead has some that are there
		"GET /v1/messages/{ref}/files/{n}/thumbnail": {path: "/v1/messages/0:1-1/files/0/thumbnail", ok: []int{404}}, // TestThumbnailsAreServed
		"POST /v1/files":                             {path: "/v1/files?account=press-1", body: "bytes", ok: []int{201}},
		"GET /v1/backup/files/{folder}/{name}":       {path: "/v1/backup/files/00/0", ok: []int{404}},  // TestStoredBytesAreForBackups has some that are there
		"GET /v1/dead/{id}/files/{n}":                {path: "/v1/dead/0:1-1/files/0", ok: []int{404}}, // TestDeadLettersHaveFiles has one that is there
		"GET /v1/stats":                              {ok: []int{200}, counts: counted(`"registered":%d,`)},
		"GET /v1/problems":                           {ok: []int{200}, counts: func(own int) string { return fmt.Sprintf(`"at_rest":%d,`, own%4/2) }}, // no monitor sums up those of all
		"POST /v1/keys":                              {body: `{"name":"made","role":"viewer"}`, ok: []int{201, 409}},
		"POST /v1/reshard":                           {body: `{"shards":8,"dry_run":true}`, ok: []int{200}},
		"POST /v1/reload":                            {ok: []int{200}},
		"GET /v1/links/{ref}/{n}":                    {path: "/v1/links/0:1-1/0", ok: []int{403}}, // it is not signed: TestLinksNeedNoKey has links that are
		"GET /v1/callbacks/wecom/{name}":             {ok: []int{403}},                            // the request is not signed
		"POST /v1/callbacks/wecom/{name}":            {ok: []int{403}},

		"GET /v1/callbacks/websub/{account}/{token}":  {path: "/v1/callbacks/websub/YQ/x", ok: []int{404}}, // nobody subscribes
		"POST /v1/callbacks/websub/{account}/{token}": {path: "/v1/callbacks/websub/YQ/x", ok: []int{410}},
	}
}

// world makes the accounts of the matrix: two of each team, one of them paused and each with
// a message and a send. It returns the send of press-1.
func (f *fixture) world() (pressSend string) {
	f.Helper()
	registry, ctx := f.api.options.Registry, f.Context()
	for _, team := range []string{"press", "sales"} {
		for _, n := range []string{"1", "2"} {
			id := team + "-" + n
			if _, _, err := registry.Put(ctx, accounts.Account{ID: id, Kind: "plain", Labels: map[string]string{"team": team}}); err != nil {
				f.Fatal(err)
			}
			var err error
			if n == "2" {
				_, err = registry.Pause(ctx, id)
			} else {
				_, err = registry.Resume(ctx, id)
			}
			if err != nil {
				f.Fatal(err)
			}
			send := circulate.Send{ID: circulate.NewSendID(id), Account: id, Kind: "plain", Peer: "somebody", Type: "text", Data: []byte(`{"text":"hello"}`)}
			queued, _, err := f.ring.Sends().Queue(ctx, send, "first", circulate.SendBounds{})
			if err != nil {
				f.Fatal(err)
			}
			if id == "press-1" {
				pressSend = queued.ID
			}
		}
	}
	if err := registry.Delete(ctx, "press-new"); err != nil && !errors.Is(err, accounts.ErrNotFound) {
		f.Fatal(err)
	}
	return pressSend
}

// TestMatrix lets every sort of caller call every route, and compares the answers with the
// table of rights.
func TestMatrix(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		withEverything(t)(o)
		o.RequireKey = true
	})
	send := ""
	world := func() {
		for _, id := range []string{"press-1", "press-2", "sales-1", "sales-2"} {
			// Messages that an account found before it was removed are not shown for a new account
			// of its id.
			if _, err := f.api.options.Registry.Get(t.Context(), id); errors.Is(err, accounts.ErrNotFound) {
				f.find(id, "m")
			}
		}
		send = f.world()
	}
	world()
	type caller struct {
		name, text string
		role       access.Role
		team       string // empty: not bound to a team
	}
	callers := []caller{{name: "nobody"}}
	for _, role := range access.Roles() {
		for _, team := range []string{"", "press", "nobodys"} {
			c := caller{name: role.String() + "-" + team + ".", role: role, team: team}
			n := key.New{Name: c.name, Role: role}
			if team != "" {
				n.Labels = access.Labels{"team": team}
			}
			c.text = f.key(n)
			callers = append(callers, c)
		}
	}
	spoilt := false
	for _, right := range Rights() {
		method, path, _ := strings.Cut(right.Route, " ")
		ask, known := calls()[right.Route]
		if !known && (right.Scope == scopeAccount || right.Scope == scopeAccounts) {
			t.Errorf("%s: it is about accounts, and the matrix does not know how to call it", right.Route)
			continue
		}
		if ask.path == "" {
			ask.path = strings.NewReplacer("{id}", "press-1", "{name}", "none", "{file}", "none").Replace(path)
		}
		for _, c := range callers {
			if spoilt {
				world()
			}
			as := f.as(c.text)
			before, _ := f.api.options.Registry.Get(t.Context(), "press-1")
			r := as.request(method, strings.Replace(ask.path, "{send}", send, 1), strings.ReplaceAll(ask.body, "{team}", cmp.Or(c.team, "press")))
			if ask.body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			r.Header.Set("Idempotency-Key", "matrix")
			// A call that the table refuses must not spoil the world.
			got := as.do(r)
			spoilt = ask.spoils && got.status < 400
			fail := func(want string) {
				t.Errorf("%s as %s: %d, want %s: %.300s", right.Route, c.name, got.status, want, got.body)
			}
			switch {
			case right.Route == "POST /signin" || right.Route == "POST /v1/session":
				continue // these routes find out themselves who calls, and refuse callers without a credential: see TestSignInFails
			case right.Scope == scopeOpen:
				if got.status == 401 || got.status == 403 && len(ask.ok) == 0 {
					fail("an answer")
				}
				continue
			case c.text == "":
				if got.status != 401 {
					fail("401")
				}
				continue
			case !c.role.Includes(right.Role):
				if got.status != 403 || !strings.Contains(got.body, "the role "+right.Role.String()+" is needed") {
					fail("403 that names the role")
				}
				continue
			case right.Scope == scopeService && c.team != "":
				if got.status != 403 || !strings.Contains(got.body, "about the whole service") {
					fail("403")
				}
				continue
			case right.Scope == scopeAccount && c.team == "nobodys":
				named := strings.Contains(path, "{id}") || strings.Contains(ask.path, "?account=press-1")
				if named && got.status != 404 {
					fail("404")
				}
				if after, err := f.api.options.Registry.Get(t.Context(), "press-1"); err != nil || after.Tag != before.Tag || after.State != before.State {
					fail("the account as it was")
				}
				if !named && (got.status != 422 || !strings.Contains(got.body, ".labels.team")) {
					fail("422 that names the label")
				}
				continue
			case got.status == 401 || got.status == 403 || len(ask.ok) > 0 && !slices.Contains(ask.ok, got.status):
				fail(fmt.Sprint(ask.ok))
				continue
			}
			own := map[string]int{"": 4, "press": 2, "nobodys": 0}[c.team]
			if ask.counts != nil && !strings.Contains(got.body, ask.counts(own)) {
				fail(ask.counts(own))
			}
			if c.team != "" && strings.Contains(got.body, "sales-") {
				fail("nothing of others")
			}
			if ask.shows && (strings.Contains(got.body, "press-2") != (own > 0) || c.team == "" && !strings.Contains(got.body, "sales-2")) {
				fail("their own")
			}
			if right.Route == "POST /v1/accounts:import" && strings.Contains(got.body, `"failed":1`) != (c.team == "nobodys") {
				fail("the line of others refused")
			}
		}
	}
}

// A follower gets the messages of its own accounts, and passes over those of others.
func TestFollowersSeeTheirOwn(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.RequireKey, o.Heartbeat = true, time.Millisecond })
	for _, id := range []string{"press-1", "sales-1", "press-2"} {
		f.find(id, "m1")
	}
	f.world()
	press := f.as(f.key(key.New{Name: "press", Role: access.Viewer, Labels: access.Labels{"team": "press"}}))
	var page MessageList
	press.call("GET", "/v1/messages?limit=1", "", 200, &page)
	if len(page.Messages) != 1 || page.Messages[0].Account != "press-1" || !page.More {
		t.Fatalf("first: %+v", page)
	}
	after := page.Next
	page = MessageList{}
	press.call("GET", "/v1/messages?after="+after, "", 200, &page)
	if len(page.Messages) != 1 || page.Messages[0].Account != "press-2" || page.More {
		t.Fatalf("then: %+v", page)
	}
	end := page.Next
	e := press.follow("", "")
	var told []string
	for len(told) < 2 {
		got, ok := e.next()
		if !ok {
			t.Fatalf("the stream ended after %q", told)
		}
		if got.message.Account != "" {
			told = append(told, got.message.Account)
		}
	}
	if !slices.Equal(told, []string{"press-1", "press-2"}) {
		t.Errorf("got %q", told)
	}
	e.cancel()
	// A follower that only passes over messages is still sent its position.
	sales := f.as(f.key(key.New{Name: "nobodys", Role: access.Viewer, Labels: access.Labels{"team": "nobodys"}}))
	e = sales.follow("", "")
	for last := ""; last != end; {
		got, ok := e.next()
		if !ok || got.message.Account != "" {
			t.Fatalf("got %+v, %t", got, ok)
		}
		if got.id != "" {
			last = got.id
		}
	}
	e.cancel()
	// After a change of labels, others see the account and its messages within a moment.
	f.api.sight.mu.Lock()
	for id, seen := range f.api.sight.known {
		seen.at = seen.at.Add(-sightLasts)
		f.api.sight.known[id] = seen
	}
	f.api.sight.mu.Unlock()
	if _, _, err := f.api.options.Registry.Patch(t.Context(), "sales-1", []byte(`{"labels":{"team":"press"}}`), accounts.Match{}); err != nil {
		t.Fatal(err)
	}
	page = MessageList{}
	press.call("GET", "/v1/messages", "", 200, &page)
	if len(page.Messages) != 3 {
		t.Errorf("after it was relabelled: %+v", page.Messages)
	}
}

// A cursor tells a bound caller nothing about the accounts of others, and is valid only for
// callers with the same labels.
func TestCursorsTellNothing(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.RequireKey = true })
	f.world()
	if _, err := f.api.options.Registry.Pause(t.Context(), "press-1"); err != nil {
		t.Fatal(err)
	}
	all := f.as(f.key(key.New{Name: "all", Role: access.Viewer}))
	press := f.as(f.key(key.New{Name: "press", Role: access.Admin, Labels: access.Labels{"team": "press"}}))
	sales := f.as(f.key(key.New{Name: "sales", Role: access.Viewer, Labels: access.Labels{"team": "sales"}}))
	for _, path := range []string{"/v1/accounts?limit=1", "/v1/parked?limit=1"} {
		var told string
		seen := 0
		for cursor := ""; ; {
			var page struct {
				Accounts, Parked []struct{ ID string }
				Next             string
			}
			press.call("GET", path+"&cursor="+cursor, "", 200, &page)
			for _, a := range slices.Concat(page.Accounts, page.Parked) {
				if seen++; !strings.HasPrefix(a.ID, "press-") {
					t.Errorf("%s: %s", path, a.ID)
				}
			}
			if page.Next == "" {
				break
			}
			cursor = page.Next
			content, err := base64.RawURLEncoding.DecodeString(cursor)
			if err != nil {
				t.Fatal(err)
			}
			told += string(content)
			for _, other := range []*fixture{all, sales} {
				other.errorReply("GET", path+"&cursor="+cursor, "", 422)
			}
		}
		if seen != 2 || told == "" || strings.Contains(told, "press-") || strings.Contains(told, "sales-") {
			t.Errorf("%s: %d accounts, cursors %q", path, seen, told)
		}
		var page AccountList
		all.call("GET", path, "", 200, &page)
		if content, err := base64.RawURLEncoding.DecodeString(page.Next); err != nil || !strings.Contains(string(content), "-") {
			t.Errorf("%s: who is not bound is given %q", path, content)
		}
		for _, cursor := range []string{page.Next, "x", "AAAA", "!"} {
			if got := press.errorReply("GET", path+"&cursor="+cursor, "", 422); got.Errors[0].Location != "query.cursor" {
				t.Errorf("%s with %s: %+v", path, cursor, got)
			}
		}
	}
	if got := press.errorReply("POST", "/v1/parked:revive", `{"reason":"paused","cursor":"x"}`, 422); got.Errors[0].Location != "body.cursor" {
		t.Errorf("revive: %+v", got)
	}
}

// The trail of an account tells a bound caller nothing about other accounts that an entry
// names as well.
func TestAnAccountsTrailTellsNothingOfOthers(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = "the-token-of-this-test" })
	f.world()
	f.call("POST", "/v1/parked:revive", `{"ids":["press-2","sales-2"]}`, 200, nil)
	press := f.as(f.key(key.New{Name: "press", Role: access.Viewer, Labels: access.Labels{"team": "press"}}))
	var page TrailPage
	got := press.call("GET", "/v1/accounts/press-2/trail", "", 200, &page)
	if len(page.Entries) != 1 || page.Entries[0].By != "token" || !slices.Equal(page.Entries[0].Accounts, []string{"press-2"}) || strings.Contains(got.body, "sales-2") {
		t.Errorf("got %s", got.body)
	}
	if got := f.call("GET", "/v1/accounts/press-2/trail", "", 200, nil); !strings.Contains(got.body, "sales-2") {
		t.Errorf("who is not bound: %s", got.body)
	}
}

// An account that is registered again shows a bound caller nothing of the earlier account of its
// id, which may have been somebody else's: no message, not even a replayed one, and no entry of the
// trail.
func TestAnIdTellsNothingOfWhoHadIt(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = "the-token-of-this-test" })
	f.world()
	f.find("sales-1", "old")
	f.call("POST", "/v1/accounts/sales-1/pause", "", 200, nil)
	f.call("DELETE", "/v1/accounts/sales-1", "", 204, nil)
	press := f.as(f.key(key.New{Name: "press", Role: access.Viewer, Labels: access.Labels{"team": "press"}}))
	f.redis.SetClock(func() time.Time { return time.Now().Add(2 * time.Second) })
	f.call("PUT", "/v1/accounts/sales-1", `{"kind":"plain","labels":{"team":"press"}}`, 201, nil)
	shard := f.ring.ShardOf("sales-1")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(f.ring.Archive().LoadLetters(t.Context(), shard, []circulate.Letter{{Fields: []string{"for", "crm", "position", "5-1", "account", "sales-1", "id", "dead"}}}))
	letters, err := group.Of(f.ring).DeadLetters(t.Context(), shard, circulate.StreamStart, 10)
	must(err)
	_, err = group.Of(f.ring).ReplayDead(t.Context(), shard, letters[0].Position)
	must(err)
	messages := func(f *fixture) string {
		var page MessageList
		f.call("GET", "/v1/messages", "", 200, &page)
		return idsOf(page)
	}
	if got := messages(press); got != "" {
		t.Errorf("press sees %q", got)
	}
	if got := messages(f); got != "old dead" {
		t.Errorf("who is not bound sees %q", got)
	}
	follower := press.follow("", "")
	defer follower.cancel()
	must(f.ring.Archive().LoadMessages(t.Context(), shard, []circulate.Found{{Position: "*", Account: "sales-1", Kind: "plain", Message: circulate.Message{ID: "new"}}}))
	follower.wantMessage("new")
	if got := messages(press); got != "new" {
		t.Errorf("afterwards, press sees %q", got)
	}
	actions := func(f *fixture) int {
		var page TrailPage
		f.call("GET", "/v1/accounts/sales-1/trail", "", 200, &page)
		return len(page.Entries)
	}
	if bound, all := actions(press), actions(f); bound != 1 || all != 3 {
		t.Errorf("press sees %d entries of the trail, who is not bound %d", bound, all)
	}
}

// The cache of who may see which account is bounded.
func TestSightIsBounded(t *testing.T) {
	var s sight
	now := time.Now()
	for n := range sights/1000 + 2 {
		var ids []string
		for i := range 1000 {
			ids = append(ids, fmt.Sprintf("%d-%d", n, i))
		}
		s.remember("labels", ids, map[string]time.Time{ids[0]: {}}, now)
		if len(s.known) > sights || !s.known[sightOf{"labels", ids[0]}].seen || s.known[sightOf{"labels", ids[1]}].seen || s.known[sightOf{"other", ids[0]}].seen {
			t.Fatalf("%d are kept", len(s.known))
		}
	}
}

// Counts are kept for a while for callers with the same labels, and not shown to others.
func TestCountsAreShared(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.RequireKey = true })
	f.world()
	registered := func(name string, labels access.Labels) int {
		t.Helper()
		var s Stats
		f.as(f.key(key.New{Name: name, Role: access.Viewer, Labels: labels})).call("GET", "/v1/stats", "", 200, &s)
		return s.Accounts.Registered
	}
	if n := registered("a", access.Labels{"team": "press"}); n != 2 {
		t.Errorf("press: %d", n)
	}
	if _, err := f.api.options.Registry.Create(t.Context(), accounts.Account{ID: "another", Kind: "plain", Labels: access.Labels{"team": "press"}}); err != nil {
		t.Fatal(err)
	}
	if n := registered("b", access.Labels{"team": "press"}); n != 2 {
		t.Errorf("counted anew: %d", n)
	}
	// Different labels do not share counts, even if their joined texts look the same.
	if n := registered("c", access.Labels{"team": "press,x=y"}); n != 0 {
		t.Errorf("others: %d", n)
	}
	for labels, known := range f.api.counts.known {
		known.at = known.at.Add(-countLasts)
		f.api.counts.known[labels] = known
	}
	if n := registered("d", access.Labels{"team": "press"}); n != 3 {
		t.Errorf("a while later: %d", n)
	}
}

// Only bound.go uses the registry of all accounts. All other files use the registry as the
// caller may see it.
func TestOneWayToTheAccounts(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if name == "bound.go" {
			want = 1
		}
		if n := strings.Count(string(text), "options.Registry"); n != want && !strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s: options.Registry %d times, want %d", name, n, want)
		}
	}
	// Without a principal there is no access to the accounts.
	f := newFixture(t, nil)
	defer func() {
		if recover() == nil {
			t.Error("nobody came to the accounts")
		}
	}()
	f.api.registry(t.Context())
}
