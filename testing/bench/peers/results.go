package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// figure is one measured number, or a median of several.
type figure struct {
	Name   string  `json:"figure"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Commit string  `json:"commit"` // the commit that was measured; "" for figures from before this was kept
}

// sample is one run of one system.
type sample struct {
	Name     string             `json:"name"`
	Commit   string             `json:"commit"`
	Settings *settings          `json:"settings,omitempty"`
	Rate     float64            `json:"cycles_per_s"`
	RedisCPU float64            `json:"redis_cpu_us_per_cycle"`
	OwnCPU   float64            `json:"own_cpu_us_per_cycle"`
	Allocs   float64            `json:"allocs_per_cycle"`
	Values   map[string]float64 `json:"values,omitempty"`
}

// point is one mark of a drawing.
type point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// series is a line of a drawing.
type series struct {
	Drawing string  `json:"drawing"`
	Name    string  `json:"name"`
	Commit  string  `json:"commit"`
	Points  []point `json:"points"`
}

// results are everything that was measured, as measured.json keeps it.
type results struct {
	Began   time.Time `json:"began"`
	Machine string    `json:"machine"`
	Quick   bool      `json:"quick"` // short runs: the figures mean little
	Figures []figure  `json:"figures"`
	Series  []*series `json:"series"`
	Samples []sample  `json:"samples"`

	out    io.Writer
	json   bool
	commit string // the commit that is measured
}

func newResults(o options, out io.Writer) *results {
	return &results{
		Began: time.Now().UTC(), Quick: o.quick, out: out, json: o.json, commit: o.commit,
		Machine: fmt.Sprintf("%d processors, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version()),
	}
}

// figure prints a figure and keeps it.
func (r *results) figure(name string, value float64, unit string) {
	f := figure{name, value, unit, r.commit}
	r.Figures = append(r.Figures, f)
	if r.json {
		line, _ := json.Marshal(f) // a figure is always marshalled
		fmt.Fprintf(r.out, "%s\n", line)
		return
	}
	fmt.Fprintf(r.out, "%-48s %14.2f  %s\n", name, value, unit)
}

// target prints a ratio beside its target.
func (r *results) target(name string, value float64, relation string, bound float64, unit string) {
	verdict := "met"
	if relation == "at least" && value < bound || relation == "at most" && value > bound {
		verdict = "missed"
	}
	r.figure(name, value, fmt.Sprintf("%s; %s %g: %s", unit, relation, bound, verdict))
}

// sample keeps a run.
func (r *results) sample(x sample) {
	x.Commit = r.commit
	r.Samples = append(r.Samples, x)
}

// section begins a part, for people.
func (r *results) section(name string) {
	if !r.json {
		fmt.Fprintf(r.out, "\n%s\n", name)
	}
}

// note is a line for people.
func (r *results) note(format string, args ...any) {
	if !r.json {
		fmt.Fprintf(r.out, "  "+format+"\n", args...)
	}
}

// point adds to a line of a drawing.
func (r *results) point(drawing, name string, x, y float64) {
	i := slices.IndexFunc(r.Series, func(s *series) bool { return s.Drawing == drawing && s.Name == name })
	if i < 0 {
		i = len(r.Series)
		r.Series = append(r.Series, &series{Drawing: drawing, Name: name, Commit: r.commit})
	}
	r.Series[i].Points = append(r.Series[i].Points, point{x, y})
}

// save writes measured.json. Parts that were not measured this time stay as they are in
// the file, if the file is from the same kind of run and the same machine.
func (r *results) save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, "measured.json")
	if before, err := readResults(path); err == nil && before.Quick == r.Quick && before.Machine == r.Machine {
		r.keep(before)
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// keep adds what an earlier run measured and this one did not.
func (r *results) keep(before *results) {
	for _, f := range before.Figures {
		if !slices.ContainsFunc(r.Figures, func(own figure) bool { return own.Name == f.Name }) {
			r.Figures = append(r.Figures, f)
		}
	}
	drawn, measured := make(map[string]bool), make(map[string]bool)
	for _, s := range r.Series {
		drawn[s.Drawing] = true
	}
	for _, s := range before.Series {
		if !drawn[s.Drawing] {
			r.Series = append(r.Series, s)
		}
	}
	for _, s := range r.Samples {
		measured[s.Name] = true
	}
	for _, s := range before.Samples {
		if !measured[s.Name] {
			r.Samples = append(r.Samples, s)
		}
	}
}

func readResults(path string) (*results, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &results{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// value returns a figure by its name.
func (r *results) value(name string) (float64, error) {
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value, nil
		}
	}
	return 0, fmt.Errorf("figure %q was not measured", name)
}

// at names the commit at which a figure was measured.
func (r *results) at(name string) string {
	for _, f := range r.Figures {
		if f.Name == name && f.Commit != "" {
			return f.Commit
		}
	}
	return unknown
}

// unknown is the commit of what was measured before commits were kept.
const unknown = "not kept"

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// ratio is the median of the ratios of runs that were made in turn.
func ratio(a, b []float64) float64 {
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	return median(ratios)
}
