package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
)

// against compares this program with another build of it: each is run as often, in turns
// and with the other one first in every second pair. Whatever runs first in a pair may be
// slower by some per cent, so there is an even number of pairs.
type against struct {
	report reporter
	other  string   // path of the other program
	args   []string // of one run
	pairs  int
}

// run prints, for each figure that both have, the median of this program, the median of
// the other one, and the ratio of pairs, this one's to the other's. Figures that only one
// has are left out.
func (a *against) run(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("own program: %w", err)
	}
	var names []string
	units := map[string]string{}
	here, there := map[string][]float64{}, map[string][]float64{}
	a.pairs += a.pairs % 2
	for pair := range a.pairs {
		order := []string{self, a.other}
		if pair%2 == 1 {
			order[0], order[1] = order[1], order[0]
		}
		for _, program := range order {
			figures, err := once(ctx, program, a.args)
			if err != nil {
				return err
			}
			into := here
			if program != self {
				into = there
			}
			for _, f := range figures {
				if _, known := units[f.Name]; !known {
					names, units[f.Name] = append(names, f.Name), f.Unit
				}
				into[f.Name] = append(into[f.Name], f.Value)
			}
		}
	}
	for _, name := range names {
		if len(here[name]) != a.pairs || len(there[name]) != a.pairs {
			continue
		}
		a.report.figure(name, median(here[name]), units[name])
		a.report.figure(name+"_before", median(there[name]), units[name])
		a.report.figure(name+"_ratio", ratioOfPairs(here[name], there[name]), "×")
	}
	return nil
}

// ratioOfPairs returns the ratio of a to b, of which each was measured first in every second pair.
// It is the geometric mean of the median ratios of both orders, from which an advantage of the
// first, or of the second, drops out.
func ratioOfPairs(a, b []float64) float64 {
	var orders [2][]float64
	for i := range a {
		orders[i%2] = append(orders[i%2], a[i]/b[i])
	}
	return math.Sqrt(median(orders[0]) * median(orders[1]))
}

// once runs a program and reads the figures that it prints.
func once(ctx context.Context, program string, args []string) ([]figure, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %v: %w", program, args, err)
	}
	var figures []figure
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var f figure
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			return nil, fmt.Errorf("%s printed %q: %w", program, lines.Text(), err)
		}
		figures = append(figures, f)
	}
	return figures, nil
}
