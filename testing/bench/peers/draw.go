package main

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// drawing is how the series of one name are drawn.
type drawing struct {
	name, title, x, y string
	logX, logY        bool
}

func drawings() []drawing {
	return []drawing{
		{name: "accounts", title: "Throughput against accounts", x: "accounts", y: "cycles/s", logX: true},
		{name: "in_flight", title: "Throughput against what is in flight", x: "in flight", y: "cycles/s", logX: true, logY: true},
		{name: "shards", title: "Throughput against shards", x: "shards", y: "cycles/s", logX: true},
		{name: "replicas", title: "Throughput against replicas", x: "replicas", y: "checks/s"},
		{name: "masters", title: "Cycles for each second of Redis' processor, against masters", x: "masters", y: "cycles"},
		{name: "lateness", title: "Lateness against load, one replica", x: "checks/s", y: "ms", logX: true, logY: true},
		{name: "memory", title: "Memory for each account, task or delivery", x: "bytes of record or payload", y: "bytes of Redis"},
	}
}

// drawAll writes NAME.svg for each drawing that has series.
func drawAll(r *results, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, d := range drawings() {
		if err := d.draw(r, filepath.Join(dir, d.name+".svg")); err != nil {
			return fmt.Errorf("draw %s: %w", d.name, err)
		}
	}
	return nil
}

// colours can be distinguished by people who see fewer colours (Okabe and Ito).
func colours() []color.Color {
	return []color.Color{
		color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{204, 121, 167, 255},
	}
}

func (d drawing) draw(r *results, path string) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = d.title, d.x, d.y
	if r.Quick {
		p.Title.Text += " (a quick run)"
	}
	p.X.Label.Text += "\nmeasured at " + r.drawnAt(d.name)
	p.Add(plotter.NewGrid())
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs = vg.Points(6)
	p.X.Tick.Marker = r.ticks(d.name)
	if d.logX {
		p.X.Scale = plot.LogScale{}
	}
	if d.logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	lines := 0
	for _, s := range r.Series {
		if s.Drawing != d.name || len(s.Points) == 0 {
			continue
		}
		if err := addLine(p, s, lines); err != nil {
			return err
		}
		lines++
	}
	if lines == 0 {
		return nil
	}
	if lines == 1 {
		p.Legend = plot.NewLegend() // the title says it
	}
	// This leaves room for the legend, and begins the axis where the eye expects it.
	if d.logY {
		p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Min))), 10*p.Y.Max
	} else {
		p.Y.Min, p.Y.Max = 0, 1.3*max(1, p.Y.Max)
	}
	return writeSVG(p, path)
}

// drawnAt names the commits at which a drawing's lines were measured.
func (r *results) drawnAt(drawing string) string {
	var all []string
	for _, s := range r.Series {
		if s.Drawing == drawing {
			all = append(all, "commit "+cmp.Or(s.Commit, unknown))
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// ticks are the values that were measured.
func (r *results) ticks(drawing string) plot.ConstantTicks {
	at := make(map[float64]plot.Tick)
	for _, s := range r.Series {
		for _, x := range s.Points {
			if s.Drawing == drawing {
				at[x.X] = plot.Tick{Value: x.X, Label: grouped(x.X)}
			}
		}
	}
	return slices.Collect(maps.Values(at))
}

// grouped writes a whole number with commas between thousands.
func grouped(n float64) string {
	digits := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func addLine(p *plot.Plot, s *series, nth int) error {
	var points plotter.XYs
	for _, x := range s.Points {
		points = append(points, plotter.XY{X: x.X, Y: x.Y})
	}
	slices.SortFunc(points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	c := colours()[nth%len(colours())]
	line.Color, line.Width = c, vg.Points(1.5)
	marks.Color, marks.Shape = c, draw.CircleGlyph{}
	p.Add(line, marks)
	p.Legend.Add(s.Name, line, marks)
	return nil
}

func writeSVG(p *plot.Plot, path string) (err error) {
	canvas := vgsvg.New(17*vg.Centimeter, 10*vg.Centimeter)
	p.Draw(draw.New(canvas))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = canvas.WriteTo(file)
	return err
}
