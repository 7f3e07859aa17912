package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func TestMedianAndRatio(t *testing.T) {
	near(t, "of three", median([]float64{9, 1, 4}), 4)
	near(t, "of four", median([]float64{9, 1, 4, 6}), 5)
	near(t, "of none", median(nil), 0)
	// The median of the rounds' ratios counts, not the ratio of the medians.
	near(t, "ratio", ratio([]float64{10, 20, 90}, []float64{5, 20, 30}), 2)
}

func TestTargetsSayWhetherTheyWereMet(t *testing.T) {
	var out bytes.Buffer
	r := newResults(options{}, &out)
	r.target("a", 12, "at least", 12, "×")
	r.target("b", 0.49, "at least", 0.5, "×")
	r.target("c", 0.3, "at most", 0.3, "×")
	r.target("d", 0.31, "at most", 0.3, "×")
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		if want := []string{"met", "missed", "met", "missed"}[i]; !strings.HasSuffix(line, ": "+want) {
			t.Errorf("%q does not end in %s", line, want)
		}
	}
}

func TestJSONIsOneObjectALine(t *testing.T) {
	var out bytes.Buffer
	r := newResults(options{json: true, commit: "abc"}, &out)
	r.section("part")
	r.note("for people")
	r.figure("ring_vs_asynq", 13.5, "×")
	var f figure
	if err := json.Unmarshal(out.Bytes(), &f); err != nil || f != (figure{"ring_vs_asynq", 13.5, "×", "abc"}) {
		t.Errorf("got %+v, %v, of %q", f, err, out.String())
	}
}

// TestPartsAreKept measures one part after another, as with --only. The file must have
// both, and a later run of a part replaces the earlier one.
func TestPartsAreKept(t *testing.T) {
	dir := t.TempDir()
	for _, run := range []struct {
		figure string
		value  float64
		commit string
	}{{"a", 1, "first"}, {"b", 2, "second"}, {"a", 3, "third"}} {
		r := newResults(options{commit: run.commit}, &bytes.Buffer{})
		r.figure(run.figure, run.value, "")
		r.point(run.figure, "line", 1, run.value)
		r.point(run.figure, "other line", 1, run.value)
		r.sample(sample{Name: run.figure, Rate: run.value})
		if err := r.save(dir); err != nil {
			t.Fatal(err)
		}
	}
	r, err := readResults(filepath.Join(dir, "measured.json"))
	if err != nil {
		t.Fatal(err)
	}
	a, errA := r.value("a")
	b, errB := r.value("b")
	if errA != nil || errB != nil || a != 3 || b != 2 || len(r.Figures) != 2 || len(r.Series) != 4 || len(r.Samples) != 2 {
		t.Errorf("kept %+v, %v, %v", r, errA, errB)
	}
	// Each names the commit at which it was measured.
	at := make(map[string]string)
	for _, f := range r.Figures {
		at[f.Name] = f.Commit
	}
	for _, s := range r.Series {
		if s.Commit != at[s.Drawing] {
			t.Errorf("a line of %s is of %q", s.Drawing, s.Commit)
		}
	}
	for _, s := range r.Samples {
		if s.Commit != at[s.Name] {
			t.Errorf("a run of %s is of %q", s.Name, s.Commit)
		}
	}
	if at["a"] != "third" || at["b"] != "second" {
		t.Errorf("commits %v", at)
	}
	// A quick run's figures must not replace those of a full one, or the other way round.
	quick := newResults(options{quick: true}, &bytes.Buffer{})
	quick.figure("c", 1, "")
	if err := quick.save(dir); err != nil {
		t.Fatal(err)
	}
	if r, err = readResults(filepath.Join(dir, "measured.json")); err != nil || len(r.Figures) != 1 {
		t.Errorf("kept %+v, %v", r, err)
	}
}

func TestQuantile(t *testing.T) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Buckets: []float64{1, 2, 4}})
	state := func() *dto.Histogram {
		var m dto.Metric
		if err := h.Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetHistogram()
	}
	h.Observe(3.5) // from before the measurement: must not count
	before := state()
	for range 10 {
		h.Observe(0.5)
	}
	for range 10 {
		h.Observe(1.5)
	}
	near(t, "p50", quantile(0.5, before, state()), 1)
	near(t, "p75", quantile(0.75, before, state()), 1.5)
	near(t, "of nothing", quantile(0.5, state(), state()), 0)
}

func TestDrawingsAreDrawn(t *testing.T) {
	dir := t.TempDir()
	r := newResults(options{commit: "abc123"}, &bytes.Buffer{})
	for _, d := range drawings() {
		for _, x := range []float64{1, 10, 100} {
			r.point(d.name, "first", x, 1000*x)
			r.point(d.name, "second", x, 2000)
		}
	}
	if err := drawAll(r, dir); err != nil {
		t.Fatal(err)
	}
	for _, d := range drawings() {
		text, err := os.ReadFile(filepath.Join(dir, d.name+".svg"))
		if err != nil || !bytes.Contains(text, []byte("<svg")) || !bytes.Contains(text, []byte("second")) || !bytes.Contains(text, []byte("commit abc123")) {
			t.Errorf("%s: %d bytes, %v", d.name, len(text), err)
		}
	}
}

func TestFlagsWinOverQuick(t *testing.T) {
	o := options{each: time.Second, rounds: 2, pairs: 1}
	o.keep("kills", options{each: time.Minute, rounds: 9, pairs: 7})
	if o.pairs != 7 || o.rounds != 2 || o.each != time.Second {
		t.Errorf("got %+v", o)
	}
}

func TestPartsThatDoNotExistAreRefused(t *testing.T) {
	err := run(t.Context(), []string{"--only", "cycles,nonsense"}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("got %v", err)
	}
}

// TestPageSaysWhereFiguresAreFrom has figures of two commits and one without a commit.
func TestPageSaysWhereFiguresAreFrom(t *testing.T) {
	dir := t.TempDir()
	for commit, figure := range map[string]string{"": "ring_vs_asynq", "abc": "ring_vs_rmq", "def": "bare_1_list_batches_10000_in_flight"} {
		r := newResults(options{commit: commit}, &bytes.Buffer{})
		r.figure(figure, 12345, "")
		r.figure(strings.Replace(figure, "10000", "100", 1), 12345, "")
		if err := r.save(dir); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := printPage(filepath.Join(dir, "measured.json"), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"`ring_vs_asynq` | 1.23e+04 × | ≥ 12 | not kept |", "`ring_vs_rmq` | 1.23e+04 × |  | abc |", "| bare pattern, one list, batches of 128 | 12,345 | 12,345 | def |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
