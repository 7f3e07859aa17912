package concern

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/budget"
)

var update = flag.Bool("update", false, "write the guide's lists of concerns")

// marking is a Style that shows where each part was put.
func marking() Style {
	in := func(before, after string) func(string) string {
		return func(text string) string { return before + text + after }
	}
	return Style{
		Name: in("<", ">"), Text: in("", ""), Number: strconv.Itoa,
		Duration: func(d time.Duration) string { return "~" + d.String() }, Share: func(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) },
	}
}

// Every code is there once, with a page and a sentence of its own in each language. Every
// part of the sentences is known, and each language has the same parts.
func TestTableIsWhole(t *testing.T) {
	t.Parallel()
	texts := make(map[string]Code)
	codes := make(map[Code]bool)
	parts := regexp.MustCompile(`\{(\w+)[:}]`)
	for _, e := range table() {
		if codes[e.code] || e.page == "" || e.code == "" {
			t.Errorf("%s is there twice, or has no page", e.code)
		}
		codes[e.code] = true
		for i, v := range append([]variant{{en: e.en, zh: e.zh}}, e.other...) {
			told := make(map[string][]string)
			for language, text := range map[string]string{"en": v.en, "zh": v.zh} {
				for _, count := range []int{0, 3} {
					c := Concern{Code: e.code, Subject: "s", Value: "v", Seconds: 1, Count: count}
					in := english()
					if language == "zh" {
						in = chinese()
					}
					if said := c.fill(text, marking(), in); said == "" || strings.ContainsAny(said, "{}[]|") {
						t.Errorf("%s: %q", e.code, said)
					}
				}
				if twin, ok := texts[text]; ok {
					t.Errorf("%s says the same as %s: %q", e.code, twin, text)
				}
				texts[text] = e.code
				for _, found := range parts.FindAllStringSubmatch(text, -1) {
					name := found[1]
					if name == "some" {
						name = "accounts"
					}
					if name != "alike" && !slices.Contains(told[language], name) {
						told[language] = append(told[language], name)
					}
				}
				slices.Sort(told[language])
			}
			if !slices.Equal(told["en"], told["zh"]) {
				t.Errorf("%s, sentence %d: English tells %v, Chinese %v", e.code, i, told["en"], told["zh"])
			}
			if first := v.en[:1]; strings.ToLower(first) != first && !strings.HasPrefix(v.en, "Redis'") || strings.HasSuffix(v.en, ".") || !strings.HasSuffix(v.zh, "。") {
				t.Errorf("%s: %q and %q begin or end in another way than the others", e.code, v.en, v.zh)
			}
		}
	}
	source, err := os.ReadFile("concern.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`Code\s*= "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		if !codes[Code(found[1])] {
			t.Errorf("%s has no entry", found[1])
		}
		delete(codes, Code(found[1]))
	}
	for code := range codes {
		t.Errorf("%s has no constant", code)
	}
}

func TestSentences(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Concern{
		"consumer group <crm> lags: 1 message waits, the oldest for ~2m0s":                                                   {Code: GroupLagging, Subject: "crm", Messages: 1, Seconds: 120},
		"consumer group <crm> and 1 other group lag, and none of their consumers is alive: 2 messages wait":                  {Code: GroupLagging, Subject: "crm", Count: 2, Messages: 2, Value: NoConsumer},
		"consumer group <crm> and 2 other groups lag, and their handlers do not handle messages (no table): 2 messages wait": {Code: GroupLagging, Subject: "crm", Count: 3, Messages: 2, Value: "no table"},
		"replica <r> accepts no messages: Redis has used its memory up to the mark":                                          {Code: MemoryShort, Subject: "r"},
		"1 of 1 account in circulation, 100%, had begun to fail within an hour when they were last looked at":                {Code: FailingJumped, Accounts: 1, Of: 1, Share: 1},
		"Redis' clock went back by ~1m1s; 1 account was rescheduled":                                                         {Code: ClockStepped, Seconds: -61, Accounts: 1},
		"2 entries of the trail are in the log alone, as they could not be kept":                                             {Code: TrailLost, Count: 2},
		"owner <o> is left alone for up to ~1m0s, as its third party asked (45009): its accounts wait":                       {Code: OwnerPaused, Subject: "o", Seconds: 60, Value: "45009"},
		"1 account of the kind <k> went unchecked for so long that messages may be lost already":                             {Code: HeadroomLow, Subject: "k", Accounts: 1, Seconds: -5},
		"process <p3> with the roles api,poller went silent without leaving":                                                 {Code: ProcessSilent, Subject: "p3", Value: "api,poller"},
		"process <p3> with the role poller went silent without leaving":                                                      {Code: ProcessSilent, Subject: "p3", Value: "poller"},
		"process <p3> and 1 other process went silent without leaving":                                                       {Code: ProcessSilent, Subject: "p3", Value: "api,poller", Count: 2},
		"nobody knows whether 1 send has arrived; the oldest was queued ~1m0s ago":                                           {Code: SendsUnknown, Sends: 1, Seconds: 60},
		"nobody knows whether 3 sends have arrived":                                                                          {Code: SendsUnknown, Sends: 3},
		"a later version's words": {Code: "later", Text: "a later version's words"},
	} {
		if got := c.Sentence("en", marking()); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	c := Concern{Code: WebhookRefused, Subject: "crm", Count: 3, Messages: 7, Seconds: 9}
	if got, want := c.Sentence("zh", marking()), "Webhook <crm> 及另外 2 个 Webhook 不接收部分消息：7 条消息在等待，最久 ~9s。"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// deployed reads a file of deployments/.
func deployed(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deployments", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unconcerned are the alerts without a concern: they watch rates, or facts that a process
// of the service cannot know about itself.
func unconcerned() []string {
	return []string{
		"RoundsAuditUnjudged", "RoundsStale", "RoundsCallbacksFail", "RoundsWeComSecretRefused", "RoundsLate", "RoundsProcessDown", "RoundsReplicasMissing", "RoundsSweepsFail", "RoundsRedisErrors",
		"RoundsClaimsLost", "RoundsChecksFail", "RoundsAccountsFailing", "RoundsParkedRising", "RoundsChecksHanging", "RoundsSetAside", "RoundsStreamsHeldBack", "RoundsHandlersHang",
		"RoundsDetectionSlowNow", "RoundsDetectionSlowToday", "RoundsDetectionSlowLately",
	}
}

// alerts.yaml has exactly the alerts that the table and unconcerned name, and the one about Redis
// explains every code that its metric can have.
func TestAlertsAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	rules := deployed(t, "monitoring/alerts.yaml")
	there := make(map[string]bool)
	for _, found := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		there[found[1]] = true
	}
	pages := make(map[string]string)
	for _, found := range regexp.MustCompile(`(?s)alert: (\w+)\n.*?          dashboard: '\{\{ \$externalLabels\.rounds \}\}(/[\w/]*)'`).FindAllStringSubmatch(rules, -1) {
		pages[found[1]] = found[2]
	}
	named, first := make(map[string]bool), make(map[string]string)
	for _, name := range unconcerned() {
		named[name], first[name] = true, pages[name] // any page
	}
	_, about, _ := strings.Cut(rules, "alert: RoundsRedisConcern")
	about, _, _ = strings.Cut(about, "alert: ")
	for _, e := range table() {
		for _, name := range e.alerts {
			if named[name] = true; slices.Contains(unconcerned(), name) {
				t.Errorf("%s: %s stands for no concern", e.code, name)
			}
			first[name] = cmp.Or(first[name], e.page)
		}
		if of, ok := strings.CutPrefix(string(e.code), "redis_"); ok && slices.Contains(e.alerts, "RoundsRedisConcern") != strings.Contains(about, of+": ") {
			t.Errorf("RoundsRedisConcern and the table differ about %s", of)
		}
	}
	expressions := make(map[string]string)
	for _, found := range regexp.MustCompile(`alert: (\w+)\n +expr: '(.*)'`).FindAllStringSubmatch(rules, -1) {
		expressions[found[1]] = found[2]
	}
	for _, e := range table() {
		for _, name := range e.alerts {
			_, guard, _ := strings.Cut(expressions[name], ") unless on (")
			silent := strings.Contains(guard, string(e.code)) || strings.HasPrefix(guard, "concern)") && strings.Contains(guard, "redis_(.+)")
			// Without a monitor on duty nobody knows what is silent.
			if known := e.code != NoMonitor; silent != known || known && !strings.Contains(guard, "rounds_concern_silenced") {
				t.Errorf("%s fires while %s is silent, or the other way round: %s", name, e.code, expressions[name])
			}
		}
	}
	for name := range named {
		if !there[name] {
			t.Errorf("alerts.yaml has no %s", name)
		}
	}
	for name := range there {
		if !named[name] {
			t.Errorf("alerts.yaml has %s, which neither a concern nor unconcerned names", name)
		}
		if pages[name] == "" || pages[name] != first[name] {
			t.Errorf("%s leads to the page %q, its concern to %q", name, pages[name], first[name])
		}
	}
}

// The guide lists every concern, in both languages: go generate writes the lists.
func TestGuideListsEveryConcern(t *testing.T) {
	for _, page := range []struct{ path, language, header string }{
		{"guide/operations.md", "en", "| code | what is wrong | page | alert |\n|---|---|---|---|\n"},
		{"guide/zh-CN/operations.md", "zh", "| 代码 | 有什么问题 | 页面 | 告警 |\n|---|---|---|---|\n"},
	} {
		text := deployed(t, page.path)
		before, rest, found := strings.Cut(text, page.header)
		if !found {
			t.Fatalf("%s has no list of concerns", page.path)
		}
		for strings.HasPrefix(rest, "| ") {
			_, rest, _ = strings.Cut(rest, "\n")
		}
		want := before + page.header + rowsOf(page.language) + rest
		switch {
		case text == want:
		case *update:
			if err := os.WriteFile(filepath.Join("../../deployments", page.path), []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s lists other concerns than the table, or says them in other words: run go generate ./accounts/concern", page.path)
		}
	}
}

// rowsOf returns the table as in the guide, with example numbers and with variable parts
// in capitals.
func rowsOf(language string) string {
	var b strings.Builder
	for _, e := range table() {
		c := Concern{Code: e.code, Subject: "NAME", Accounts: 3, Of: 100, Messages: 5, Sends: 4, Seconds: 1200, Share: 0.03, PerMinute: 60}
		text, in := e.en, english()
		if language == "zh" {
			text, in = e.zh, chinese()
		}
		if c.Value = "VALUE"; strings.Contains(text, "{count") {
			c.Count = 2
		}
		alerts := "–"
		if len(e.alerts) > 0 {
			alerts = "`" + strings.Join(e.alerts, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", e.code, strings.TrimSuffix(c.fill(text, plain(), in), "。"), e.page, alerts)
	}
	return b.String()
}

// The alert about the budget fires at the bounds of the concern.
func TestTheBudgetsAlertHasTheBoundsOfItsConcern(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile(`spent_per_second\) / max\(rounds_budget_checks_per_second\) > ([0-9.]+) and max\(rounds_budget_at_ceiling_ratio\) >= ([0-9.]+)\)`).FindStringSubmatch(deployed(t, "monitoring/alerts.yaml"))
	if found == nil {
		t.Fatal("alerts.yaml compares the budget in another way")
	}
	share, _ := strconv.ParseFloat(found[1], 64)
	ceiling, _ := strconv.ParseFloat(found[2], 64)
	for s, want := range map[budget.Standing]bool{
		{Budget: 1, Spent: share + 0.01, Ceiling: ceiling}:        true,
		{Budget: 1, Spent: share - 0.01, Ceiling: ceiling}:        false,
		{Budget: 1, Spent: share + 0.01, Ceiling: ceiling - 0.01}: false,
	} {
		if s.Short() != want {
			t.Errorf("%+v: %v", s, !want)
		}
	}
}
