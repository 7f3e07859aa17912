package main

import (
	"fmt"
	"io"
)

// row is a line of the page's table of ratios: a figure and its explanation.
type row struct {
	what, figure, unit, wanted string
}

func ratios() []row {
	return []row{
		{"ring against asynq (process and enqueue again), both with 10,000 in flight", "ring_vs_asynq", "×", "≥ 12"},
		{"… against asynq at its best, with few in flight", "ring_vs_asynq_at_its_best", "×", ""},
		{"whole poller with a checker that does nothing against one asynq server", "poller_vs_asynq", "×", "≥ 6"},
		{"… at default settings", "poller_default_settings_vs_asynq", "×", ""},
		{"… against as many asynq servers as are best", "poller_vs_asynq_at_its_best", "×", ""},
		{"ring against rmq (publish again, acknowledge), both with 10,000 in flight", "ring_vs_rmq", "×", ""},
		{"… against rmq at its best, with few in flight", "ring_vs_rmq_at_its_best", "×", ""},
		{"cycles/s with 10,000 in flight against 100", "in_flight_10000_vs_100", "×", "≥ 0.7"},
		{"cycles/s of 1,000,000 accounts against 10,000", "accounts_1m_vs_10k", "×", "≥ 0.8"},
		{"cycles for each second of Redis' processor, three masters against one", "masters_3_vs_1_per_cpu", "×", "≥ 0.9"},
		{"Redis' memory for an account, scheduled and with a cursor, against asynq's pending task, 200 bytes of record or payload in both", "bytes_vs_asynq", "×", "≤ 0.5"},
		{"… without those 200 bytes", "bytes_vs_asynq_without_payload", "×", ""},
		{"… and without the field that holds the record", "bytes_to_circulate_vs_asynq", "×", ""},
		{"until the last claim of a replica killed with `kill -9` is checked again, default settings, against asynq's", "recovery_vs_asynq", "×", "≤ 0.3"},
		{"settings tried: asynq, few in flight", "asynq_settings_tried", "", ""},
		{"settings tried: asynq, 10,000 in flight", "asynq_10000_in_flight_settings_tried", "", ""},
		{"settings tried: rmq, few in flight", "rmq_settings_tried", "", ""},
		{"settings tried: rmq, 10,000 in flight", "rmq_10000_in_flight_settings_tried", "", ""},
	}
}

// printPage prints the tables of comparisons as testing/bench/README.md has them, each
// figure with the commit at which it was measured. Figures that were not measured are
// left out.
func printPage(path string, out io.Writer) error {
	r, err := readResults(path)
	if err != nil {
		return err
	}
	if r.Quick {
		fmt.Fprint(out, "From a quick run: these figures say that the computation works and nothing else.\n\n")
	}
	fmt.Fprint(out, "| | figure | measured | wanted | at commit |\n|---|---|---|---|---|\n")
	for _, row := range ratios() {
		if value, err := r.value(row.figure); err == nil {
			fmt.Fprintf(out, "| %s | `%s` | %.3g %s | %s | %s |\n", row.what, row.figure, value, row.unit, row.wanted, r.at(row.figure))
		}
	}
	fmt.Fprint(out, "\n| cycles/s | 10,000 in flight | 100 in flight | at commit |\n|---|---|---|---|\n")
	for _, way := range shares() {
		many, few := way.name+"_10000_in_flight", way.name+"_100_in_flight"
		a, err := r.value(many)
		if err != nil {
			continue
		}
		b, err := r.value(few)
		if err != nil {
			continue
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", way.title, grouped(a), grouped(b), r.at(many))
	}
	return nil
}
