//go:build night

package kubernetestest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
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

// rulesOf returns the triggers and rules of a rendered ScaledObject.
func rulesOf(t *testing.T, o object) (triggers []trigger, b behavior) {
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

// series names a time series. Endpoint is a webhook, for the metrics that have one.
type series struct{ metric, pod, endpoint string }

// labels returns the labels that queries see.
func (s series) labels() labels.Labels {
	all := []string{"__name__", s.metric, "pod", s.pod, "namespace", "messages"}
	switch {
	case s.endpoint == "":
	case strings.HasPrefix(s.metric, "rounds_group_"):
		all = append(all, "group", "webhook."+s.endpoint)
	default:
		all = append(all, "endpoint", s.endpoint)
	}
	return labels.FromStrings(all...)
}

// scraped are the values of the last minutes.
type scraped map[series][]chunks.Sample

func (s scraped) add(key series, second int, number float64) {
	s[key] = append(s[key], sample{int64(second) * 1000, number})
	if len(s[key]) > 20 { // no query looks back for longer
		s[key] = s[key][1:]
	}
}

// gone marks the series of a pod as stale, as Prometheus does when service discovery forgets it.
func (s scraped) gone(pod string, second int) {
	for key := range s {
		if key.pod == pod {
			s.add(key, second, math.Float64frombits(value.StaleNaN))
		}
	}
}

// ask evaluates a query as Prometheus does, and reports its only number.
func (s scraped) ask(t *testing.T, engine *promql.Engine, query string, second int) (float64, bool) {
	t.Helper()
	data := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		var found []storage.Series
		for key, samples := range s {
			l := key.labels()
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
	late               float64     // the 99th percentile of how late work began, in seconds
	byHour             map[int]int // the most pods in each hour
}

// work is what pods do.
type work interface {
	// step does a second of work with so many pods. It returns how much work began, and how late.
	step(second, ready int) (begun, late float64)
	// scrape has the metrics of the pods that are ready.
	scrape(data scraped, second int, ready []string)
}

// curve is how much comes in each second of a day, around one: little at night and much by day, with a jump
// by half in the morning, and noise.
func curve(second int, random *rand.Rand) float64 {
	hour := float64(second) / 3600
	much := 1 - 7.0/9*math.Cos(2*math.Pi*(hour-3)/24)
	if hour > 9 && hour < 11 {
		much *= 1.5
	}
	return max(0, much*(1+0.1*random.NormFloat64()))
}

// slow is how many times as long third parties take: twice in one hour of the day.
func slow(second int) float64 {
	if second > 15*3600 && second < 16*3600 {
		return 2
	}
	return 1
}

// queue is work that waits, and of which pods take what their places allow.
type queue struct{ waiting, running, late, oldest float64 }

// step returns how much began.
func (q *queue) step(comes, places, takes float64) (begun float64) {
	q.waiting += comes
	begun = min(q.waiting, places/takes)
	q.waiting -= begun
	q.running, q.late, q.oldest = begun*takes, 0, 0
	if q.waiting > 0 {
		q.late = q.waiting / max(begun, 1e-9)
		q.oldest = q.waiting / max(comes, 1e-9) // the first come is the first begun
	}
	return begun
}

// checks are the work of pollers.
type checks struct {
	random *rand.Rand
	queue  queue
}

func newChecks() work { return &checks{random: rand.New(rand.NewPCG(1, 2))} }

func (c *checks) step(second, ready int) (begun, late float64) {
	begun = c.queue.step(900*curve(second, c.random), float64(ready*256), 0.6*slow(second))
	return begun, c.queue.late
}

func (c *checks) scrape(data scraped, second int, ready []string) {
	for _, pod := range ready {
		data.add(series{metric: "rounds_checks_running", pod: pod}, second, c.queue.running/float64(len(ready))*(1+0.05*c.random.NormFloat64()))
		data.add(series{metric: "rounds_checks_held", pod: pod}, second, 0)
	}
	data.add(series{metric: "rounds_overdue_seconds", pod: "monitor"}, second, c.queue.late+c.random.Float64()*0.5)
}

// holds are checks that third parties hold, as many as accounts are there, and no other checks. An
// account beyond the places of the pods waits for its turn.
type holds struct {
	random *rand.Rand
	places float64 // of a pod
	held   float64
}

func (h *holds) step(second, ready int) (begun, late float64) {
	there := 60_000 * curve(second/60*60, h.random)
	h.held = min(there, float64(ready)*h.places)
	if there > h.held {
		late = 60 * (there/max(h.held, 1) - 1) // a turn of a minute for each
	}
	return there, late
}

func (h *holds) scrape(data scraped, second int, ready []string) {
	for _, pod := range ready {
		data.add(series{metric: "rounds_checks_running", pod: pod}, second, 2)
		data.add(series{metric: "rounds_checks_held", pod: pod}, second, h.held/float64(len(ready)))
	}
	data.add(series{metric: "rounds_overdue_seconds", pod: "monitor"}, second, h.random.Float64()*0.5)
}

// deliveries are the work of delivery: two webhooks, of which crm gets most. From one o'clock at night audit
// refuses everything for an hour: its breaker lets an attempt through each half a minute, and its messages wait.
type deliveries struct {
	random     *rand.Rand
	places     float64 // of a pod, for each webhook
	crm, audit queue
	counted    map[series]float64 // seconds of attempts
}

func (d *deliveries) refusing(second int) bool { return second >= 3600 && second < 2*3600 }

func (d *deliveries) step(second, ready int) (begun, late float64) {
	places := float64(ready) * d.places
	comes := 2.2 * d.places * curve(second, d.random)
	begun = d.crm.step(comes, places, 0.6*slow(second))
	if d.refusing(second) {
		d.audit.step(comes/5, 1.0/30, 1)
	} else {
		d.audit.step(comes/5, places, 0.6)
	}
	for i := range ready {
		for endpoint, q := range map[string]*queue{"crm": &d.crm, "audit": &d.audit} {
			d.counted[series{"rounds_webhook_attempt_seconds_sum", podNamed(i), endpoint}] += q.running / float64(ready)
		}
	}
	return begun, d.crm.late
}

func (d *deliveries) scrape(data scraped, second int, ready []string) {
	for endpoint, q := range map[string]*queue{"crm": &d.crm, "audit": &d.audit} {
		for _, pod := range ready {
			spent := series{"rounds_webhook_attempt_seconds_sum", pod, endpoint}
			data.add(spent, second, d.counted[spent])
			data.add(series{"rounds_webhook_breaker_state", pod, endpoint}, second, 0)
		}
		data.add(series{"rounds_group_oldest_unread_seconds", "monitor", endpoint}, second, q.oldest+d.random.Float64())
	}
}

func podNamed(i int) string { return fmt.Sprint("pod-", i) }

// day simulates the hours of a day.
func day(t *testing.T, hours int, triggers []trigger, b behavior, w work) outcome {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 100_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	data, s := make(scraped), &scaler{behavior: b}
	begun := make([]int, b.fewest) // when each pod was begun, the oldest first
	for i := range begun {
		begun[i] = -start
	}
	got := outcome{least: len(begun), byHour: make(map[int]int)}
	all := 0.0
	lateness := make(map[int]float64) // work by tenths of seconds
	up, turned := 0, 0
	for second := range hours * 3600 {
		var ready []string
		for i, at := range begun {
			if second-at >= start {
				ready = append(ready, podNamed(i))
			}
		}
		done, late := w.step(second, len(ready))
		all += done
		lateness[int(late*10)] += done
		if second%look != 0 {
			continue
		}
		w.scrape(data, second, ready)
		values, known := make([]float64, len(triggers)), make([]bool, len(triggers))
		for i, tr := range triggers {
			values[i], known[i] = data.ask(t, engine, tr.query, second)
		}
		next := s.decide(second, len(begun), len(ready), triggers, values, known)
		direction := 0
		for len(begun) < next {
			begun, direction = append(begun, second), 1
		}
		for len(begun) > next {
			data.gone(podNamed(len(begun)-1), second)
			begun, direction = begun[:len(begun)-1], -1
		}
		if direction != 0 {
			if up != 0 && direction != up && second-turned < 900 {
				got.flaps++
			}
			up, turned = direction, second
		}
		got.least, got.most = min(got.least, next), max(got.most, next)
		got.byHour[second/3600] = max(got.byHour[second/3600], next)
	}
	seen := 0.0
	for tenth := 0; seen < 0.99*all; tenth++ {
		seen += lateness[tenth]
		got.late = float64(tenth+1) / 10
	}
	return got
}

// spoilt runs the day with rules that were made worse. Each must flap, or be late.
func spoilt(t *testing.T, hours int, triggers []trigger, b behavior, late float64, w func() work, how map[string]func(*[]trigger, *behavior)) {
	t.Helper()
	for name, spoil := range how {
		all, b := slices.Clone(triggers), b
		spoil(&all, &b)
		bad := day(t, hours, all, b, w())
		t.Logf("%s: %+v", name, bad)
		if bad.flaps == 0 && bad.late <= late {
			t.Errorf("%s: nothing is found: %+v", name, bad)
		}
	}
}

// A day of load, by the queries, thresholds and rules that the chart renders: pods follow the load both ways, do not
// flap, and at most one check in a hundred starts more than two seconds late.
func TestADayOfScaledPollers(t *testing.T) {
	t.Parallel()
	triggers, b := rulesOf(t, find(t, rendered(t)["keda"], "ScaledObject rounds-poller"))
	got := day(t, 24, triggers, b, newChecks())
	t.Logf("%+v", got)
	if got.flaps > 0 || got.late > 2 || got.least > 3 || got.most < 8 || got.most == b.most {
		t.Errorf("the day was %+v", got)
	}
	spoilt(t, 13, triggers, b, 2, newChecks, map[string]func(*[]trigger, *behavior){
		// Pods leave although the load needs them, and waiting brings them back.
		"nothing but waiting, and no window": func(all *[]trigger, b *behavior) { *all, b.down = (*all)[2:], 0 },
		"all places in use": func(all *[]trigger, b *behavior) {
			(*all)[0].threshold = 256 * 1.5
			(*all)[2].threshold = 60
			b.down = 0
		},
	})
}

// The same for held checks, of which each account has one all the time.
func TestADayOfHeldChecks(t *testing.T) {
	t.Parallel()
	triggers, b := rulesOf(t, find(t, rendered(t)["keda"], "ScaledObject rounds-poller"))
	held := func() work { return &holds{random: rand.New(rand.NewPCG(3, 4)), places: triggers[1].threshold / 0.8} }
	got := day(t, 24, triggers, b, held())
	t.Logf("%+v", got)
	if got.flaps > 0 || got.late > 2 || got.least > 3 || got.most < 6 || got.most == b.most {
		t.Errorf("the day was %+v", got)
	}
	spoilt(t, 13, triggers, b, 2, held, map[string]func(*[]trigger, *behavior){
		"no window":         func(_ *[]trigger, b *behavior) { b.down = 0 },
		"all places in use": func(all *[]trigger, _ *behavior) { (*all)[1].threshold *= 1.5 },
	})
}

// The same for delivery: at most one message in a hundred waits for longer than the oldest may. A webhook that
// refuses everything brings no pods, however long its messages wait.
func TestADayOfScaledDelivery(t *testing.T) {
	t.Parallel()
	triggers, b := rulesOf(t, find(t, rendered(t)["keda"], "ScaledObject rounds-delivery"))
	age := triggers[1].threshold
	messages := func() work {
		return &deliveries{random: rand.New(rand.NewPCG(5, 6)), places: triggers[0].threshold / 0.6, counted: make(map[series]float64)}
	}
	got := day(t, 24, triggers, b, messages())
	t.Logf("%+v", got)
	if got.flaps > 0 || got.late > age || got.least > 3 || got.most < 4 || got.byHour[1] > b.fewest {
		t.Errorf("the day was %+v", got)
	}
	spoilt(t, 13, triggers, b, age, messages, map[string]func(*[]trigger, *behavior){
		"nothing but the oldest, and no window": func(all *[]trigger, b *behavior) { *all, b.down = (*all)[1:], 0 },
		"all places in use":                     func(all *[]trigger, b *behavior) { (*all)[0].threshold *= 3; (*all)[1].threshold = 600; b.down = 0 },
	})
	// Without a look at the places, the age alone brings pods that a refusing webhook does not need.
	alone := slices.Clone(triggers)
	alone[1].query = "max(rounds_group_oldest_unread_seconds)"
	if bad := day(t, 3, alone, b, messages()); bad.byHour[1] <= b.fewest {
		t.Errorf("by the age alone: %+v", bad)
	}
}
