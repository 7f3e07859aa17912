//go:build night

package kubernetestest

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"go.yaml.in/yaml/v3"
)

// burnt is some time with so many messages a minute, and so many of a hundred slow.
type burnt struct {
	minutes int
	each    float64
	slow    float64
}

// The alerts about slow messages fire when the one in a hundred that may be slow is used up too fast, and at no
// other time.
func TestAlertsOfSlowMessages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "/deployments/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	rules := make(map[string]string)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if name, ok := strings.CutPrefix(r.Alert, "RoundsDetectionSlow"); ok {
				rules[name] = r.Expr
			}
		}
	}
	if len(rules) != 3 {
		t.Fatalf("the rules are %v", rules)
	}
	const hour, day = 60, 24 * 60
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	for name, test := range map[string]struct {
		past []burnt
		want string
		none bool // there is no objective
	}{
		"none is slow":                          {past: []burnt{{3 * day, 60, 0}}},
		"as many as promised":                   {past: []burnt{{3 * day, 60, 0.9}}},
		"twice as many for days":                {past: []burnt{{3 * day, 60, 2}}, want: "Lately"},
		"seven in a hundred since this morning": {past: []burnt{{3*day - 6*hour, 60, 0.1}, {6 * hour, 60, 7}}, want: "Today"},
		"a quarter for the last hour":           {past: []burnt{{3*day - hour, 60, 0.1}, {hour, 60, 25}}, want: "Now"},
		"all for two minutes":                   {past: []burnt{{3*day - 2, 60, 0.1}, {2, 60, 100}}},
		"a quarter for an hour, and well since": {past: []burnt{{3*day - 2*hour, 60, 0.1}, {hour, 60, 25}, {hour, 60, 0}}},
		"few messages, and some of them slow":   {past: []burnt{{3*day - hour, 0.05, 0}, {hour, 0.1, 100}}},
		"all, and nobody has promised anything": {past: []burnt{{3 * day, 60, 100}}, none: true},
	} {
		t.Run(name, func(t *testing.T) {
			var all, slow []chunks.Sample
			count, late, at := 0.0, 0.0, int64(0)
			for _, b := range test.past {
				for range b.minutes {
					all, slow = append(all, sample{at, count}), append(slow, sample{at, late})
					count, late, at = count+b.each, late+b.each*b.slow/100, at+60_000
				}
			}
			series := map[string][]chunks.Sample{"rounds_detection_delay_seconds_count": all, "rounds_detection_slow_total": slow}
			if test.none {
				delete(series, "rounds_detection_slow_total")
			}
			data := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
				var found []storage.Series
				for name, samples := range series {
					l := labels.FromStrings("__name__", name, "group", "webhook.crm", "kind", "feed", "instance", "a")
					if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) }) {
						found = append(found, storage.NewListSeries(l, samples))
					}
				}
				return &seriesSet{found, -1}
			}}}
			var fire []string
			for rule, expr := range rules {
				q, err := engine.NewInstantQuery(t.Context(), data, nil, expr, time.UnixMilli(at-60_000))
				if err != nil {
					t.Fatal(err)
				}
				vector, err := q.Exec(t.Context()).Vector()
				if err != nil {
					t.Fatal(err)
				}
				if len(vector) > 0 {
					fire = append(fire, rule)
				}
				q.Close()
			}
			slices.Sort(fire)
			if got := strings.Join(fire, " "); got != test.want {
				t.Errorf("%q fire, want %q", got, test.want)
			}
		})
	}
}
