package concern

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/budget"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/circulate/document"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// process returns a process that has run for an hour.
func process(name string, silent time.Duration, roles ...string) accounts.Process {
	return accounts.Process{Name: name, Roles: roles, Beat: now.Add(-silent), Report: accounts.ProcessReport{Version: "v1", Since: now.Add(-time.Hour)}}
}

func replica(name string, report accounts.Report) accounts.Replica {
	report.Kinds = []string{"feed", "http"}
	return accounts.Replica{Name: name, Beat: now, Report: report}
}

// healthy returns the facts of a service that nothing is wrong with.
func healthy() *facts {
	return &facts{
		now: now, deadAfter: 10 * time.Second, told: now.Add(-20 * time.Second),
		law: Law{Now: now, State: Kept, Last: &AuditResult{At: now.Add(-time.Minute)}},
		stats: accounts.Stats{
			Now:       now,
			Replicas:  []accounts.Replica{replica("r1", accounts.Report{})},
			Processes: []accounts.Process{process("p1", 0, "poller"), process("p2", 0, "monitor", "delivery")},
			Staleness: &accounts.Staleness{At: now.Add(-time.Minute), Scanned: 1000, Headroom: []accounts.Headroom{{Kind: "wecom-kf", Least: 1e5}}},
			Failing:   &accounts.Failing{Accounts: 20, Newly: 2, Kinds: []accounts.FailingKind{{Kind: "feed", Behind: 5}}},
		},
		watched: Watched{
			Counted: &Counted{Registered: 1000, Waiting: 10, Overdue: 3},
			Groups:  &Groups{All: []Group{{Name: "crm", Messages: 5, Oldest: 2}, {Name: "webhook.a", Messages: 1, Oldest: 1}}},
			Dead:    &Dead{},
		},
		reports: map[string][]document.Report{"a": {{Endpoint: "a", Outcome: "delivered", Status: 200, At: now, Breaker: "closed"}}},
	}
}

// Every concern with its cause: the facts that differ from a healthy service's, and the
// code and level that follow. Each has a sentence with the relevant parameters.
func TestJudge(t *testing.T) {
	lost := &AuditResult{Kinds: []FindingCount{{Kind: circulate.Lost, Found: 3, Repaired: 1}}, Findings: []circulate.Finding{{ID: "a1"}}, At: now}
	for name, test := range map[string]struct {
		change func(f *facts)
		want   string // CODE LEVEL, several separated by commas
		says   string // in the first sentence
	}{
		"nothing":             {func(*facts) {}, "", ""},
		"accounts are lost":   {func(f *facts) { f.law.State, f.law.Last = Violated, lost }, "law_violated bad", "^2 accounts"},
		"found while running": {func(f *facts) { f.law.State, f.law.Running = Violated, lost }, "law_violated bad", "^2 accounts"},
		"an audit broke off":  {func(f *facts) { f.law.State, f.law.Broken = Broken, lost }, "audit_broken warn", "broke off"},
		"an audit is old":     {func(f *facts) { f.law.State, f.law.Last.At = Old, now.Add(-time.Hour) }, "audit_old warn", "1h0m0s"},
		"an audit found else": {func(f *facts) {
			f.law.State = Flawed
			f.law.Last.Kinds = []FindingCount{{Kind: circulate.Orphan, Found: 4}}
		}, "law_flawed warn", "4 findings"},
		"never audited":              {func(f *facts) { f.law = Law{Now: now, State: Never} }, "", ""},
		"no replica":                 {func(f *facts) { f.stats.Replicas = nil; f.watched.Counted.Overdue = 1000 }, "no_replica bad", "no account"},
		"a dead replica":             {func(f *facts) { f.stats.Replicas[0].Beat = now.Add(-10 * time.Second) }, "no_replica bad", "no account"},
		"no monitor":                 {func(f *facts) { f.stats.Processes = f.stats.Processes[:1] }, "no_monitor bad", "nobody requeues"},
		"a silent monitor":           {func(f *facts) { f.stats.Processes[1].Beat = now.Add(-time.Minute) }, "no_monitor bad,process_silent warn", "no monitor"},
		"a monitor that waits":       {func(f *facts) { f.told = now.Add(-5 * time.Minute) }, "watch_old warn", "does not tell"},
		"a budget":                   {func(f *facts) { f.budget = budget.Standing{Budget: 10, Spent: 10, Ceiling: 0.5} }, "", ""},
		"a budget that is too small": {func(f *facts) { f.budget = budget.Standing{Budget: 10, Spent: 15, Ceiling: 1} }, "budget_too_small warn", "spend 150.0 %"},
		"a budget that is too large": {func(f *facts) { f.budget = budget.Standing{Budget: 10, Spent: 5, Floor: 1} }, "budget_unused note", "spend 50.0 %"},
		"a new monitor": {func(f *facts) {
			f.told, f.stats.Processes[1].Report.Since = time.Time{}, now.Add(-time.Minute)
		}, "", ""},
		"an outage": {func(f *facts) {
			f.stats.Replicas = append(f.stats.Replicas, replica("r2", accounts.Report{Outage: true}), replica("r3", accounts.Report{Outage: true}))
		}, "outage_suspected bad", "replica r2 and 1 other"},
		"an outage of the dead": {func(f *facts) {
			f.stats.Replicas = append(f.stats.Replicas, accounts.Replica{Name: "r2", Beat: now.Add(-time.Minute), Report: accounts.Report{Outage: true}})
		}, "", ""},
		"memory is short": {func(f *facts) { f.stats.Replicas[0].Report.MemoryShort = true }, "memory_short bad", "r1"},
		"redis evicts": {func(f *facts) {
			f.redis = Redis{{"n1", "eviction", "allkeys-lru", ""}, {"n2", "eviction", "allkeys-lru", ""}}
		}, "redis_eviction bad", "n1 and 1 other server: maxmemory-policy is allkeys-lru"},
		"redis cannot append": {func(f *facts) { f.redis = Redis{{"n1", "append_fails", "", ""}} }, "redis_append_fails bad", "n1"},
		"redis refuses":       {func(f *facts) { f.redis = Redis{{"n1", "snapshot_fails", "", ""}} }, "redis_snapshot_fails bad", "refuses all writes"},
		"data is not saved":   {func(f *facts) { f.redis = Redis{{"/data", "unsaved", "no space left on device", ""}} }, "redis_unsaved bad", "/data cannot be written .no space left on device."},
		"data was damaged":    {func(f *facts) { f.redis = Redis{{"/data", "damaged", "data.damaged-1.zst", ""}} }, "redis_damaged warn", "is now data.damaged-1.zst"},
		"data is large":       {func(f *facts) { f.redis = Redis{{"/data", "large", "", ""}} }, "redis_large warn", "time for a Redis"},
		"redis never syncs":   {func(f *facts) { f.redis = Redis{{"n1", "no_fsync", "", ""}} }, "redis_no_fsync warn", "appendfsync is no"},
		"redis is filling":    {func(f *facts) { f.redis = Redis{{"n1", "memory", "81", ""}} }, "redis_memory warn", "81 %"},
		"redis is full":       {func(f *facts) { f.redis = Redis{{"n1", "memory", "95", ""}} }, "redis_memory bad", "95 %"},
		"redis is over":       {func(f *facts) { f.redis = Redis{{"n1", "memory", "101", ""}} }, "redis_memory bad", "101 %"},
		"redis forgets":       {func(f *facts) { f.redis = Redis{{"n1", "appendonly", "", ""}} }, "redis_appendonly warn", "n1"},
		"redis alone":         {func(f *facts) { f.redis = Redis{{"n1", "min_replicas", "", ""}} }, "redis_min_replicas warn", "n1"},
		"redis is silent":     {func(f *facts) { f.redis = Redis{{"n1", "unasked", "CONFIG", ""}} }, "redis_unasked note", "CONFIG"},
		"redis of later":      {func(f *facts) { f.redis = Redis{{"n1", "else", "", ""}} }, "", ""},
		"the clock": {func(f *facts) {
			f.stats.ClockStep = &accounts.ClockStep{At: now.Add(-time.Minute), Seconds: -90, Moved: 7}
		}, "clock_stepped warn", "back by 1m30s; 7"},
		"the clock long ago": {func(f *facts) { f.stats.ClockStep = &accounts.ClockStep{At: now.Add(-time.Hour), Seconds: 90} }, "", ""},
		"a kind of nobody":   {func(f *facts) { f.stats.Failing.Kinds[0].Kind = "own" }, "kind_unchecked bad", "kind own"},
		"a kind that waits":  {func(f *facts) { f.watched.Counted.Missing = []string{"own", "feed"} }, "kind_unchecked bad", "kind own$"},
		"replicas of before": {func(f *facts) { f.stats.Replicas[0].Report.Kinds = nil }, "", ""},
		"overdue":            {func(f *facts) { f.watched.Counted.Overdue = 120 }, "overdue warn", "^10 accounts are overdue, the longest for 2m0s"},
		"long overdue":       {func(f *facts) { f.watched.Counted.Overdue = 600 }, "overdue bad", ""},
		"sends in doubt": {func(f *facts) {
			f.watched.Doubts = &Doubts{Age: Age{At: now}, Sends: 3, Oldest: now.Add(-time.Hour)}
		}, "sends_unknown warn", "^nobody knows whether 3 sends have arrived; the oldest was queued 1h0m0s ago"},
		"sends without a doubt":    {func(f *facts) { f.watched.Doubts = &Doubts{} }, "", ""},
		"a jump":                   {func(f *facts) { f.watched.Failing = &Failing{Newly: 10, Of: 1000} }, "failing_jumped warn", "^10 of 1000 accounts in circulation, 1.0 %"},
		"a high jump":              {func(f *facts) { f.watched.Failing = &Failing{Newly: 300, Of: 1200} }, "failing_jumped bad", "^300 of 1200 accounts in circulation, 25.0 %"},
		"a jump of few":            {func(f *facts) { f.watched.Failing = &Failing{Newly: 2, Of: 10} }, "", ""},
		"a jump of the only one":   {func(f *facts) { f.watched.Failing = &Failing{Newly: 1, Of: 1} }, "failing_jumped bad", "^1 of 1 account in circulation, "},
		"a jump of the scan alone": {func(f *facts) { f.stats.Failing.Newly = 200 }, "", ""},
		"endpoints of nobody": {func(f *facts) {
			f.webhooks, f.stats.Processes[1].Roles = true, []string{"monitor"}
		}, "no_delivery_role warn", "no process has the role delivery"},
		"endpoints of nobody yet": {func(f *facts) {
			f.webhooks, f.stats.Processes[1].Roles = true, []string{"monitor"}
			f.stats.Processes[0].Report.Since, f.stats.Processes[1].Report.Since = now.Add(-9*time.Second), now.Add(-9*time.Second)
		}, "", ""},
		"endpoints of nobody soon": {func(f *facts) {
			f.webhooks, f.stats.Processes[1].Roles = true, []string{"monitor"}
			f.stats.Processes[0].Report.Since, f.stats.Processes[1].Report.Since = now.Add(-10*time.Second), now.Add(-9*time.Second)
		}, "no_delivery_role warn", "no process has the role delivery"},
		"endpoints of another process": {func(f *facts) { f.webhooks = true }, "", ""},
		"headroom": {func(f *facts) {
			f.stats.Staleness.Headroom = []accounts.Headroom{{Kind: "wecom-kf", Low: 4, Least: 3600}, {Kind: "own", Low: 1, Least: 60}}
		}, "headroom_low warn", "^5 accounts of the kind own and 1 other kind will lose messages, the first in 1m0s"},
		"no headroom": {func(f *facts) {
			f.stats.Staleness.Headroom[0] = accounts.Headroom{Kind: "wecom-kf", Low: 4, Critical: 1, Least: -1}
		}, "headroom_low bad", "lost already"},
		"a webhook disabled": {func(f *facts) { f.disabled = []circulate.DisabledEndpoint{{Name: "a", Reason: "410"}} }, "webhook_disabled bad", "webhook a is disabled: 1 message waits"},
		"a webhook disabled, nothing known to wait": {func(f *facts) {
			f.disabled, f.watched.Groups = []circulate.DisabledEndpoint{{Name: "a", Reason: "410"}}, nil
		}, "webhook_disabled bad", "^webhook a is disabled and gets no messages$"},
		"a webhook for a kind of nobody": {func(f *facts) { f.reports["a"][0].Kinds = []string{"htpp", "feed"} }, "webhook_kind warn",
			"^webhook a is for the kind htpp, which no living replica checks"},
		"a webhook for a kind of nobody, while its group lags": {func(f *facts) {
			f.reports["a"][0].Kinds, f.watched.Groups.All[1].Oldest = []string{"htpp"}, 600
		}, "webhook_kind warn,group_lagging warn", ""},
		"a webhook for a kind while no replica is alive": {func(f *facts) {
			f.stats.Replicas, f.reports["a"][0].Kinds = nil, []string{"feed"}
		}, "no_replica bad", ""},
		"a webhook refused": {func(f *facts) {
			f.reports["a"] = []document.Report{{Outcome: "rejected", Status: 400, At: now, Messages: 12}, {Outcome: "delivered", Status: 200, At: now.Add(-time.Hour)}}
			f.watched.Groups.All[1].Oldest = 1200
		}, "webhook_refused warn", `webhook a does not take messages \(400\): 12 messages wait, the oldest for 20m0s`},
		"a webhook that refuses, just now": {func(f *facts) {
			f.reports["a"] = []document.Report{{Outcome: "rejected", Status: 400, At: now, Messages: 5, Waiting: []document.Waiting{
				{Position: circulate.StreamIDAt(now.Add(-9 * time.Second)).String()}, {Position: circulate.StreamIDAt(now).String()},
			}}}
			f.watched.Groups.All[1].Oldest = 0
		}, "webhook_refused warn", `5 messages wait, the oldest for 9s`},
		"a webhook that refuses some": {func(f *facts) {
			f.reports["a"] = []document.Report{{Outcome: "delivered", Status: 204, At: now, Delivered: now, Messages: 12}}
		}, "webhook_refused warn", `webhook a does not take some messages: 12 messages wait`},
		"a webhook without its secret": {func(f *facts) {
			f.reports["a"] = []document.Report{{Messages: 40}}
			f.watched.Groups.All[1].Deferred = "secret CRM: not found"
		}, "webhook_refused warn", `webhook a does not take messages \(secret CRM: not found\): 40 messages wait`},
		"a breaker opened": {func(f *facts) {
			f.reports["a"] = []document.Report{{Outcome: "failed", At: now, Messages: 1, Breaker: "open"}}
		}, "webhook_refused bad", `\(failed\)`},
		"a webhook that is not reached": {func(f *facts) {
			f.reports["a"] = []document.Report{{Endpoint: "a", Outcome: "unreachable", Why: "no connection to the host: connection refused", At: now, Messages: 2, Breaker: "open", Waiting: []document.Waiting{
				{Account: "x", Why: "webhook a: answered 500"}, {Account: "y", Why: "webhook a: no connection to the host: connection refused"},
			}}}
		}, "webhook_refused bad", `\(no connection to the host: connection refused\): 2 messages wait`},
		"a webhook away, after answers": {func(f *facts) {
			f.reports["a"] = []document.Report{{Endpoint: "a", Outcome: "unreachable", Why: "timed out", At: now, Messages: 1, Waiting: []document.Waiting{{Account: "x", Why: "webhook a: answered 500"}}}}
		}, "webhook_refused warn", `\(timed out\): 1 message waits`},
		"just after an outage": {func(f *facts) {
			f.stats.Outage = circulate.Outage{From: now.Add(-20 * time.Minute), Till: now.Add(-time.Second)}
			f.told, f.reports, f.webhooks = f.stats.Outage.From, nil, true
			for i := range f.stats.Processes {
				f.stats.Processes[i].Beat = f.told
			}
			f.stats.Replicas[0].Beat = f.told
		}, "", ""},
		"just after an outage, all forgotten": {func(f *facts) {
			f.stats.Outage = circulate.Outage{From: now.Add(-20 * time.Minute), Till: now.Add(-time.Second)}
			f.told, f.reports, f.webhooks, f.stats.Processes, f.stats.Replicas = f.stats.Outage.From, nil, true, nil, nil
		}, "", ""},
		"no delivery":             {func(f *facts) { f.reports = nil }, "no_delivery bad", "webhook a: 1 message "},
		"delivery starts":         {func(f *facts) { f.reports, f.stats.Processes[1].Report.Since = nil, now }, "", ""},
		"a group lags":            {func(f *facts) { f.watched.Groups.All[0].Oldest = 600 }, "group_lagging warn", "group crm lags: 5 messages"},
		"a group that just waits": {func(f *facts) { f.watched.Groups.All[0].Oldest = 119 }, "", ""},
		"a group alone":           {func(f *facts) { g := &f.watched.Groups.All[0]; g.Oldest, g.Alone = 120, true }, "group_lagging warn", "group crm lags, and none of its consumers is alive: 5 messages"},
		"a group that puts off":   {func(f *facts) { g := &f.watched.Groups.All[0]; g.Oldest, g.Deferred = 120, "no table" }, "group_lagging warn", `group crm lags, and its handler does not handle messages \(no table\): 5 messages`},
		"a group far back":        {func(f *facts) { f.watched.Groups.All[0].Near = true }, "group_lagging bad", ""},
		"dead letters":            {func(f *facts) { f.watched.Dead = &Dead{Letters: 3, Oldest: 60} }, "dead_letters warn", "^3 messages could not be delivered .dead letters., the oldest 1m0s"},
		"quarantine":              {func(f *facts) { f.watched.Quarantined = &InQuarantine{Accounts: 6} }, "quarantined warn", "^6 accounts"},
		"messages dropped":        {func(f *facts) { f.watched.Trimmed = &Trimmed{Early: 9} }, "messages_dropped warn", "^9 messages"},
		"redis in its own words":  {func(f *facts) { f.redis = Redis{{"n1", "appendonly", "", "redis n1: set appendonly to yes"}} }, "redis_appendonly warn", "^redis n1: set appendonly to yes$"},
		"a replaced process": {func(f *facts) {
			f.stats.Processes = append(f.stats.Processes, process("p3", time.Minute, "api"), process("p4", 0, "api"))
			f.stats.Processes[3].Report.Since = now.Add(-30 * time.Second)
		}, "", ""},
		"a silent process": {func(f *facts) { f.stats.Processes = append(f.stats.Processes, process("p3", time.Minute, "api")) }, "process_silent warn", "p3"},
		"settings": {func(f *facts) {
			for i, value := range []string{"1", "2"} {
				f.stats.Processes[i].Report.Settings = map[string]string{"ROUNDS_X": value, "ROUNDS_Y": value}
			}
		}, "settings_differ warn", "and 1 other setting"},
		"versions": {func(f *facts) { f.stats.Processes[0].Report.Version = "v2" }, "versions_differ note", "v1, v2"},
		"trail": {func(f *facts) {
			f.stats.Processes[0].Report.TrailLost, f.stats.Processes[0].Report.TrailLostAt = 4, now.Add(-time.Hour)
		}, "trail_lost warn", "^4 entries"},
		"store of files": {func(f *facts) {
			f.stats.Processes[0].Report.Files = &accounts.FilesReport{StoreSince: now.Add(-time.Minute), StoreWhy: "the disk is full"}
		}, "files_store_fails bad", "until it works: the disk is full$"},
		"store of files just now": {func(f *facts) {
			f.stats.Processes[0].Report.Files = &accounts.FilesReport{StoreSince: now.Add(-time.Second), StoreWhy: "the disk is full"}
		}, "", ""},
		"quota of files": {func(f *facts) {
			f.stats.Processes[0].Report.Files = &accounts.FilesReport{FullSince: now.Add(-time.Second)}
		}, "files_full warn", "^the quota of files is reached"},
		"files unfetched": {func(f *facts) {
			f.stats.Processes[0].Report.Files = &accounts.FilesReport{Waiting: 2, Soonest: now.Add(20 * time.Minute), Account: "a1"}
		}, "files_unfetched warn", "^files of 2 messages .* of account a1, may be forgotten in 20m0s$"},
		"files soon forgotten": {func(f *facts) {
			f.stats.Processes[0].Report.Files = &accounts.FilesReport{Waiting: 2, Soonest: now.Add(9 * time.Minute), Account: "a1"}
			f.stats.Processes[1].Report.Files = &accounts.FilesReport{Waiting: 3, Soonest: now.Add(-time.Minute), Account: "a2"}
		}, "files_unfetched bad", "^files of 5 messages .* of account a2, may be forgotten already$"},
		"files that can wait": {func(f *facts) {
			f.stats.Processes[0].Report.Files = &accounts.FilesReport{Waiting: 2, Soonest: now.Add(time.Hour), Account: "a1"}
		}, "", ""},
		"trail long ago": {func(f *facts) {
			f.stats.Processes[0].Report.TrailLost, f.stats.Processes[0].Report.TrailLostAt = 4, now.Add(-24*time.Hour)
		}, "", ""},
		"limits": {func(f *facts) {
			f.stats.Replicas = append(f.stats.Replicas, replica("r2", accounts.Report{Denials: []accounts.Recent{{Name: "feed/x", PerMinute: 30}, {Name: "http", PerMinute: 59}}}))
			f.stats.Replicas[0].Report.Denials = []accounts.Recent{{Name: "feed/x", PerMinute: 40}}
		}, "limit_denying note", "limit feed/x puts off 70 checks"},
		"warnings": {func(f *facts) {
			f.stats.Replicas[0].Report.Warnings = []accounts.Recent{{Name: "feed", Code: "moved", PerMinute: 7}, {Name: "feed", Code: "rare", PerMinute: 4}}
		}, "checks_warn note", "^7 checks a minute of the kind feed succeed with a warning: moved"},
		"an owner is paused": {func(f *facts) {
			f.paused = []credential.Pause{{Owner: "wecom-kf|ww81|https://qyapi.example", Until: now.Add(90 * time.Second), Reason: "45009"}}
		}, "owner_paused warn", `^owner ww81 is left alone for up to 2m0s, .* \(45009\)`},
		"owners are paused": {func(f *facts) {
			f.paused, f.pausedMore = []credential.Pause{{Owner: "corp", Until: now.Add(-time.Second)}}, 2
		}, "owner_paused warn", "^owner corp and 2 other owners are left alone"},
		"several": {func(f *facts) {
			f.stats.Replicas, f.redis, f.watched.Dead.Letters = nil, Redis{{"n1", "unasked", "INFO", ""}}, 1
		}, "no_replica bad,dead_letters warn,redis_unasked note", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := healthy()
			test.change(f)
			l := f.judge()
			var got []string
			for _, c := range l.Concerns {
				got = append(got, fmt.Sprint(c.Code, " ", c.Level))
			}
			if strings.Join(got, ",") != test.want {
				t.Fatalf("got %q, want %q", got, test.want)
			}
			if wrong := strings.Contains(test.want, " bad") || strings.Contains(test.want, " warn"); l.Healthy == wrong {
				t.Errorf("healthy is %v", l.Healthy)
			}
			if test.says != "" && !regexp.MustCompile(test.says).MatchString(l.Concerns[0].Text) {
				t.Errorf("it says %q", l.Concerns[0].Text)
			}
			for _, c := range l.Concerns {
				if !strings.HasPrefix(c.Link, "/") || c.Text == string(c.Code) || strings.Contains(c.Text, "%!") {
					t.Errorf("%+v", c)
				}
			}
			if _, err := json.Marshal(l); err != nil {
				t.Error(err)
			}
		})
	}
}

// Lagging groups are one concern for each cause, so that nobody takes the error of one
// for another's. Beyond a number of causes they are together, without a cause.
func TestLaggingGroupsAreToldByCause(t *testing.T) {
	t.Parallel()
	f := healthy()
	lagging := func(name, why string, alone bool) {
		f.watched.Groups.All = append(f.watched.Groups.All, Group{Name: name, Messages: 1, Oldest: 600, Deferred: why, Alone: alone})
	}
	lagging("a", "no table", false)
	lagging("b", "no table", false)
	lagging("c", "no route", false)
	lagging("d", "", false)
	lagging("e", "", true)
	said := make(map[string]string)
	for _, c := range f.judge().Concerns {
		said[c.Value] += fmt.Sprint(c.Code, " ", c.Subject, " ", max(1, c.Count), ";")
	}
	for cause, want := range map[string]string{
		"no table": "group_lagging a 2;", "no route": "group_lagging c 1;", "": "group_lagging d 1;", NoConsumer: "group_lagging e 1;",
	} {
		if said[cause] != want {
			t.Errorf("%q: %q, want %q", cause, said[cause], want)
		}
	}
	for i := range 20 {
		lagging(fmt.Sprint("more-", i), fmt.Sprint("cause ", i), false)
	}
	if n := len(f.judge().Concerns); n > causesTold+1 {
		t.Errorf("%d concerns", n)
	}
}

// A figure of another time says when it was found, and what has lasted says since when.
func TestConcernsAreDated(t *testing.T) {
	t.Parallel()
	f := healthy()
	f.disabled = []circulate.DisabledEndpoint{{Name: "a", Reason: "410"}}
	f.watched.Groups.At = f.told.Add(-40 * time.Second)
	f.watched.Failing = &Failing{Age: Age{At: now.Add(-30 * time.Second)}, Newly: 200, Of: 1000, Since: now.Add(-25 * time.Minute)}
	l := f.judge().Concerns
	if len(l) != 2 {
		t.Fatalf("%+v", l)
	}
	for _, c := range l {
		switch c.Code {
		case WebhookDisabled:
			if want := f.told.Add(-40 * time.Second); !c.AsOf.Equal(want) {
				t.Errorf("a disabled webhook's figures are as of %v, want %v", c.AsOf, want)
			}
		case FailingJumped:
			if !c.Since.Equal(now.Add(-25*time.Minute)) || !c.AsOf.Equal(now.Add(-30*time.Second)) {
				t.Errorf("failing since %v, as of %v", c.Since, c.AsOf)
			}
		default:
			t.Errorf("%+v", c)
		}
	}
}

// Warnings are one concern for each code, and its figures are those of that code alone.
func TestWarningsAreToldByCode(t *testing.T) {
	t.Parallel()
	f := healthy()
	f.stats.Replicas = []accounts.Replica{replica("r1", accounts.Report{Warnings: []accounts.Recent{
		{Name: "http", Code: "cursor_stuck", PerMinute: 30, Account: "a"}, {Name: "http", Code: "field_name", PerMinute: 15}, {Name: "feed", Code: "field_name", PerMinute: 5},
	}})}
	var said []string
	for _, c := range f.judge().Concerns {
		if c.Value == "cursor_stuck" && (c.Text != "30 checks a minute of the kind http succeed with a warning, such as account a: cursor_stuck" || c.Link != "/accounts?error=cursor_stuck") {
			t.Errorf("%s, at %s", c.Text, c.Link)
		}
		said = append(said, fmt.Sprint(c.Code, " ", c.Value, " ", c.Subject, " ", max(1, c.Count), " ", c.PerMinute))
	}
	if want := []string{"checks_warn cursor_stuck http 1 30", "checks_warn field_name http 2 20"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}

// One webhook's cause is not given for others that have another one.
func TestTheCauseOfSeveralWebhooksIsThatOfEach(t *testing.T) {
	t.Parallel()
	for want, values := range map[string][]string{
		"webhook a and 2 other webhooks do not take messages (503): 6 messages wait":                {"503", "503", "503"},
		"webhook a and 2 other webhooks do not take messages, for several reasons: 6 messages wait": {"tls", "503", "503"},
		"webhook a and 1 other webhook do not take messages, for several reasons: 5 messages wait":  {"", "503"},
		"webhook a and 2 other webhooks do not take some messages: 6 messages wait":                 {"", "", ""},
	} {
		var all []Concern
		for i, value := range values {
			all = append(all, Concern{Code: WebhookRefused, Level: Warn, Subject: string(rune('a' + i)), Messages: 3 - i, Value: value})
		}
		if l := newList(now, all); l.Concerns[0].Text != want {
			t.Errorf("got %q, want %q", l.Concerns[0].Text, want)
		}
	}
}

func TestAlikeIsOne(t *testing.T) {
	t.Parallel()
	l := newList(now, []Concern{
		{Code: WebhookRefused, Level: Warn, Subject: "a", Messages: 2, Seconds: 30, Since: now},
		{Code: WebhookRefused, Level: Warn, Subject: "b", Messages: 9, Seconds: 20, Since: now.Add(-time.Hour)},
		{Code: WebhookRefused, Level: Warn, Subject: "c", Messages: 1, Seconds: 10},
		{Code: WebhookRefused, Level: Bad, Subject: "d", Messages: 1},
	})
	if len(l.Concerns) != 2 || l.Concerns[0].Subject != "d" || l.Concerns[0].Count != 0 {
		t.Fatalf("%+v", l.Concerns)
	}
	if c := l.Concerns[1]; c.Count != 3 || c.Subject != "b" || c.Messages != 12 || c.Seconds != 30 || !c.Since.Equal(now.Add(-time.Hour)) {
		t.Errorf("%+v", c)
	}
}
