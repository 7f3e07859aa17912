package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/rounds-dev/rounds/testing/bench/budget"
)

// budgetBench simulates the budget of adaptive accounts. It needs no Redis.
type budgetBench struct {
	report   reporter
	days     float64
	accounts int
	plot     string // a file for a plot; empty: none
}

func budgetMain(ctx context.Context, flags *flag.FlagSet, args []string, accounts *int, asJSON *bool, out io.Writer) error {
	b := &budgetBench{}
	flags.Float64Var(&b.days, "days", 1000, "how many days are simulated")
	flags.StringVar(&b.plot, "plot", "", "write a plot of the mixed sources' delays to this file, as SVG")
	flags.Lookup("accounts").DefValue = "90"
	*accounts = 90
	if err := flags.Parse(args); err != nil {
		return err
	}
	if b.accounts = *accounts; b.accounts < 3 || b.days < 1 {
		return errors.New("accounts must be at least 3, and days 1")
	}
	var err error
	if b.report, err = newReporter(ctx, out, *asJSON); err != nil {
		return err
	}
	return b.run(ctx)
}

func (b *budgetBench) run(ctx context.Context) error {
	for _, part := range []float64{1, 0.1} {
		for _, sort := range []string{budget.Poisson, budget.Daily, budget.Bursty, budget.Mixed} {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			c := budget.Compare(sort, b.accounts, b.days, part)
			name := sort + "_"
			if part != 1 {
				name += "tenth_"
			}
			b.report.figure(name+"calls_per_account", float64(c.Learned.Calls)/b.days/float64(b.accounts), "a day")
			best := c.Optimum.Delay()
			for _, r := range b.rules(c) {
				if r.result != nil {
					b.report.figure(name+r.name+"_delay", r.result.Delay(), fmt.Sprintf("s, %.3f of the optimum", r.result.Delay()/best))
				}
			}
			if b.plot != "" && sort == budget.Mixed && part == 1 {
				if err := os.WriteFile(b.plot, b.draw(c), 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// rule is a way to spend calls.
type rule struct {
	name, colour string
	result       *budget.Result
}

func (*budgetBench) rules(c budget.Comparison) []rule {
	return []rule{
		{"fixed", "#888", c.Fixed}, {"without_budget", "#c60", c.Today}, {"learned", "#06c", c.Learned},
		{"optimum", "#080", c.Optimum}, {"optimum_of_the_moment", "#a0a", c.Moment},
	}
}

// draw returns a plot of the mean delay of sources over their rate, both logarithmic.
func (b *budgetBench) draw(c budget.Comparison) []byte {
	const width, height, left, top = 640.0, 400.0, 60.0, 20.0
	const least, most = 1.0, 10000.0 // seconds
	x := func(rate float64) float64 { return left + (width-left-150)*math.Log(rate)/math.Log(budget.MostRate) }
	y := func(delay float64) float64 {
		return top + (height-top-50)*(1-math.Log(delay/least)/math.Log(most/least))
	}
	var svg bytes.Buffer
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %v %v" font-family="sans-serif" font-size="12"><rect width="100%%" height="100%%" fill="#fff"/>`+"\n", width, height)
	for v := least; v <= most; v *= 10 {
		fmt.Fprintf(&svg, `<path d="M%.0f %.0fH%.0f" stroke="#ddd"/><text x="%.0f" y="%.0f" text-anchor="end">%v s</text>`+"\n", x(1), y(v), x(budget.MostRate), left-6, y(v)+4, v)
	}
	for v := 1.0; v <= budget.MostRate; v *= 10 {
		fmt.Fprintf(&svg, `<text x="%.0f" y="%.0f" text-anchor="middle">%v</text>`+"\n", x(v), height-32, v)
	}
	fmt.Fprintf(&svg, `<text x="%.0f" y="%.0f" text-anchor="middle">messages a day</text><text x="%.0f" y="14">mean delay</text>`+"\n", x(math.Sqrt(budget.MostRate)), height-10, left)
	line := 0.0
	for _, r := range b.rules(c) {
		if r.result == nil {
			continue
		}
		var points []string
		const bins = 10
		for i := range bins {
			from, to := math.Pow(budget.MostRate, float64(i)/bins), math.Pow(budget.MostRate, float64(i+1)/bins)
			if delay := r.result.DelayOf(from, to); delay > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(math.Sqrt(from*to)), y(min(most, max(least, delay)))))
			}
		}
		line += 18
		fmt.Fprintf(&svg, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/><text x="%.0f" y="%.0f" fill="%s">%s: %.0f s</text>`+"\n",
			strings.Join(points, " "), r.colour, x(budget.MostRate)+10, top+line, r.colour, strings.ReplaceAll(r.name, "_", " "), r.result.Delay())
	}
	svg.WriteString("</svg>\n")
	return svg.Bytes()
}
