//go:build night

package kubernetestest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// Seconds of a simulated day.
const (
	look  = 15 // Prometheus scrapes, and Kubernetes decides, so often
	start = 45 // from a decision until a new pod checks
)

// trigger is a query of KEDA with its threshold. byPod: AverageValue, otherwise Value.
type trigger struct {
	query     string
	threshold float64
	byPod     bool
}

// behavior are the rules by which Kubernetes scales.
type behavior struct {
	up, down     int // stabilization windows in seconds
	upPercent    float64
	upPods       int
	downPercent  float64
	downPods     int
	fewest, most int
}

// pollers returns the triggers and rules that the chart renders for the pollers.
func pollers(t *testing.T, o object) (triggers []trigger, b behavior) {
	t.Helper()
	for _, each := range list(o, "spec", "triggers") {
		threshold, err := strconv.ParseFloat(fmt.Sprint(at(each, "metadata", "threshold")), 64)
		if err != nil {
			t.Fatal(err)
		}
		triggers = append(triggers, trigger{fmt.Sprint(at(each, "metadata", "query")), threshold, at(each, "metricType") == "AverageValue"})
	}
	rules := at(o, "spec", "advanced", "horizontalPodAutoscalerConfig", "behavior")
	number := func(of any, path ...string) int {
		n, ok := at(of, path...).(int)
		if !ok {
			t.Fatalf("there is no number %v", path)
		}
		return n
	}
	policy := func(direction string) (percent float64, pods int) {
		all := list(rules, direction, "policies")
		return float64(number(all[0], "value")), number(all[1], "value")
	}
	b = behavior{up: number(rules, "scaleUp", "stabilizationWindowSeconds"), down: number(rules, "scaleDown", "stabilizationWindowSeconds"),
		fewest: number(o, "spec", "minReplicaCount"), most: number(o, "spec", "maxReplicaCount")}
	b.upPercent, b.upPods = policy("scaleUp")
	b.downPercent, b.downPods = policy("scaleDown")
	return triggers, b
}

// sample is a scraped value.
type sample struct {
	t int64
	f float64
}

func (s sample) T() int64                    { return s.t }
func (s sample) ST() int64                   { return 0 }
func (s sample) F() float64                  { return s.f }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

// scraped are the values of the last minutes, by metric and pod.
type scraped map[[2]string][]chunks.Sample

func (s scraped) add(metric, pod string, second int, number float64) {
	key := [2]string{metric, pod}
	s[key] = append(s[key], sample{int64(second) * 1000, number})
	if len(s[key]) > 20 { // no query looks back for longer
		s[key] = s[key][1:]
	}
}

// gone marks the series of a pod as stale, as Prometheus does when service discovery forgets it.
func (s scraped) gone(pod string, second int) {
	for key := range s {
		if key[1] == pod {
			s.add(key[0], pod, second, math.Float64frombits(value.StaleNaN))
		}
	}
}

// ask evaluates a query as Prometheus does, and reports its only number.
func (s scraped) ask(t *testing.T, engine *promql.Engine, query string, second int) (float64, bool) {
	t.Helper()
	data := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		var found []storage.Series
		for key, samples := range s {
			l := labels.FromStrings("__name__", key[0], "pod", key[1], "namespace", "messages")
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) }) {
				found = append(found, storage.NewListSeries(l, samples))
			}
		}
		return &seriesSet{found, -1}
	}}}
	q, err := engine.NewInstantQuery(t.Context(), data, nil, query, time.Unix(int64(second), 0))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	result := q.Exec(t.Context())
	vector, err := result.Vector()
	if err != nil || len(vector) > 1 {
		t.Fatalf("%s: %v, %v", query, vector, err)
	}
	if len(vector) == 0 {
		return 0, false
	}
	return vector[0].F, true
}

type seriesSet struct {
	series []storage.Series
	at     int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at < len(s.series) }
func (s *seriesSet) At() storage.Series              { return s.series[s.at] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// scaler is Kubernetes' HorizontalPodAutoscaler (pkg/controller/podautoscaler of 1.37): the largest demand of all
// triggers, a tolerance of a tenth, windows, and the bounds of what changes within a minute.
type scaler struct {
	behavior
	wanted  [][2]int // second, pods
	changes [][2]int // second, by how many
}

func (s *scaler) decide(second, pods, ready int, triggers []trigger, values []float64, known []bool) int {
	wanted, all := 0, true
	for i, tr := range triggers {
		ratio, want := values[i]/tr.threshold, pods
		if tr.byPod {
			ratio /= float64(pods)
		}
		switch {
		case !known[i]:
			all = false
			continue
		case math.Abs(ratio-1) <= 0.1:
		case tr.byPod:
			want = int(math.Ceil(values[i] / tr.threshold))
		default:
			want = int(math.Ceil(ratio * float64(ready)))
		}
		wanted = max(wanted, want)
	}
	if !all && wanted < pods {
		wanted = pods
	}
	wanted = min(max(wanted, s.fewest), s.most)
	low, high := wanted, wanted
	for _, w := range s.wanted {
		if w[0] > second-s.up {
			low = min(low, w[1])
		}
		if w[0] > second-s.down {
			high = max(high, w[1])
		}
	}
	s.wanted = append(s.wanted, [2]int{second, wanted})
	if len(s.wanted) > 100 {
		s.wanted = s.wanted[1:]
	}
	next := min(max(pods, low), high)
	began := pods // a minute ago
	for _, c := range s.changes {
		if c[0] > second-60 {
			began -= c[1]
		}
	}
	if next > pods {
		next = max(pods, min(next, max(int(math.Ceil(float64(began)*(1+s.upPercent/100))), began+s.upPods)))
	} else if next < pods {
		next = min(pods, max(next, min(int(float64(began)*(1-s.downPercent/100)), began-s.downPods)))
	}
	if next != pods {
		s.changes = append(s.changes, [2]int{second, next - pods})
	}
	return next
}

// outcome is what a day was like.
type outcome struct {
	flaps, least, most int
	late               float64 // the 99th percentile of how late checks started, in seconds
}

// day simulates the hours of a day of checks: few at night and many by day, with a jump by half in the morning, noise, and an
// hour in which third parties take twice as long. Waiting accounts are a queue, of which pods take what their places
// allow.
func day(t *testing.T, hours int, triggers []trigger, b behavior) outcome {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 100_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	const concurrency = 256
	random, data, s := rand.New(rand.NewPCG(1, 2)), make(scraped), &scaler{behavior: b}
	begun := make([]int, b.fewest) // when each pod was begun, the oldest first
	for i := range begun {
		begun[i] = -start
	}
	var got outcome
	var queue, running, checks float64
	lateness := make(map[int]float64) // checks by tenths of seconds
	up, turned := 0, 0
	got.least = len(begun)
	for second := range hours * 3600 {
		hour := float64(second) / 3600
		rate := 900 - 700*math.Cos(2*math.Pi*(hour-3)/24)
		if hour > 9 && hour < 11 {
			rate *= 1.5
		}
		takes := 0.6
		if hour > 15 && hour < 16 {
			takes *= 2
		}
		rate *= 1 + 0.1*random.NormFloat64()
		ready := 0
		for _, at := range begun {
			if second-at >= start {
				ready++
			}
		}
		places := float64(ready * concurrency)
		queue += max(rate, 0)
		done := min(queue, places/takes)
		queue -= done
		running = done * takes
		wait := 0.0
		if queue > 0 {
			wait = queue / done
		}
		checks += done
		lateness[int(wait*10)] += done
		if second%look != 0 {
			continue
		}
		for i, at := range begun {
			if second-at >= start {
				pod := fmt.Sprint("poller-", i)
				data.add("rounds_checks_running", pod, second, running/float64(ready)*(1+0.05*random.NormFloat64()))
				data.add("rounds_checks_held", pod, second, 0)
			}
		}
		data.add("rounds_overdue_seconds", "monitor", second, wait+random.Float64()*0.5)
		values, known := make([]float64, len(triggers)), make([]bool, len(triggers))
		for i, tr := range triggers {
			values[i], known[i] = data.ask(t, engine, tr.query, second)
		}
		next := s.decide(second, len(begun), ready, triggers, values, known)
		direction := 0
		for len(begun) < next {
			begun, direction = append(begun, second), 1
		}
		for len(begun) > next {
			data.gone(fmt.Sprint("poller-", len(begun)-1), second)
			begun, direction = begun[:len(begun)-1], -1
		}
		if direction != 0 {
			if up != 0 && direction != up && second-turned < 900 {
				got.flaps++
			}
			up, turned = direction, second
		}
		got.least, got.most = min(got.least, next), max(got.most, next)
	}
	seen := 0.0
	for tenth := 0; seen < 0.99*checks; tenth++ {
		seen += lateness[tenth]
		got.late = float64(tenth+1) / 10
	}
	return got
}

// A day of load, by the queries, thresholds and rules that the chart renders: pods follow the load both ways, do not
// flap, and at most one check in a hundred starts more than two seconds late.
func TestADayOfScaledPollers(t *testing.T) {
	t.Parallel()
	triggers, b := pollers(t, find(t, rendered(t)["keda"], "ScaledObject rounds-poller"))
	got := day(t, 24, triggers, b)
	t.Logf("%+v", got)
	if got.flaps > 0 || got.late > 2 || got.least > 3 || got.most < 8 || got.most == b.most {
		t.Errorf("the day was %+v", got)
	}
	for name, spoil := range map[string]func(*[]trigger, *behavior){
		// Pods leave although the load needs them, and waiting brings them back.
		"nothing but waiting, and no window": func(all *[]trigger, b *behavior) { *all, b.down = (*all)[2:], 0 },
		"all places in use": func(all *[]trigger, b *behavior) {
			(*all)[0].threshold = 256 * 1.5
			(*all)[2].threshold = 60
			b.down = 0
		},
	} {
		all, b := slices.Clone(triggers), b
		spoil(&all, &b)
		bad := day(t, 13, all, b)
		t.Logf("%s: %+v", name, bad)
		if bad.flaps == 0 && bad.late <= 2 {
			t.Errorf("%s: nothing is found: %+v", name, bad)
		}
	}
}
