package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/activity"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/testing/browser/scene"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// replicaVariable has the test binary act as a replica of a scene: the settings as JSON.
const replicaVariable = "ROUNDS_TEST_BROWSER_REPLICA"

// office is a service with very many accounts, of which some fail, and a browser. Several people do the
// same tasks there.
type office struct {
	browser *Browser
	scene   *scene.Scene
	relieve func() // has the replica leave that checks the accounts
}

// way is how a person does all tasks.
type way struct {
	language string
	keys     bool
}

func (w way) String() string {
	if w.keys {
		return w.language + " by keyboard"
	}
	return w.language + " by mouse"
}

// tasks are what an operator does in a bad week. Each begins at the Overview of somebody who is signed in,
// and ends when the page shows what was wanted, or that it was done.
var tasks = []struct {
	name string
	do   func(*shift)
}{
	{"why an account is late", (*shift).whyLate},
	{"all 401 of a host, retried", (*shift).retried},
	{"a feed, added and tried", (*shift).feedAdded},
	{"a WeChat account, scanned", (*shift).scanned},
	{"a blocking message, skipped", (*shift).skipped},
	{"who deleted an account", (*shift).deletedBy},
	{"a killed replica, followed", (*shift).killed},
	{"the messages of one account", (*shift).messagesOfOne},
	{"a message by its text", (*shift).messageByText},
	{"the cadence of 200 accounts, changed and undone", (*shift).cadences},
	{"whether there is a backup", (*shift).backup},
	{"the noisiest account, stopped", (*shift).noisiest},
}

// TestTasks has people do every task in at most mostActions actions. By day, there are 3,000 accounts, and
// they take turns: one has the mouse and reads English, and another has the keyboard alone and reads
// Chinese. At night there are 300,000 accounts, and each does all and reads both. How long a task takes is logged, and judged by
// nobody here: the machine has other tests.
func TestTasks(t *testing.T) {
	o := &office{browser: start(t)}
	t.Run("controls", func(t *testing.T) { testTasksControls(t, o.browser) })
	o.open(t)
	t.Run("a page without the link", o.testMissingLink)
	var table strings.Builder
	for number, way := range ways {
		s := &shift{office: o, number: number}
		s.person = &person{tab: open(t, o.browser, o.scene.URL), keys: way.keys, patience: time.Minute}
		try(t, func() error { return s.tab.Speak(way.language) })
		signIn(t, s.tab, scene.Token)
		for turn, task := range tasks {
			if !atNight && turn%len(ways) != number {
				continue
			}
			t.Run(fmt.Sprintf("%s/%v", task.name, way), func(t *testing.T) {
				s.T, s.actions, s.moves, s.err, s.began, s.took = t, 0, 0, nil, time.Time{}, 0
				task.do(s)
				if s.took == 0 && s.err == nil {
					t.Error("the task has no end")
				}
				if s.err != nil {
					t.Error(s.err)
				}
				sound(t, s.tab)
				fmt.Fprintf(&table, "%-50s %-18v %d actions, %2d moves, %4d ms\n", task.name, way, s.actions, s.moves, s.took.Milliseconds())
				if s.actions > mostActions {
					t.Errorf("%d actions, at most %d", s.actions, mostActions)
				}
			})
		}
	}
	t.Logf("%d accounts\n%s", taskAccounts, &table)
}

// shift is one person's work in the office. It stops at the first step that fails.
type shift struct {
	*testing.T
	*person
	*office

	number int // tells the accounts of this shift from those of others
	began  time.Time
	took   time.Duration
}

// named returns the name of an account of this shift.
func (s *shift) named(what string) string { return fmt.Sprintf("%s-of-shift-%d", what, s.number) }

// begins opens the Overview, and starts the clock once it is there.
func (s *shift) begins() {
	s.Helper()
	s.do("the Overview", func() error { return s.tab.Go("/") })
	s.appears("#live-numbers b")
	language, err := eval[string](s.tab, `document.documentElement.lang`)
	s.must(err)
	if language != ways[s.number].language[:2] {
		s.Errorf("the page is in %q", language)
	}
	s.began = time.Now()
}

// ends stops the clock: the page shows the end of the task.
func (s *shift) ends() {
	if s.err == nil {
		s.took = time.Since(s.began)
	}
}

func (s *shift) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// until waits for what the API tells, before a task begins or after it.
func (s *shift) until(what string, so func() bool) {
	s.Helper()
	if s.err == nil {
		if err := s.scene.Await(s.Context(), so); err != nil {
			s.Fatalf("%s: %v", what, err)
		}
	}
}

// adds registers an account.
func (s *shift) adds(id, kind, cadence, url string) {
	s.Helper()
	_, err := s.scene.Calls.Add(s.Context(), accounts.Account{ID: id, Kind: kind, Cadence: cadence, Config: fmt.Appendf(nil, `{"url":%q}`, url)}, "")
	s.must(err)
}

func (s *shift) account(id string) api.Account {
	s.Helper()
	a, err := s.scene.Calls.Get(s.Context(), id)
	s.must(err)
	return a
}

// whyLate finds out that a limit keeps an account waiting.
func (s *shift) whyLate() {
	s.begins()
	s.send("#find", "slow-2")
	s.at("/account")
	s.reads("#live-why", map[string]string{"en": "a limit", "zh-CN": "限流"}[ways[s.number].language])
	s.ends()
}

// retried has all accounts of a host tried again that it refuses with 401.
func (s *shift) retried() {
	host, count := crowdHost(s.number*len(crowdCauses)), taskFailing/crowdClasses
	s.begins()
	s.choose(`nav a[href="/problems"]`)
	s.choose(`tr:has(td.where a[href*="host=` + host + `"]) a[href*="do=retry"]`)
	s.reads(".bulkform .figure", fmt.Sprint(count))
	s.choose(".bulkform button.primary")
	s.appears("#live-job h2 .good")
	s.reads("#live-job dd b", fmt.Sprint(count))
	s.ends()
}

// feedAdded adds a feed by its address, and tries it first.
func (s *shift) feedAdded() {
	id := "press.example/feeds/" + s.named("added")
	s.begins()
	s.send("#find", "http://"+id)
	s.at("/account/new")
	s.choose("#account .actions button[value=try]")
	s.appears("#tried-title .good")
	s.choose("#account .actions button[value=save]")
	s.at("/account")
	s.ends()
	if s.err == nil {
		if a := s.account(id); a.Kind != "feed" || !strings.Contains(string(a.Config), id) {
			s.Errorf("what was added is %+v", a)
		}
	}
}

// scanned signs a WeChat account in. The phone scans the code and confirms at once.
func (s *shift) scanned() {
	id := s.named("wechat")
	phone := s.scene.Third.WeChat
	s.begins()
	s.choose(`nav a[href="/accounts"]`)
	s.choose(`.head a[href="/account/weixin"]`)
	s.send("#id", id)
	s.appears(".code svg")
	s.do("scan", func() error {
		codes := phone.Codes()
		if len(codes) == 0 || !phone.Scan(codes[len(codes)-1], id, "") || !phone.Confirm(codes[len(codes)-1]) {
			return fmt.Errorf("the codes are %q", codes)
		}
		return nil
	})
	s.at("/account")
	s.reads("h1", id)
	s.ends()
	if s.err == nil {
		if a := s.account(id); a.Kind != "weixin" {
			s.Errorf("what was signed in is %+v", a)
		}
	}
}

// skipped skips a message that a webhook refuses, and that holds up those behind it.
func (s *shift) skipped() {
	waiting := func() api.Webhook {
		w, err := s.scene.Calls.Webhook(s.Context(), refusing)
		s.must(err)
		return w
	}
	s.until("messages wait", func() bool { st := waiting().Standing; return st != nil && len(st.Waiting) > 0 })
	dead := func() int {
		list, err := s.scene.Calls.Dead(s.Context(), client.DeadQuery{Group: refusingGroup, Limit: 1000})
		s.must(err)
		return len(list.Dead)
	}
	before := dead()
	s.begins()
	s.choose(`nav a[href="/delivery"]`)
	s.choose(`#live-webhooks a[href="/delivery/webhook?name=` + refusing + `"]`)
	s.choose(`#live-waiting tbody tr:first-child a.danger`)
	s.choose(`form:has(input[name=at]) button[value=skip]`)
	s.appears(".said")
	s.ends()
	if s.err == nil {
		if n := dead(); n != before+1 {
			s.Errorf("%d dead letters, %d before", n, before)
		}
	}
}

// deletedBy finds out who deleted an account.
func (s *shift) deletedBy() {
	id, who := s.named("deleted"), s.named("anna")
	s.adds(id, "shop", "every 1h", "http://shops.example/1")
	key, err := s.scene.Key(s.Context(), who, "editor")
	s.must(err)
	calls := client.New(s.scene.URL, key)
	defer calls.Close()
	s.must(calls.Remove(s.Context(), id))
	s.until("the API's index of ids forgets it", func() bool {
		list, err := s.scene.Calls.List(s.Context(), client.Query{Selector: accounts.Selector{Parts: []string{id}}})
		s.must(err)
		return len(list.Accounts) == 0
	})
	s.begins()
	s.send("#find", id)
	s.choose(`main a[href^="/trail?"]`)
	s.reads("table.trail tbody tr", who)
	s.ends()
}

// killed finds the replica that was killed, and that an account of it was taken over.
func (s *shift) killed() {
	id := s.named("held")
	name := s.killReplica(id)
	s.begins()
	s.reads("#live-replicas tr:has(.badge.bad)", name)
	s.choose(`nav a[href="/system"]`)
	s.reads("#live-processes tr:has(.badge.bad)", name)
	s.send("#find", id)
	s.at("/account")
	s.reads("#live-timeline li", name)
	s.ends()
}

// killReplica starts a replica in a process of its own in place of the other one, waits until it has
// claimed an account, and kills it. It returns its name once another replica has checked the account.
func (s *shift) killReplica(id string) (name string) {
	s.Helper()
	s.relieve()
	told, err := json.Marshal(s.scene.Settings("poller"))
	s.must(err)
	cmd := exec.CommandContext(s.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), replicaVariable+"="+string(told))
	out, err := cmd.StdoutPipe()
	s.must(err)
	s.must(cmd.Start())
	defer func() { _ = cmd.Wait() }() // it is killed
	defer func() { _ = cmd.Process.Kill() }()
	line := bufio.NewScanner(out)
	if !line.Scan() {
		s.Fatal("the replica did not start")
	}
	name = line.Text()
	s.adds(id, "shop", "every 1h", "http://stuck.example/hangs")
	s.until("the replica has claimed the account", func() bool {
		a := s.account(id).State
		return a.Place == circulate.Claimed && a.Replica == name
	})
	s.must(cmd.Process.Kill())
	s.relieve, err = s.scene.Join("poller")
	s.must(err)
	s.until("another replica has checked the account", func() bool { return !s.account(id).State.LastSuccess.IsZero() })
	return name
}

// runReplica is a replica that may be killed.
func runReplica(told string) error {
	var variables map[string]string
	if err := json.Unmarshal([]byte(told), &variables); err != nil {
		return err
	}
	return scene.Poll(context.Background(), variables, shops(true), func(name string) { fmt.Println(name) })
}

// messagesOfOne lists the messages of one account.
func (s *shift) messagesOfOne() {
	s.begins()
	s.send("#find", "shop-0000777")
	s.choose(`#live-messages a[href^="/messages?account="]`)
	s.at("/messages")
	s.reads("#rows > li", "an order of 777")
	s.ends()
}

// messageByText finds a message of which only a part of the text is known.
func (s *shift) messageByText() {
	s.begins()
	s.choose(`nav a[href="/messages"]`)
	s.send("#f-text", "order of 2345")
	s.sees(`location.search.includes("2345")`)
	s.reads("#rows > li", "an order of 2345")
	s.ends()
}

// cadences sets the cadence of all accounts with a label, and takes that back.
func (s *shift) cadences() {
	label := fmt.Sprintf("shift-%d", s.number)
	have := func() (all []string) {
		var records bytes.Buffer
		_, err := s.scene.Calls.Export(s.Context(), accounts.Exporting{Selector: accounts.Selector{Labels: map[string]string{"shift": label}}}, &records)
		s.must(err)
		for line := range bytes.Lines(records.Bytes()) {
			var a accounts.Account
			s.must(json.Unmarshal(line, &a))
			all = append(all, a.ID+" "+a.Cadence)
		}
		slices.Sort(all)
		return all
	}
	before := have()
	if len(before) != crowdShift {
		s.Fatalf("%d accounts have the label, want %d", len(before), crowdShift)
	}
	s.begins()
	s.send("#find", "shift="+label)
	s.choose(`#list button[name=all][value=set]`)
	s.appears(".bulkform .figure") // among very many accounts it is an estimate
	s.send("#set-cadence", "every 2h")
	s.appears("#live-job h2 .good")
	s.reads("#live-job dd b", fmt.Sprint(crowdShift))
	s.choose(`#live-job button[value=undo]`)
	s.sees(`document.querySelector("#live-job dl a[href^='/job?']") && document.querySelector("#live-job h2 .good")`)
	s.reads("#live-job dd b", fmt.Sprint(crowdShift))
	s.ends()
	if now := have(); s.err == nil && !slices.Equal(now, before) {
		s.Errorf("after the undo the cadences are %q", now)
	}
}

// backup finds out when the last backup was taken.
func (s *shift) backup() {
	s.must(s.scene.Calls.Backup(s.Context(), false, io.Discard))
	s.begins()
	s.choose(`nav a[href="/administration"]`)
	s.appears("#live-backup .badge")
	s.appears("#live-backup time")
	s.ends()
}

// noisiest pauses the account that brings the most messages.
func (s *shift) noisiest() {
	id := s.named("noisy")
	s.until("the charts have the account", func() bool {
		_, text := processes.Get(s, s.scene.URL+"/charts", scene.Token)
		return strings.Contains(text, id)
	})
	s.begins()
	s.choose(`nav a[href="/charts"]`)
	s.choose(`[aria-labelledby=noisiest-title] button[value="` + id + `"]`)
	s.at("/account")
	s.appears("#live-head .badge.paused")
	s.ends()
	if s.err == nil {
		if a := s.account(id).State; a.Place != circulate.Parked || a.Reason != "paused" {
			s.Errorf("the account is %s, %q", a.Place, a.Reason)
		}
	}
}

// tellsNoise tells what another replica would have found two minutes ago. Replicas tell each minute: by
// day nobody waits for that.
func (s *shift) tellsNoise() {
	s.Helper()
	ring, err := circulate.Open(s.Context(), redistest.Connect(s.T, s.scene.Server), circulate.Options{})
	s.must(err)
	now, err := ring.Now(s.Context(), 0)
	s.must(err)
	tally := activity.NewTally()
	for i := range len(ways) {
		s.number = i
		tally.Checked(&activity.Subject{Kind: "shop", Host: "shops.example"}, activity.Check{Account: s.named("noisy"), Messages: loudOrders})
	}
	s.must(activity.NewKeeper(ring).Add(s.Context(), now.Add(-2*time.Minute), tally.Take()))
}

// open starts the service, and waits until the accounts were checked and those that fail are summed up.
func (o *office) open(t *testing.T) {
	t.Helper()
	var err error
	o.scene, err = scene.Start(scene.Options{
		Redis: redistest.LookPath(t), Dir: t.TempDir(), Locked: true, Kinds: shops(false), WeChat: "http://weixin.example",
		Webhooks: `{"endpoints": [{"name": "archive", "url": "http://archive.example/in", "secrets": [{"secret": "ARCHIVE"}], "kinds": ["feed"]}]}`,
		Settings: map[string]string{
			"ROUNDS_ROLES": "api", "ROUNDS_SHARDS": "16", "ROUNDS_CONCURRENCY": "1000", "ROUNDS_CHECK_TIMEOUT": "60s", "ROUNDS_FILES": t.TempDir(),
			"ROUNDS_LIMITS":             "feed/slow.example rate=1/h burst=1",
			"ROUNDS_HEARTBEAT_INTERVAL": "500ms", "ROUNDS_DEAD_AFTER": "3s", "ROUNDS_SWEEP_INTERVAL": "500ms",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.scene.Close(); err != nil {
			t.Error(err)
		}
	})
	o.relieve, err = o.scene.Join("poller")
	if err != nil {
		t.Fatal(err)
	}
	refused := func(b api.BadLine) error { return fmt.Errorf("line %d is refused: %+v", b.Line, b) }
	s := &shift{T: t, office: o, person: &person{}}
	if _, err := o.scene.Calls.Import(t.Context(), &crowd{accounts: taskAccounts, failing: taskFailing, shifts: len(ways)}, "", refused); err != nil {
		t.Fatal(err)
	}
	s.adds("slow-1", "feed", "every 1h", "http://slow.example/feeds/1")
	s.until("the first account of a slow host is checked", func() bool { return !s.account("slow-1").State.LastSuccess.IsZero() })
	s.adds("slow-2", "feed", "every 1h", "http://slow.example/feeds/2")
	for i := range len(ways) {
		s.adds(fmt.Sprintf("news-%d", i), "feed", "every 1h", fmt.Sprintf("http://press.example/feeds/%d", i))
	}
	// An import spreads its accounts over their cadence.
	nudged, err := o.scene.Calls.Bulk(t.Context(), accounts.Bulk{Action: accounts.NudgeAll, Selector: accounts.Selector{Kinds: []string{"shop"}}, Rate: accounts.MaxReviveRate}, func(api.BulkProgress) {})
	if s.must(err); nudged.Changed != taskAccounts {
		t.Fatalf("%d accounts are nudged: %+v", nudged.Changed, nudged)
	}
	s.until("all accounts are checked", func() bool {
		stats, err := o.scene.Calls.Stats(t.Context())
		s.must(err)
		a := stats.Accounts
		return a.Waiting == 0 && a.Claimed == 0 && stats.Messages >= taskAccounts-taskFailing
	})
	// They come after the crowd: in a minute with 300,000 messages, a few hundred are none that charts show.
	for i := range len(ways) {
		s.number = i
		s.adds(s.named("noisy"), "shop", "every 10s", "http://shops.example/loud")
	}
	if !atNight {
		s.tellsNoise()
	}
	_, err = o.scene.Join("monitor,delivery")
	s.must(err)
	s.until("those that fail are summed up", func() bool {
		p, err := o.scene.Calls.Problems(t.Context(), client.ProblemsQuery{})
		s.must(err)
		return p.Accounts >= taskFailing
	})
}
