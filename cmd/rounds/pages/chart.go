package pages

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	chartWidth, chartHeight = 600, 100
	// leastShown is the least number of points that a chart shows. A history that has just begun fills
	// the chart, and not a corner of it.
	leastShown = 30
)

// curves are figures over time. An unknown value is NaN.
type curves struct{ api.History }

// of returns a part of a field: values, min or max. It is nil if there is none.
func (c *curves) of(field, part string) []float64 {
	for _, f := range c.Fields {
		if f.Name == field {
			switch part {
			case "min":
				return f.Min
			case "max":
				return f.Max
			}
			return f.Values
		}
	}
	return nil
}

// span is a time that charts can show.
type span struct {
	Name       string // the key of its text, and its name in the address
	From, Step string // in the API's form
}

func spans() []span {
	return []span{{"hour", "1h", "10s"}, {"day", "24h", "4m"}, {"week", "168h", "30m"}, {"month", "720h", "2h"}}
}

// line is one line of a chart.
type line struct {
	Field, Part string
	Style       string // area, line or faint
	Label       string // the key of its text
}

// plot is a chart. Scripts draw it from the API's own reply. For visitors without scripts the
// server draws a plain one.
type plot struct {
	Name, Unit string // Unit: rate, seconds or share
	Lines      []line
	Source     string // where scripts get the curves

	Drawn     []drawn
	Top       float64 // the value at the upper edge
	From, To  time.Time
	Most      float64 // the greatest value
	Last      float64 // the latest value of the first line
	LastKnown bool
}

// drawn is a line as the d of an SVG path, and the area below it if it has one.
type drawn struct{ Style, Path, Below string }

// plots returns the charts of the Overview.
func plots() []*plot {
	return []*plot{
		{Name: "checks", Unit: "rate", Lines: []line{{"checks_per_second", "values", "area", "mean"}, {"checks_per_second", "min", "faint", "least"}, {"checks_per_second", "max", "faint", "most"}}},
		{Name: "lateness", Unit: "seconds", Lines: []line{{"lateness_p99_seconds", "max", "area", "p99"}, {"lateness_p50_seconds", "values", "line", "p50"}}},
		{Name: "failing", Unit: "share", Lines: []line{{"failing_share", "values", "area", "mean"}, {"failing_share", "max", "faint", "most"}}},
		{Name: "messages", Unit: "rate", Lines: []line{{"messages_per_second", "values", "area", "mean"}, {"messages_per_second", "max", "faint", "most"}}},
	}
}

// Spans returns the spans to choose from.
func (o *overview) Spans() []span { return spans() }

// Span returns the chosen span.
func (o *overview) Span() span {
	for _, s := range spans() {
		if s.Name == o.Query("span") {
			return s
		}
	}
	return spans()[0]
}

// Plots returns the charts. Only the whole page asks for them, and no live block.
func (o *overview) Plots() []*plot {
	if !o.May("GET /v1/history") {
		return nil
	}
	s := o.Span()
	all, asked := plots(), make([]string, 0, 8)
	for _, p := range all {
		// For ten seconds there is one sample, which is also the least and the greatest value.
		p.Lines = slices.DeleteFunc(p.Lines, func(l line) bool { return l.Style == "faint" && s == spans()[0] })
		for _, l := range p.Lines {
			if !slices.Contains(asked, l.Field) {
				asked = append(asked, l.Field)
			}
		}
	}
	source := "/v1/history?" + url.Values{"from": {s.From}, "step": {s.Step}, "fields": {strings.Join(asked, ",")}}.Encode()
	var c curves
	if o.shared(source, &c) != nil {
		return nil // the page says that there are none
	}
	begin := c.begin(all)
	for _, p := range all {
		p.Source = source
		p.draw(&c, begin)
	}
	return all
}

// begin returns the index of the first point to show. That is the first known point of any line, or
// an earlier one if the chart would show fewer than leastShown.
func (c *curves) begin(all []*plot) int {
	begin := max(0, c.Points-leastShown)
	for _, p := range all {
		for _, l := range p.Lines {
			for i, v := range c.of(l.Field, l.Part) {
				if i >= begin {
					break
				}
				if !math.IsNaN(v) {
					begin = i
				}
			}
		}
	}
	return begin
}

// draw draws the lines from a point on.
func (p *plot) draw(c *curves, begin int) {
	p.From = c.From.Add(time.Duration(begin*c.Seconds) * time.Second)
	p.To = c.From.Add(time.Duration(c.Points*c.Seconds) * time.Second)
	for _, l := range p.Lines {
		for i, v := range c.of(l.Field, l.Part) {
			if math.IsNaN(v) || i < begin {
				continue
			}
			p.Most = max(p.Most, v)
			if l == p.Lines[0] {
				p.Last, p.LastKnown = v, true
			}
		}
	}
	p.Top = rounded(p.Most)
	for _, l := range p.Lines {
		values := c.of(l.Field, l.Part)
		values = values[min(begin, len(values)):]
		d := drawn{Style: l.Style, Path: curvePath(values, p.Top, false)}
		if l.Style == "area" {
			d.Below = curvePath(values, p.Top, true)
		}
		p.Drawn = append(p.Drawn, d)
	}
}

// rounded returns a round number that is not less than the given one.
func rounded(v float64) float64 {
	if !(v > 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 1.5, 2, 3, 4, 5, 6, 8} {
		if v <= n*unit*1.0000001 {
			return n * unit
		}
	}
	return 10 * unit
}

// curvePath returns values as the d of an SVG path. A missing value is a gap. An area reaches down
// to zero.
func curvePath(values []float64, top float64, area bool) string {
	var b strings.Builder
	step := float64(chartWidth) / float64(max(1, len(values)-1))
	at := func(i int) float64 { return float64(i) * step }
	for i := 0; i < len(values); i++ {
		if math.IsNaN(values[i]) {
			continue
		}
		first := i
		for ; i < len(values) && !math.IsNaN(values[i]); i++ {
			command := "L"
			if i == first {
				command = "M"
			}
			fmt.Fprintf(&b, "%s%.1f %.1f", command, at(i), chartHeight*(1-min(1, values[i]/top)))
		}
		if i-first == 1 {
			b.WriteString("h1")
		}
		if area {
			fmt.Fprintf(&b, "L%.1f %dL%.1f %dZ", at(i-1), chartHeight, at(first), chartHeight)
		}
	}
	return b.String()
}

// Described returns the lines for the script, as JSON: for each its field, part, style and label in
// the visitor's language.
func (o *overview) Described(p *plot) (string, error) {
	var all [][4]string
	for _, l := range p.Lines {
		all = append(all, [4]string{l.Field, l.Part, l.Style, o.lang.text("chart.line." + l.Label)})
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// Shown returns a value of a chart in its unit.
func (o *overview) Shown(p *plot, value float64) string {
	switch p.Unit {
	case "seconds":
		return o.lang.duration(value)
	case "share":
		return o.lang.percent(value)
	}
	return o.lang.number(value)
}
