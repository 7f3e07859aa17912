package service

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/telemetry"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/wecomkf"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/files/keep"
	"github.com/rounds-dev/rounds/poller/oauth"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// deployment reads a file of deployments/.
func deployment(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../deployments", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// metricBook is a registry that only records the names of metrics and their labels.
type metricBook map[string][]string

func (b metricBook) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc, 10)
	go func() {
		c.Describe(descriptions)
		close(descriptions)
	}()
	parts := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([^}]*)\}`)
	for d := range descriptions {
		found := parts.FindStringSubmatch(d.String())
		labels := strings.FieldsFunc(found[2], func(c rune) bool { return c == ',' || c == ' ' })
		b[found[1]] = append(labels, "job", "instance")
		switch c.(type) {
		case *prometheus.HistogramVec, prometheus.Histogram:
			b[found[1]+"_bucket"] = append(b[found[1]], "le")
			b[found[1]+"_sum"], b[found[1]+"_count"] = b[found[1]], b[found[1]]
			delete(b, found[1])
		}
		if found[1] == "rounds_staleness_seconds" {
			b[found[1]] = append(b[found[1]], "quantile")
		}
	}
	return nil
}

func (b metricBook) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		_ = b.Register(c) // Register of a metricBook never fails
	}
}

func (b metricBook) Unregister(prometheus.Collector) bool { return false }

// programMetrics returns the metrics of the program's processes with any role.
func programMetrics(t *testing.T) metricBook {
	t.Helper()
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := metricBook{"up": {"job", "instance"}}
	showBuild(b, "v1", "")
	poller.NewMetrics(b)
	monitor.NewMetrics(b)
	delivery.NewMetrics(b)
	keep.NewMetrics(b)
	webhook.NewMetrics(b)
	api.NewCallbackMetrics(b)
	api.NewJobMetrics(b)
	wecomkf.Counting(credential.Of(ring), b)
	oauth.Counting(credential.Of(ring), b)
	telemetry.NewMetrics(b)
	countRing(b, ring)
	newRequestMetrics(b)
	newRedisMetrics(b, redistest.Embedded(t))
	return b
}

// faultsOf returns the faults of a PromQL expression in names and brackets. promtool finds
// more, but is not installed everywhere.
func (b metricBook) faultsOf(expr string) (faults []string) {
	var open []rune
	pairs := map[rune]rune{')': '(', '}': '{', ']': '['}
	bare := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expr, `""`)
	for _, c := range bare {
		switch c {
		case '(', '{', '[':
			open = append(open, c)
		case ')', '}', ']':
			if len(open) == 0 || open[len(open)-1] != pairs[c] {
				return []string{"brackets do not match"}
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 || strings.Count(expr, `"`)%2 != 0 {
		return []string{"something is not closed"}
	}
	labels := []string{}
	matchers := regexp.MustCompile(`(\w+)\{([^}]*)\}`)
	for _, m := range matchers.FindAllStringSubmatch(bare, -1) {
		for matcher := range strings.SplitSeq(m[2], ",") {
			label, _, _ := strings.Cut(matcher, "=")
			if !slices.Contains(b[m[1]], strings.TrimRight(label, "!")) {
				faults = append(faults, m[1]+" has no label "+label)
			}
		}
	}
	bare = matchers.ReplaceAllString(bare, "$1")
	bare = regexp.MustCompile(`\[[^\]]*\]`).ReplaceAllString(bare, "")
	groupings := regexp.MustCompile(`\b(?:by|on) \(([^)]+)\)`)
	for _, m := range groupings.FindAllStringSubmatch(bare, -1) {
		labels = append(labels, strings.Split(m[1], ", ")...)
	}
	bare = groupings.ReplaceAllString(bare, "")
	bare = regexp.MustCompile(`\boffset \d+[smhd]`).ReplaceAllString(bare, "")
	named := 0
	var has []string
	for _, m := range regexp.MustCompile(`([A-Za-z_]\w*)(\s*\()?`).FindAllStringSubmatch(bare, -1) {
		known, ok := b[m[1]]
		switch {
		case m[2] != "" || slices.Contains([]string{"and", "or", "unless"}, m[1]):
		case !ok:
			faults = append(faults, "there is no metric "+m[1])
		default:
			named++
			has = append(has, known...)
		}
	}
	if named == 0 {
		faults = append(faults, "it names no metric")
	}
	for _, label := range labels {
		if !slices.Contains(has, label) {
			faults = append(faults, "nothing in it has a label "+label)
		}
	}
	return faults
}

func TestExpressionsAreJudged(t *testing.T) {
	b := programMetrics(t)
	for _, good := range []string{
		`max(rounds_audit_lost) > 0`, `up{job="rounds"} == 0`, `sum by (le) (rate(rounds_lateness_seconds_bucket[5m]))`,
		`max_over_time(count(up{job="x"} == 1)[1h:1m])`, `sum(rounds_accounts{place="parked"} offset 1h)`,
		`(max(rounds_audit_lost) > 0) unless on () max(rounds_concern_silenced{concern="law_violated"}) == 1`,
		`max by (concern) (rounds_redis_concerns) unless on (concern) rounds_concern_silenced == 1`,
	} {
		if faults := b.faultsOf(good); len(faults) > 0 {
			t.Errorf("%s: %v", good, faults)
		}
	}
	for _, bad := range []string{
		`max(rounds_audit_lst) > 0`, `sum by (kind) (rounds_audit_lost)`, `rounds_accounts{kind="x"}`, `max(rounds_audit_lost > 0`,
		`rate(rounds_lateness_seconds[5m])`, `vector(1)`, `max(rounds_audit_lost] > 0`,
		`rounds_audit_lost unless on (node) rounds_concern_silenced == 1`,
	} {
		if len(b.faultsOf(bad)) == 0 {
			t.Errorf("%s: nothing is found", bad)
		}
	}
}

func TestAlertRules(t *testing.T) {
	b := programMetrics(t)
	text := deployment(t, "monitoring/alerts.yaml")
	scalar := func(s string) string {
		if inner, ok := strings.CutPrefix(s, "'"); ok {
			return strings.ReplaceAll(strings.TrimSuffix(inner, "'"), "''", "'")
		}
		return s
	}
	var rules []map[string]string
	line := regexp.MustCompile(`^      (- |  |    )(alert|expr|for|labels|severity|annotations|summary|description|dashboard):(?: (.+))?$`)
	for at := range strings.Lines(text) {
		at = strings.TrimSuffix(at, "\n")
		if strings.HasPrefix(at, "#") || at == "groups:" || at == "    rules:" || regexp.MustCompile(`^  - name: [a-z-]+$`).MatchString(at) {
			continue
		}
		m := line.FindStringSubmatch(at)
		if m == nil {
			t.Fatalf("not as the others: %q", at)
		}
		if m[2] == "alert" {
			rules = append(rules, make(map[string]string))
		}
		rules[len(rules)-1][m[2]] = scalar(m[3])
	}
	names := make(map[string]bool)
	for _, rule := range rules {
		name := rule["alert"]
		if names[name] || !strings.HasPrefix(name, "Rounds") {
			t.Errorf("%s: twice, or not one of ours", name)
		}
		names[name] = true
		for _, fault := range b.faultsOf(rule["expr"]) {
			t.Errorf("%s: %s: %s", name, rule["expr"], fault)
		}
		if _, err := time.ParseDuration(rule["for"]); err != nil {
			t.Errorf("%s: for: %v", name, err)
		}
		if !slices.Contains([]string{"warning", "critical"}, rule["severity"]) || rule["summary"] == "" || rule["description"] == "" {
			t.Errorf("%s: %v", name, rule)
		}
	}
	for _, name := range []string{
		"AccountsLost", "AccountsDuplicated", "Stale", "Late", "Overdue", "SweepsFail", "NoMonitorOnDuty", "ReplicasMissing", "NoReplica",
		"ProcessLost", "HeadroomLow", "MessagesAboutToBeLost", "CallbacksFail", "RedisErrors", "OutageSuspected", "AccountsFailing", "NewlyFailing", "ParkedRising", "StreamsHeldBack", "DeadLetters",
	} {
		if !names["Rounds"+name] {
			t.Errorf("there is no rule Rounds%s", name)
		}
	}
}

// What an alert says increases exists before it does: increase() of a series that appears
// at one is zero.
func TestAlertsSeeTheFirstEvent(t *testing.T) {
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	poller.NewMetrics(registry)
	monitor.NewMetrics(registry)
	delivery.NewMetrics(registry)
	wecomkf.Counting(credential.Of(ring), registry)
	oauth.Counting(credential.Of(ring), registry)
	countRing(registry, ring)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string][]string) // by metric, label=value
	for _, family := range families {
		for _, m := range family.GetMetric() {
			values[family.GetName()] = append(values[family.GetName()], "")
			for _, l := range m.GetLabel() {
				values[family.GetName()] = append(values[family.GetName()], l.GetName()+"="+l.GetValue())
			}
		}
	}
	// The values of these labels are known later, and tests of their packages look at them.
	later := map[string]string{
		"rounds_processes_lost_total":   "roles of processes that were seen",
		"rounds_delivery_handled_total": "groups of consumers",
		"rounds_callbacks_total":        "names of callbacks",
		"rounds_files_fetched_total":    "kinds whose messages carry files",
		"rounds_check_failures_total":   "kinds; the alert is about a share of all checks",
		"rounds_checks_total":           "kinds; the alert is about a share of all checks",
		"rounds_redis_errors_total":     "steps; the alert is about many in a row",

		"rounds_delivery_redis_errors_total": "steps; the alert is about many in a row",

		"rounds_detection_slow_total":          "groups and kinds; the alerts are about shares of all messages",
		"rounds_detection_delay_seconds_count": "groups and kinds; the alerts are about shares of all messages",
	}
	watched := regexp.MustCompile(`(?:increase|rate)\((\w+)(?:\{([^}]*)\})?\[`).FindAllStringSubmatch(deployment(t, "monitoring/alerts.yaml"), -1)
	if len(watched) < 10 {
		t.Fatalf("alerts watch %q", watched)
	}
	for _, w := range watched {
		name, matchers := w[1], w[2]
		if _, ok := later[name]; ok || strings.HasSuffix(name, "_bucket") {
			continue
		}
		if len(values[name]) == 0 {
			t.Errorf("%s does not exist before the first event", name)
		}
		for _, m := range regexp.MustCompile(`(\w+)=~?"([^"]*)"`).FindAllStringSubmatch(matchers, -1) {
			for value := range strings.SplitSeq(m[2], "|") {
				if !slices.Contains(values[name], m[1]+"="+value) {
					t.Errorf("%s{%s=%q} does not exist before the first event", name, m[1], value)
				}
			}
		}
	}
}

func TestDashboard(t *testing.T) {
	b := programMetrics(t)
	text := deployment(t, "monitoring/dashboard.json")
	var dashboard struct {
		UID    string
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     struct{ H, W, X, Y int }
			Targets     []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil || dashboard.UID != "rounds" {
		t.Fatalf("%q, %v", dashboard.UID, err)
	}
	ids := make(map[int]bool)
	for i, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 || p.GridPos.H == 0 {
			t.Errorf("panel %d, %q: %+v", p.ID, p.Title, p.GridPos)
		}
		ids[p.ID] = true
		for _, o := range dashboard.Panels[:i] {
			a, c := p.GridPos, o.GridPos
			if a.X < c.X+c.W && c.X < a.X+a.W && a.Y < c.Y+c.H && c.Y < a.Y+a.H {
				t.Errorf("%q lies over %q", p.Title, o.Title)
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			for _, fault := range b.faultsOf(target.Expr) {
				t.Errorf("%q: %s: %s", p.Title, target.Expr, fault)
			}
		}
	}
}

// The dashboard shows what operators look for, whatever else changes in it.
func TestDashboardShows(t *testing.T) {
	text := deployment(t, "monitoring/dashboard.json")
	for _, metric := range []string{
		"rounds_accounts_failing", "rounds_checks_failing", "rounds_check_failures_total", "rounds_accounts_behind", "rounds_missed_slots",
		"rounds_headroom_seconds", "rounds_group_lag", "rounds_redis_call_seconds", "rounds_redis_memory_ratio", "rounds_redis_concerns",
		"rounds_processes", "rounds_processes_lost_total", "rounds_api_request_seconds",
	} {
		if !strings.Contains(text, metric) {
			t.Errorf("nothing shows %s", metric)
		}
	}
}

// What can be wrong with a Redis has the same codes as a concern, in the API's stats and in the metric.
func TestRedisConcernsAreTheSameEverywhere(t *testing.T) {
	var codes []string
	for _, code := range concern.Codes() {
		if of, ok := strings.CutPrefix(string(code), "redis_"); ok {
			codes = append(codes, of)
		}
	}
	slices.Sort(codes)
	field, _ := reflect.TypeFor[api.RedisConcern]().FieldByName("Concern")
	told := strings.Split(field.Tag.Get("enum"), ",")
	slices.Sort(told)
	if !slices.Equal(told, codes) {
		t.Errorf("stats tell %q, concerns are %q", told, codes)
	}
	help := deployment(t, "../monitor/metrics.go")
	_, help, _ = strings.Cut(help, `gauges("redis_concerns"`)
	_, help, _ = strings.Cut(help, "by node and concern: ")
	help, _, _ = strings.Cut(help, `."`)
	help = strings.Replace(help, "and for a process with an embedded Redis ", "", 1)
	shown := strings.Split(help, ", ")
	slices.Sort(shown)
	if !slices.Equal(shown, codes) {
		t.Errorf("the metric's help tells %q, concerns are %q", shown, codes)
	}
}

// The processes that the first pages start are those that the scrape configuration of the
// operators' pages reads.
func TestFirstPagesScrapeWhatTheyStart(t *testing.T) {
	for page, operations := range map[string]string{"../README.md": "guide/operations.md", "guide/zh-CN/README.md": "guide/zh-CN/operations.md"} {
		text := deployment(t, page)
		started := []string{"127.0.0.1:8080"}
		for _, found := range regexp.MustCompile(`serve --roles \w+ --ops-addr (\S+) &`).FindAllStringSubmatch(text, -1) {
			started = append(started, found[1])
		}
		if want := `targets: ["` + strings.Join(started, `", "`) + `"]`; len(started) != 3 || !strings.Contains(deployment(t, operations), want) {
			t.Errorf("%s starts %q, and %s does not have %s", page, started, operations, want)
		}
	}
}

func TestScrapeConfiguration(t *testing.T) {
	text := deployment(t, "monitoring/prometheus.yaml")
	for _, part := range []string{"\nrule_files:\n  - alerts.yaml\n", "\n  - job_name: rounds\n", "credentials_file:", "- api:8080", "port: 8081"} {
		if !strings.Contains(text, part) {
			t.Errorf("there is no %q", part)
		}
	}
	if strings.Contains(text, "\t") {
		t.Error("YAML knows no tabs")
	}
	compose := deployment(t, "compose/compose.yaml")
	if !strings.Contains(compose, "ROUNDS_OPS_ADDR: 0.0.0.0:8081") {
		t.Error("the compose file serves metrics elsewhere")
	}
}
