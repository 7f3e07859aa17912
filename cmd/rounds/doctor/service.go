package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// api checks whether the API answers, and accepts the token.
func (d *doctor) api(ctx context.Context) {
	serves := d.Settings.API.Roles.Has(settings.RoleAPI)
	at := d.Settings.Access.URL
	who, err := d.Calls.Whoami(ctx)
	var refused *client.Error
	switch {
	case err == nil:
		// Without its Redis only the API knows the namespace, and a caller without the right sees none.
		system, err := d.Calls.System(ctx)
		if err == nil && d.Settings.Redis.URL != "" && system.Namespace != d.Settings.Redis.Namespace {
			d.fault("api", fmt.Sprintf("%s answers, and serves the namespace %s, not %s", at, system.Namespace, d.Settings.Redis.Namespace), "set ROUNDS_API_URL to a service with the namespace "+d.Settings.Redis.Namespace+", or ROUNDS_NAMESPACE to "+system.Namespace)
			return
		}
		// Only an outage explains that a process lives that has been silent for so long.
		for i := range system.Processes {
			p := &system.Processes[i]
			if p.Alive && system.Now.Sub(p.LastHeartbeat) >= d.Settings.Monitor.DeadAfter && p.LastHeartbeat.After(d.seen.From) {
				d.seen = circulate.Outage{From: p.LastHeartbeat, Till: system.Now}
			}
		}
		d.ok("api", fmt.Sprintf("%s answers, and %s has the role %s", at, nameOf(who.Name), who.Role))
	case errors.As(err, &refused) && refused.Status == 401 && d.Settings.Access.Token == "":
		d.fault("api", at+" answers, and demands a token or key, but none is set here", "set ROUNDS_API_TOKEN to the token of the service, or to a key")
	case errors.As(err, &refused) && refused.Status == 401:
		d.fault("api", at+" answers, and does not accept the token or key", "set ROUNDS_API_TOKEN to the token of the service, or to a key")
	case errors.As(err, &refused):
		d.fault("api", fmt.Sprintf("%s: %v", at, err), "")
	case !serves && d.Settings.Redis.URL != "":
		d.skip("api", "this process' settings have no role api, and nothing answers at ROUNDS_API_URL")
	default:
		d.fault("api", err.Error(), "start the service (rounds serve), or set ROUNDS_API_URL to where it listens")
	}
}

func nameOf(name string) string {
	if name == "" {
		return "the caller"
	}
	return name
}

// throughAPI looks at a service whose Redis is not known here: it may be inside its process.
func (d *doctor) throughAPI(ctx context.Context) knowledge {
	known := knowledge{source: secretsOf(d.Settings, d.Service, nil)}
	there := false
	d.within(ctx, func(ctx context.Context) {
		stats, err := d.Calls.Stats(ctx)
		if err != nil {
			for _, part := range []string{"redis", "law", "replicas", "groups"} {
				d.skip(part, "ROUNDS_REDIS_URL is not set here, so the API is asked, which did not answer")
			}
			return
		}
		there = true
		if stats.Data.Forgets {
			d.warn("redis", "it is inside the process and keeps nothing: "+stats.Data.Store, "set ROUNDS_DATA_DIR or ROUNDS_REDIS_URL, unless all may be lost when the process ends")
		} else {
			d.ok("redis", "the API's process uses "+stats.Data.Store)
		}
		list, err := d.Calls.Concerns(ctx)
		var l concern.Law
		if err == nil {
			l, err = d.Calls.Law(ctx)
		}
		if err != nil {
			d.fault("law", err.Error(), "")
			return
		}
		var found living
		for i := range stats.Replicas {
			found.replica(stats.Replicas[i].Alive)
		}
		for i := range stats.Processes {
			found.process(stats.Processes[i].Alive, stats.Processes[i].Roles)
		}
		d.concerns(list, &l, stats.Accounts.Registered, found)
	})
	d.files(ctx, nil)
	if !there {
		return known
	}
	known.list = func(ctx context.Context) ([]accounts.View, error) {
		list, err := d.Calls.List(ctx, client.Query{Limit: accounts.MaxListLimit})
		var all []accounts.View
		for _, a := range list.Accounts {
			all = append(all, accounts.View{Account: accounts.Account{ID: a.ID, Kind: a.Kind, Config: a.Config}})
		}
		return all, err
	}
	if d.Audit {
		d.audit(ctx, func(ctx context.Context, cursor string) (accounts.Audited, error) {
			a, err := d.Calls.Audit(ctx, false, cursor)
			found := make(map[circulate.Violation]int)
			for _, k := range a.Kinds {
				found[k.Kind] = k.Found
			}
			return accounts.Audited{Accounts: a.Accounts, Unjudged: a.Unjudged, Found: found, Next: a.Next}, err
		})
	}
	return known
}

// advice says to which part of the report a concern belongs, and what to do about it. In do,
// {subject} and {value} stand for the concern's.
type advice struct{ part, do string }

// advices returns the advice for each concern. What is not in it belongs to Redis, and its text says
// what to do.
func advices() map[concern.Code]advice {
	return map[concern.Code]advice{
		concern.LawViolated: {"law", "run rounds audit --repair, and keep what it prints"},
		concern.LawFlawed:   {"law", "run rounds audit --repair, and keep what it prints"},
		concern.AuditBroken: {"law", "see the log of the monitor on duty"},
		concern.AuditOld:    {"law", "see the log of the monitor on duty"},

		concern.NoReplica:      {"replicas", "start a process with the role poller, such as rounds serve"},
		concern.NoMonitor:      {"replicas", "start a process with the role monitor, such as rounds serve"},
		concern.WatchOld:       {"replicas", "see the log of the monitor on duty"},
		concern.Outage:         {"replicas", "see the network of {subject}: DNS, routes, ROUNDS_PROXY"},
		concern.MemoryShort:    {"replicas", "raise Redis' maxmemory, or keep less: ROUNDS_MESSAGE_RETENTION"},
		concern.KindUnchecked:  {"replicas", "start a poller that checks the kind {subject}, or remove its accounts: rounds account list --kind {subject}"},
		concern.ProcessSilent:  {"replicas", "see why {subject} ended: it did not sign off"},
		concern.SettingsDiffer: {"replicas", "give all processes the same {subject}"},
		concern.VersionsDiffer: {"replicas", ""},
		concern.TrailLost:      {"replicas", "look for \"an entry of the trail stands in the log alone\" in the log of {subject}: it has them, and why they could not be kept; a day after the last one this is over"},
		concern.ClockStepped:   {"replicas", "have the clock of Redis' machine set by NTP"},
		concern.BackupOld:      {"redis", "take one with rounds backup"},
		concern.RedisMemory:    {"redis", "raise Redis' maxmemory, or keep less: ROUNDS_MESSAGE_RETENTION"},

		concern.WebhookDisabled: {"groups", "see rounds webhooks list"},
		concern.WebhookRefused:  {"groups", "see rounds webhooks list"},
		concern.WebhookKind:     {"groups", "correct kinds in ROUNDS_WEBHOOKS_FILE and run rounds reload, or start a poller that checks the kind; rounds kinds lists the kinds of this program"},
		concern.NoDelivery:      {"groups", "see rounds webhooks list"},
		concern.NoDeliveryRole:  {"groups", "add the role to a process that has the file: rounds serve --roles api,poller,monitor,delivery"},
		concern.GroupLagging:    {"groups", "mend what its handler reports; rounds groups list has the error, and the consumer's log the message. It tries again by itself within ten minutes, and at once when it is started again"},
		concern.MessagesDropped: {"groups", "see rounds groups list: its consumers are too slow, or have ended"},
		concern.DeadLetters:     {"dead letters", "see rounds dead list, and replay or drop them"},
		concern.FilesStoreFails: {"files", "see whether ROUNDS_FILES can be reached and written, and has room"},
		concern.FilesFull:       {"files", "raise ROUNDS_FILES_QUOTA, retain files for less time (ROUNDS_FILES_RETENTION), or let files go that were read: ROUNDS_FILES_WHEN_FULL=remove-read"},
		concern.FilesUnfetched:  {"files", "see rounds groups list for what the group files waits for, and the log of the role delivery"},
		concern.SendsUnknown:    {"sends", "see rounds sends list --state unknown, ask the third party what it has, and resolve or retry each"},

		concern.Overdue:       {"accounts", "start more replicas, and see rounds stats"},
		concern.FailingJumped: {"accounts", "see rounds problems --state newly"},
		concern.HeadroomLow:   {"accounts", "see rounds stats, and check the kind {subject} more often"},
		concern.Quarantined:   {"accounts", "see rounds parked list, and the logs of replicas"},
		concern.OwnerPaused:   {"accounts", ""},
		concern.LimitDenying:  {"accounts", ""},

		concern.BudgetTooSmall: {"accounts", "raise ROUNDS_ADAPTIVE_BUDGET, or the upper bounds of adaptive cadences"},
		concern.BudgetUnused:   {"accounts", ""},

		concern.ChecksWarn: {"accounts", "see rounds account list --error {value}"},
	}
}

// adviceOn returns the advice on a concern.
func adviceOn(c *concern.Concern) advice {
	a, known := advices()[c.Code]
	switch {
	case !known:
		a.part = "redis"
	case c.Code == concern.GroupLagging && c.Value == "":
		a.do = "see rounds groups list: its consumers are too slow"
	case c.Code == concern.GroupLagging && c.Value == concern.NoConsumer && c.Count > 1:
		a.do = "start their consumers, or remove those of the groups that nobody reads any more: rounds groups list names them all"
	case c.Code == concern.GroupLagging && c.Value == concern.NoConsumer:
		a.do = "start its consumers, or remove the group: rounds groups rm {subject}"
	}
	a.do = strings.NewReplacer("{subject}", c.Subject, "{value}", c.Value).Replace(a.do)
	return a
}

// living is how many replicas and monitors are alive.
type living struct{ replicas, monitors int }

func (l *living) replica(alive bool) {
	if alive {
		l.replicas++
	}
}

func (l *living) process(alive bool, roles []string) {
	if alive && slices.Contains(roles, "monitor") {
		l.monitors++
	}
}

// String says so where nothing is wrong with them.
func (l living) String() string {
	one := func(n int, noun string) string {
		if n == 1 {
			return "a " + noun
		}
		return counted(n, noun)
	}
	return one(l.replicas, "replica") + " and " + one(l.monitors, "monitor") + " are alive, and all of them agree"
}

// concerns sorts what is wrong into parts, and also reports the parts where nothing is.
// Registered is the number of registered accounts.
func (d *doctor) concerns(list concern.Concerns, l *concern.Law, registered int, there living) {
	amiss := make(map[string]bool)
	for i := range list.Concerns {
		c := &list.Concerns[i]
		on := adviceOn(c)
		amiss[on.part] = amiss[on.part] || c.Level != concern.Note
		text := c.Text
		if list.Old(c) {
			text += ", as of " + c.AsOf.Local().Format(time.DateTime)
		}
		switch c.Level {
		case concern.Bad:
			d.fault(on.part, text, on.do)
		case concern.Warn:
			d.warn(on.part, text, on.do)
		default:
			if on.do != "" {
				text += "; " + on.do
			}
			d.ok(on.part, text)
		}
	}
	if !amiss["law"] {
		d.law(l, registered)
	}
	for _, well := range []struct{ part, text string }{
		{"replicas", there.String()},
		{"accounts", "none is overdue or in quarantine"},
		{"groups", "no group lags, and no webhook fails"},
		{"dead letters", "there are none"},
	} {
		if !amiss[well.part] {
			d.ok(well.part, well.text)
		}
	}
}

// law reports what the last audit found, unless that is a concern. It warns if the audit looked
// at less than half of the registered accounts.
func (d *doctor) law(l *concern.Law, registered int) {
	ago := func(at time.Time) string { return l.Now.Sub(at).Round(time.Second).String() + " ago" }
	switch {
	case l.Last == nil:
		d.ok("law", "there was no whole audit yet")
	case 2*l.Last.Accounts < registered:
		d.warn("law", fmt.Sprintf("the last audit, %s, looked at %d of %s that are registered now", ago(l.Last.At), l.Last.Accounts, counted(registered, "account")),
			"wait for the next whole audit, whose progress the Overview shows, or make one now: rounds audit")
	case l.State == concern.Unjudged:
		d.ok("law", fmt.Sprintf("the last audit, %s, found no fault in %s, and could not judge %d that moved", ago(l.Last.At), counted(l.Last.Accounts, "account"), l.Last.Unjudged))
	case l.Last.Accounts > registered: // some have left, or were counted in two shards while the number of shards changed
		d.ok("law", fmt.Sprintf("the last audit, %s, found %s in exactly one place each; %d are registered now", ago(l.Last.At), counted(l.Last.Accounts, "account"), registered))
	default:
		d.ok("law", fmt.Sprintf("the last audit, %s, found %s of %d in exactly one place each", ago(l.Last.At), counted(l.Last.Accounts, "account"), registered))
	}
}

// audit does a whole audit, step by step.
func (d *doctor) audit(ctx context.Context, step func(ctx context.Context, cursor string) (accounts.Audited, error)) {
	sum := accounts.Audited{Found: make(map[circulate.Violation]int)}
	for cursor := ""; ; {
		a, err := step(ctx, cursor)
		if err != nil {
			d.fault("law", fmt.Sprintf("the audit broke off after %s: %v", counted(sum.Accounts, "account"), err), "")
			return
		}
		sum.Accounts, sum.Unjudged = sum.Accounts+a.Accounts, sum.Unjudged+a.Unjudged
		for kind, n := range a.Found {
			sum.Found[kind] += n
		}
		if cursor = a.Next; cursor == "" {
			break
		}
	}
	var words []string
	for _, kind := range circulate.Violations() {
		if n := sum.Found[kind]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, kind))
		}
	}
	if len(words) > 0 {
		d.fault("law", fmt.Sprintf("an audit of %s just now found %s", counted(sum.Accounts, "account"), strings.Join(words, ", ")), "run rounds audit --repair, and keep what it prints")
		return
	}
	d.ok("law", fmt.Sprintf("an audit of %s just now found each in exactly one place; %d moved and were not judged", counted(sum.Accounts, "account"), sum.Unjudged))
}
