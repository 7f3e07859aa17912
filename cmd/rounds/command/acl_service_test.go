package command

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/oidctest"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/upstream"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

// underACL is a service with every role. Its Redis user has exactly the rights that the guide
// shows.
type underACL struct {
	*testing.T
	variables map[string]string
	reached   map[string]bool // the program's commands that were run
}

// run runs a command, which must not fail.
func (u *underACL) run(args ...string) string {
	u.Helper()
	return u.runIn("", args...)
}

// runIn runs a command with stdin as its input. The command must not fail.
func (u *underACL) runIn(stdin string, args ...string) string {
	u.Helper()
	printed, err := runWith(u.Context(), u.variables, stdin, args...)
	if err != nil {
		u.Errorf("rounds %s: %v\n%s%s", strings.Join(args, " "), err, printed.out, printed.err)
	}
	if cmd, _, err := newRoot(environment{}).Find(args); err == nil {
		u.reached[cmd.CommandPath()] = true
	}
	return printed.out
}

// until repeats a command until its output contains want.
func (u *underACL) until(want string, args ...string) string {
	u.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		out := u.run(args...)
		if strings.Contains(out, want) {
			return out
		}
		if u.Failed() || time.Now().After(deadline) {
			u.Fatalf("rounds %s: no %q in\n%s", strings.Join(args, " "), want, out)
		}
	}
}

// withoutRedis are the commands that never reach Redis, not even through the API.
var withoutRedis = []string{"check", "completion", "connector", "demo", "help", "settings", "version", "serve"} // serve runs all the time

// signIn signs a WeChat account in, whose owner scans the code and confirms.
func (u *underACL) signIn() {
	u.Helper()
	fake, stop, err := ilinkd.Serve(ilink.Options{Hold: 50 * time.Millisecond})
	if err != nil {
		u.Fatal(err)
	}
	defer stop()
	done := make(chan struct{})
	defer func() { <-done }()
	go func() {
		defer close(done)
		look := time.NewTicker(20 * time.Millisecond)
		defer look.Stop()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); <-look.C {
			if codes := fake.Codes(); len(codes) > 0 {
				fake.Scan(codes[0], "owner", "")
				fake.Confirm(codes[0])
				return
			}
		}
	}()
	if out := u.run("weixin", "login", "me", "--base-url", fake.URL()); !strings.Contains(out, "me is signed in") {
		u.Errorf("got %s", out)
	}
	u.run("account", "rm", "me", "--yes")
}

// signInMailbox signs a mailbox in, whose owner consents on another device.
func (u *underACL) signInMailbox(provider *oidctest.Provider) {
	u.Helper()
	done := make(chan struct{})
	defer func() { <-done }()
	go func() {
		defer close(done)
		look := time.NewTicker(20 * time.Millisecond)
		defer look.Stop()
		for end := time.Now().Add(time.Minute); provider.Issued() == 0 && time.Now().Before(end); <-look.C {
			provider.Decide("")
		}
	}()
	if out := u.run("mail", "login", "me", "--provider", provider.URL, "--user", "me@example.com", "--host", "127.0.0.1"); !strings.Contains(out, "WDJB-MJHT") || !strings.Contains(out, "me is signed in") {
		u.Errorf("got %s", out)
	}
	u.run("account", "rm", "me", "--yes")
}

// TestServiceUnderTheGuidesACL runs every role, and every command that reaches Redis, as the
// user that the guide shows. Redis must not refuse anything, and the user must have no right
// that is not used. The test costs a second of processor time. It mostly waits for a change
// of the number of shards, which takes ten seconds to settle.
func TestServiceUnderTheGuidesACL(t *testing.T) {
	t.Parallel()
	rules, _ := guideACL(t)
	server, url := startWithUser(t, rules)
	site, closeSite, err := upstream.Serve(upstream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeSite()
	kf, closeKF, err := wecom.Serve(wecom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeKF()
	kf.AddCorp("ww1", "kf-secret")
	kf.AddAccount("ww1", "kf1")
	kf.PostN("kf1", 3)
	var refusing atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if refusing.Load() {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer receiver.Close()
	webhooks := filepath.Join(t.TempDir(), "webhooks.json")
	if err := os.WriteFile(webhooks, fmt.Appendf(nil, `{"endpoints":[{"name":"crm","url":%q,"secrets":[{"secret":"CRM"}],"ordered":true}]}`, receiver.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := secrets.Generate()
	if err != nil {
		t.Fatal(err)
	}
	private, err := key.Text()
	if err != nil {
		t.Fatal(err)
	}
	provider := oidctest.Start(t)
	provider.Offline(oidctest.Offline{Devices: true, Rotates: true})
	registrationName, registration := registrationOf(provider)
	addr := freeLoopback(t)
	u := &underACL{T: t, reached: make(map[string]bool), variables: map[string]string{
		"ROUNDS_REDIS_URL": url, "ROUNDS_SHARDS": "4", "ROUNDS_ROLES": "api,poller,monitor,delivery",
		"ROUNDS_API_ADDR": addr, "ROUNDS_API_URL": "http://" + addr, "ROUNDS_ALLOW_NETWORKS": "127.0.0.1",
		"ROUNDS_API_TOKEN": "0123456789abcdef", "ROUNDS_WEBHOOKS_FILE": webhooks,
		"ROUNDS_SECRETS_KEY": private, registrationName: registration, "ROUNDS_SERVICE_SECRET_CRM": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "ROUNDS_SECRET_KF": "kf-secret",
		"ROUNDS_LIMITS": "feed rate=1000/s; http concurrency=4", "ROUNDS_HEARTBEAT_INTERVAL": "200ms", "ROUNDS_DEAD_AFTER": "1s",
		"ROUNDS_SWEEP_INTERVAL": "100ms", "ROUNDS_AUDIT_INTERVAL": "1s", "ROUNDS_AUDIT_REPAIR": "true",
		"ROUNDS_MESSAGES_KEPT": "1", "ROUNDS_DEAD_LETTERS_KEPT": "1", "ROUNDS_LOG_FORMAT": "json",
		"VISUAL": filepath.Join(t.TempDir(), "editor"), // set before the service, which reads the same, runs
	}}
	p := startProgram(t, u.variables, "serve")
	processes.AwaitStatus(t, "http://"+addr+"/readyz", http.StatusOK)
	backup := filepath.Join(t.TempDir(), "rounds.ndjson")
	site.Post("news")
	site.Post("bot")
	u.accounts(site, kf)
	u.messages(site, &refusing)
	u.run("webhooks", "add", "added", receiver.URL, "--events")
	u.run("webhooks", "test", "added")
	u.run("webhooks", "set", "added", "--kind", "feed", "--new-key")
	u.run("webhooks", "remove", "added", "--yes")
	u.signIn()
	u.signInMailbox(provider)
	u.sends()
	u.run("backup", backup)
	u.upkeep()
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	u.abandon(url)
	u.variables["ROUNDS_ROLES"] = "monitor"
	monitor := startProgram(t, u.variables, "serve")
	monitor.log.Await(t, "a replica is dead: its accounts were requeued")
	if err := monitor.stop(); err != nil {
		t.Error(err)
	}
	u.run("namespace", "rm", "rounds", "--yes", "--force")
	u.run("restore", backup)
	u.run("namespace", "rm", "rounds", "--yes", "--force")

	u.expectAllCommands()
	for _, refused := range refusedByRedis(t, server) {
		t.Errorf("refused: %s", refused)
	}
	if log := p.log.String(); strings.Contains(log, "NOPERM") || strings.Contains(log, "may not be asked") {
		t.Errorf("the log has a refusal:\n%s", log)
	}
	used, may := usedOfRedis(t, server), allowed(t, rules)
	for _, command := range slices.Sorted(maps.Keys(may)) {
		if !used[command] && rarely[command] == "" {
			t.Errorf("the guide allows %s, which no role and no command has used", command)
		}
	}
	source := commandsOfSource(t)
	for command, why := range rarely {
		if !may[command] || !source[command] && !strings.HasPrefix(why, "redigo") {
			t.Errorf("%s is not allowed, or nothing sends it: %s", command, why)
		}
	}
	t.Logf("%d commands are allowed, %d were used", len(may), len(used))
}

// rarely are the Redis commands that are sent only if something is out of order, or if two
// things happen at once.
var rarely = map[string]string{
	"rename":       "a key of a wrong type is set aside",
	"rpush":        "a replica that goes down gives back what it did not check",
	"pttl":         "sessions of people who signed in are kept longer",
	"sismember":    "an account comes into a shard that a change of their number has begun to fill",
	"scard":        "an account's messages of the last days are counted now and then",
	"srem":         "a message that came without its id comes again with it",
	"xgroup|setid": "Redis counted wrongly, after a restart, what a group has read",
	"xinfo|stream": "a consumer that has read a stream to its end meets it again",
}

// expectAllCommands expects that every command of the program was run, except those that do
// not use Redis.
func (u *underACL) expectAllCommands() {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		words := strings.Fields(cmd.CommandPath())
		if len(words) > 1 && slices.Contains(withoutRedis, words[1]) {
			return
		}
		if len(cmd.Commands()) == 0 && !u.reached[cmd.CommandPath()] {
			u.Errorf("%q was not run: add it to this test, so that its rights are known", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(environment{}))
}

// accounts runs the commands about accounts.
func (u *underACL) accounts(site *upstream.Upstream, kf *wecom.WeCom) {
	u.run("account", "add", "news", "--kind", "feed", "--set", "url="+site.URL("feed", "news"), "--every", "1s", "--label", "team=press")
	u.run("account", "add", "bot", "--kind", "http", "--set", "url="+site.URL("connector", "bot"), "--every", "1s")
	u.run("account", "add", "kf", "--kind", "wecom-kf", "--set", "corp_id=ww1", "--set", "open_kfid=kf1", "--set", "base_url="+kf.URL(), "--set", `secret={"secret":"KF"}`, "--every", "1s")
	site.Fail("gone", upstream.Fault{Status: http.StatusGone})
	u.run("account", "add", "gone", "--kind", "feed", "--set", "url="+site.URL("feed", "gone"), "--every", "1s")
	u.until("last success  2", "account", "why", "news")
	u.until("last success  2", "account", "why", "bot")
	u.until("last success  2", "account", "why", "kf")
	u.until(`"status":`, "account", "checks", "news", "--json")
	u.run("account", "checks", "news")
	u.run("account", "get", "news")
	for _, flags := range [][]string{{}, {"--label", "team=press"}, {"--state", "failing"}, {"--sort", "due", "--limit", "1"}, {"--json"}} {
		u.run(append([]string{"account", "list"}, flags...)...)
	}
	u.run("account", "set", "news", "--every", "2s", "--priority", "urgent")
	version, _, _ := strings.Cut(u.run("account", "versions", "news"), " ")
	u.run("account", "restore", "news", version, "--dry-run")
	u.run("account", "restore", "news", version, "--yes")
	u.run("account", "set", "news", "--every", "2s", "--priority", "urgent")
	if err := os.WriteFile(u.variables["VISUAL"], []byte("#!/bin/sh\nsed -i s/press/desk/ \"$1\"\n"), 0o700); err != nil {
		u.Fatal(err)
	}
	u.run("account", "edit", "news")
	u.run("account", "nudge", "news")
	u.run("account", "retry", "news")
	u.run("account", "pause", "news")
	u.run("account", "resume", "news")
	u.run("account", "pause", "--label", "team=desk")
	u.run("account", "resume", "--label", "team=desk")
	u.jobs()
	file := filepath.Join(u.TempDir(), "accounts.ndjson")
	u.run("account", "export", file, "--with-state")
	u.run("account", "import", file)
	u.until("gone", "parked", "list")
	site.Heal("gone")
	u.run("parked", "revive", "gone")
	u.run("account", "rm", "gone", "--yes")
	u.run("trail")
}

// jobs runs the commands about changes of many accounts.
func (u *underACL) jobs() {
	u.Helper()
	var j struct{ ID string }
	if out := u.run("account", "pause", "--label", "team=desk", "--job", "--json"); json.Unmarshal([]byte(out), &j) != nil {
		u.Fatal(out)
	}
	for _, verb := range []string{"stop", "resume"} { // it may have ended before
		if _, err := runWith(u.Context(), u.variables, "", "jobs", verb, j.ID); err != nil && !strings.Contains(err.Error(), "the job has ended") {
			u.Error(err)
		}
		u.reached["rounds jobs "+verb] = true
	}
	u.until("ended", "jobs", "show", j.ID)
	u.until("changed=1", "jobs", "show", j.ID)
	u.run("jobs", "undo", j.ID)
	u.until("ended", "jobs", "show", j.ID+"-undo")
	u.run("jobs", "list")
}

// messages runs the commands about messages and their consumers.
func (u *underACL) messages(site *upstream.Upstream, refusing *atomic.Bool) {
	var found struct {
		Shard    int    `json:"shard"`
		Position string `json:"position"`
	}
	if out := u.run("messages", "tail", "--from", "start", "--limit", "1", "--json"); json.Unmarshal([]byte(out), &found) != nil {
		u.Fatalf("a message: %s", out)
	}
	u.run("messages", "search", "a", "--limit", "1")
	u.run("messages", "save", fmt.Sprintf("%d:%s", found.Shard, found.Position), "--to", u.TempDir())
	u.run("messages", "tail", "--group", "audit", "--from", "start", "--limit", "1")
	u.run("groups", "list")
	u.run("groups", "rm", "audit", "--yes")
	refusing.Store(true)
	for range 3 {
		site.Post("news")
	}
	u.run("account", "nudge", "news")
	u.until("news", "webhooks", "show", "crm")
	u.run("webhooks", "list")
	u.run("kinds")
	u.run("webhooks", "retry", "crm")
	u.run("webhooks", "retry", "crm", "--account", "news")
	u.run("webhooks", "attempts", "crm")
	u.run("webhooks", "skip", "crm", "--account", "news")
	var dead struct {
		ID string `json:"dead_id"`
	}
	if out := u.until("webhook.crm", "dead", "list", "--json"); json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &dead) != nil || dead.ID == "" {
		u.Fatalf("no dead letter in %s", out)
	}
	refusing.Store(false)
	u.run("dead", "replay", dead.ID)
	u.run("webhooks", "enable", "crm")
	u.run("webhooks", "retry", "crm")
	u.run("dead", "drop", dead.ID)
}

// sessions signs somebody in, and out again.
func (u *underACL) sessions() {
	r, err := http.NewRequestWithContext(u.Context(), http.MethodPost, u.variables["ROUNDS_API_URL"]+"/v1/session", nil)
	if err != nil {
		u.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+u.variables["ROUNDS_API_TOKEN"])
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		u.Fatal(err)
	}
	_ = reply.Body.Close()
	var signed api.SignedIn
	if err := json.Unmarshal([]byte(u.run("sessions", "list", "--json")), &signed); err != nil || reply.StatusCode != http.StatusCreated {
		u.Fatalf("signing in answers %d, %v", reply.StatusCode, err)
	}
	u.run("sessions", "end", signed.ID)
}

// upkeep runs the commands for operators.
func (u *underACL) upkeep() {
	u.run("stats")
	u.run("problems")
	u.run("concerns", "list")
	u.run("concerns", "acknowledge", "overdue", "--note", "seen")
	u.run("concerns", "silence", "overdue", "--lasts", "1h", "--reason", "a test")
	u.run("concerns", "unsilence", "overdue")
	u.run("maintenance", "set", "disks", "--host", "news.example", "--lasts", "1h", "--reason", "new disks")
	u.run("maintenance", "list")
	u.sessions()
	u.run("maintenance", "end", "disks")
	u.run("views", "save", "fails", "--where", "state=failing")
	u.run("views", "list")
	u.run("account", "list", "--view", "fails")
	u.run("views", "rm", "fails")
	u.run("account", "list", "--state", "failing", "--cause", "http_404~12345678")
	u.runIn("s3cret", "secret", "set", "STORED", "--host", "api.example.com")
	u.run("secret", "list")
	u.run("secret", "keygen")
	u.run("secret", "rotate")
	u.run("secret", "rm", "STORED", "--yes")
	u.run("audit")
	u.run("audit", "--repair")
	u.run("health")
	u.run("doctor", "--audit")
	u.run("reload")
	u.run("key", "create", "press", "--role", "viewer", "--label", "team=press")
	u.run("key", "list")
	u.run("key", "revoke", "press")
	u.run("whoami")
	u.run("reshard", "--to", "8", "--dry-run")
	u.run("reshard", "--to", "8")
	u.run("audit")
}

// sends runs the commands about sends, at a connector that cuts the connection of the first.
func (u *underACL) sends() {
	var asked atomic.Int32
	connector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/send" && asked.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, `{"id":"7"}`)
	}))
	defer connector.Close()
	u.run("account", "add", "desk", "--kind", "http", "--set", "url="+connector.URL, "--set", "send_url="+connector.URL+"/send", "--every", "1h")
	send := func(text string) string {
		var s struct{ ID string }
		if out := u.run("send", "desk", "--to", "anna", "--text", text, "--json"); json.Unmarshal([]byte(out), &s) != nil {
			u.Fatalf("got %s", out)
		}
		return s.ID
	}
	first := send("Are you there?")
	u.until("unknown", "sends", "show", first)
	u.run("sends", "list", "--state", "unknown")
	u.run("sends", "retry", first, "--yes")
	u.until("accepted", "sends", "show", first)
	u.run("account", "pause", "desk")
	u.run("sends", "cancel", send("Never mind."))
	u.run("account", "resume", "desk")
	asked.Store(0)
	second := send("Hello?")
	u.until("unknown", "sends", "show", second)
	u.run("sends", "resolve", second, "--as", "rejected", "--reason", "it is not there")
	u.run("account", "rm", "desk", "--yes")
}

// abandon claims an account for a replica that never sends a heartbeat.
func (u *underACL) abandon(url string) {
	u.Helper()
	server, err := connect.OpenSingle(url, connect.Options{})
	if err != nil {
		u.Fatal(err)
	}
	defer server.Close()
	ring, err := circulate.Open(u.Context(), server, circulate.Options{})
	if err != nil {
		u.Fatal(err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-tick.C {
		for shard := range ring.Shards() {
			batch, err := ring.Claim(u.Context(), shard, circulate.NewReplica(), 100, 0)
			if err != nil {
				u.Fatal(err)
			}
			if len(batch.Claims) > 0 {
				return
			}
		}
	}
	u.Fatal("no account was due")
}
