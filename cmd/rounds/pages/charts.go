package pages

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// charts is what the page shows about what checks did, by kind, host, label, account and shard.
type charts struct {
	*visit
	api.Activity

	Figure  string // what the small curves show
	Of      string // whose large charts these are; empty: all
	Refused *problem
}

// chartFigures are the figures to choose from.
var chartFigures = []string{"checks", "messages", "failures", "lateness", "duration"}

func chartsPage() *page {
	return &page{name: "charts", path: "/charts", menu: "charts", scripts: []string{"zoom.js"}, data: showCharts, raw: map[string]func(*visit, http.ResponseWriter){"GET /charts/failing": failingSince}}
}

// failingSince sends the browser to the accounts that have failed since a time: their last check that
// succeeded completely was in it. The list takes how long ago that is.
func failingSince(v *visit, w http.ResponseWriter) {
	from, badFrom := time.Parse(time.RFC3339, v.Query("from"))
	to, badTo := time.Parse(time.RFC3339, v.Query("to"))
	if badFrom != nil || badTo != nil {
		v.fail(w, v, refusal(http.StatusUnprocessableEntity, v.lang.text("charts.refused")))
		return
	}
	var now struct{ Now time.Time } // by Redis' clock
	if err := v.shared("/v1/problems?counts=true", &now); err != nil {
		v.fail(w, v, err)
		return
	}
	since, until := now.Now.Sub(to), now.Now.Sub(from)
	q := url.Values{"state": {"failing"}, "until": {max(until, time.Second).Round(time.Second).String()}}
	if since >= time.Second {
		q.Set("since", since.Round(time.Second).String())
	}
	http.Redirect(w, v.r, address("/accounts", q), http.StatusSeeOther)
}

// InTime returns the address of a page about the time that is shown.
func (c *charts) InTime(path string) string {
	return link(path, "from", c.From.UTC().Format(time.RFC3339), "to", c.To().UTC().Format(time.RFC3339))
}

func showCharts(v *visit) (any, error) {
	c := &charts{visit: v, Figure: v.Query("figure"), Of: v.Query("of")}
	if !slices.Contains(chartFigures, c.Figure) {
		c.Figure = chartFigures[0]
	}
	q := url.Values{"figure": {c.Figure}}
	if c.Of != "" {
		q.Set("of", c.Of)
	}
	if from, to := v.Query("from"), v.Query("to"); from != "" || to != "" {
		q.Set("from", from)
		q.Set("to", to)
	} else {
		q.Set("from", c.Span().From)
	}
	err := v.shared(address("/v1/activity", q), &c.Activity)
	if c.Refused = refusedFor(err, 422); c.Refused != nil {
		return c, nil
	}
	return c, err
}

// Spans returns the spans to choose from.
func (c *charts) Spans() []span { return spans() }

// Span returns the chosen span.
func (c *charts) Span() span {
	for _, s := range spans() {
		if s.Name == c.Query("span") {
			return s
		}
	}
	return spans()[0]
}

// Zoomed reports whether the page shows a time that somebody chose in a chart.
func (c *charts) Zoomed() bool { return c.Query("from") != "" || c.Query("to") != "" }

// FigureNames returns the figures to choose from.
func (c *charts) FigureNames() []string { return chartFigures }

// Begin returns when a point begins, and To when the last one ends.
func (c *charts) Begin(point int) time.Time {
	return c.From.Add(time.Duration(point*c.Seconds) * time.Second)
}

// To returns when the last point ends.
func (c *charts) To() time.Time { return c.Begin(c.Points) }

// At returns the address of the page about one point alone.
func (c *charts) At(point int) string {
	return c.With("span", "", "from", c.Begin(point).Format(time.RFC3339), "to", c.Begin(point+1).Format(time.RFC3339))
}

// Wider returns the address of the page about three times the time.
func (c *charts) Wider() string {
	over := c.To().Sub(c.From)
	to := c.To().Add(over)
	if to.After(c.Now) {
		to = c.Now
	}
	return c.With("span", "", "from", c.From.Add(-over).UTC().Format(time.RFC3339), "to", to.UTC().Format(time.RFC3339))
}

// barChart is one of the large charts.
type barChart struct {
	Name  string
	Path  string
	Faint string // of the greatest values; empty: there are none
	Top   float64
	Sum   float64
	Known bool
	Unit  string // number or seconds
}

// Bars returns the large charts.
func (c *charts) Bars() []barChart {
	w := c.Whole
	all := []barChart{}
	for _, one := range []struct {
		name, unit   string
		values, most api.Values
	}{
		{"checks", "number", w.Checks, nil}, {"messages", "number", w.Messages, nil}, {"failures", "number", w.Failures, nil},
		{"lateness", "seconds", w.Lateness, w.Latest}, {"duration", "seconds", w.Duration, w.Longest},
	} {
		b := barChart{Name: one.name, Unit: one.unit}
		most := 0.0
		for _, v := range slices.Concat(one.values, one.most) {
			if !math.IsNaN(v) {
				most, b.Known = max(most, v), true
			}
		}
		for _, v := range one.values {
			if !math.IsNaN(v) {
				b.Sum += v
			}
		}
		b.Top = rounded(most)
		b.Path, b.Faint = barPath(one.values, b.Top, chartWidth, chartHeight), barPath(one.most, b.Top, chartWidth, chartHeight)
		all = append(all, b)
	}
	return all
}

// Shown returns a value of a chart in its unit.
func (c *charts) Shown(unit string, value float64) string {
	if unit == "seconds" {
		return c.lang.duration(value)
	}
	return c.lang.number(value)
}

// Curve returns the small curve of a name as the d of an SVG path.
func (c *charts) Curve(a api.Active) string {
	most := 0.0
	for _, v := range a.Curve {
		if !math.IsNaN(v) {
			most = max(most, v)
		}
	}
	return barPath(a.Curve, rounded(most), 120, 20)
}

// Share returns the part of the checks that failed.
func (c *charts) Share(a api.Active) float64 {
	return float64(a.Failures) / float64(max(1, a.Checks))
}

// barPath returns values as bars side by side, the d of an SVG path. A missing value has no bar, and
// a value that is not zero has one that can be seen.
func barPath(values []float64, top float64, width, height int) string {
	var b strings.Builder
	step := float64(width) / float64(max(1, len(values)))
	for i, v := range values {
		if math.IsNaN(v) || v <= 0 {
			continue
		}
		high := max(1, float64(height)*min(1, v/top))
		fmt.Fprintf(&b, "M%.1f %dv%.1fh%.1fv%.1fz", float64(i)*step, height, -high, step, high)
	}
	return b.String()
}

// moment is a point to click on.
type moment struct {
	X, Width float64
	Point    int
}

// Moments returns the points to click on in a chart.
func (c *charts) Moments() []moment {
	all := make([]moment, c.Points)
	step := float64(chartWidth) / float64(max(1, c.Points))
	for i := range all {
		all[i] = moment{math.Round(float64(i)*step*10) / 10, math.Round(step*10) / 10, i}
	}
	return all
}

// Row returns a point's figures for the table.
func (c *charts) Row(point int) []string {
	w := c.Whole
	shown := func(values api.Values, unit string) string {
		if point >= len(values) || math.IsNaN(values[point]) {
			return "–"
		}
		return c.Shown(unit, values[point])
	}
	return []string{shown(w.Checks, "number"), shown(w.Messages, "number"), shown(w.Failures, "number"), shown(w.Lateness, "seconds"), shown(w.Latest, "seconds"), shown(w.Duration, "seconds"), shown(w.Longest, "seconds")}
}

// MarkLines returns where the marks of a sort stand in a chart, as the d of an SVG path.
func (c *charts) MarkLines(what string) string {
	var b strings.Builder
	over := c.To().Sub(c.From).Seconds()
	for _, m := range c.Marks {
		if m.What == what {
			fmt.Fprintf(&b, "M%.1f 0V%d", m.At.Sub(c.From).Seconds()/over*chartWidth, chartHeight)
		}
	}
	return b.String()
}

// shownMarks is the most marks in the list.
const shownMarks = 50

// Latest returns the latest marks, the latest first.
func (c *charts) Latest() []api.ActivityMark {
	all := slices.Clone(c.Marks[max(0, len(c.Marks)-shownMarks):])
	slices.Reverse(all)
	return all
}

// heatLimits are the seconds from which a cell of the heat map has the next colour.
var heatLimits = []float64{1, 10, 60, 600}

// Heat returns the cells of each colour of the heat map, as the d of an SVG path. Neighbouring cells
// of one row and colour are one.
func (c *charts) Heat() []string {
	all := make([]strings.Builder, len(heatLimits)+1)
	for y, row := range c.Rows {
		for x := 0; x < len(row.Lateness); {
			level, begin := heatOf(row.Lateness[x]), x
			for x < len(row.Lateness) && heatOf(row.Lateness[x]) == level {
				x++
			}
			if level >= 0 {
				fmt.Fprintf(&all[level], "M%d %dh%dv1h-%dz", begin, y, x-begin, x-begin)
			}
		}
	}
	paths := make([]string, len(all))
	for i := range all {
		paths[i] = all[i].String()
	}
	return paths
}

// heatOf returns the colour of a cell, or -1 if nothing is known.
func heatOf(lateness float64) int {
	if math.IsNaN(lateness) {
		return -1
	}
	level := 0
	for level < len(heatLimits) && lateness >= heatLimits[level] {
		level++
	}
	return level
}

// HeatLimits returns the colours' limits in seconds.
func (c *charts) HeatLimits() []float64 { return heatLimits }

// late is how late the checks of a row of shards began.
type late struct {
	First, Last int
	Known       bool
	Mean, Most  float64
	Point       int // the one with the greatest lateness
}

// Late returns the rows of the heat map for the table, the latest first.
func (c *charts) Late() []late {
	all := make([]late, 0, len(c.Rows))
	for _, r := range c.Rows {
		one, n := late{First: r.First, Last: r.Last}, 0.0
		for i, v := range r.Lateness {
			if math.IsNaN(v) {
				continue
			}
			one.Mean, n = one.Mean+v, n+1
			if most := r.Latest[i]; !one.Known || most > one.Most {
				one.Most, one.Point = most, i
			}
			one.Known = true
		}
		if n > 0 {
			one.Mean /= n
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b late) int {
		switch {
		case a.Most > b.Most:
			return -1
		case a.Most < b.Most:
			return 1
		}
		return 0
	})
	return all
}
