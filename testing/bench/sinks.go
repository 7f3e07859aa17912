package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/testing/processes"
)

// sinksBench measures how many messages each sink stores, by the benchmarks beside the sinks' tests.
// Those of brokers are in a module of their own, because their servers are.
type sinksBench struct {
	report reporter
	each   time.Duration
	count  int
}

func (b *sinksBench) run(ctx context.Context) error {
	for _, place := range []struct{ folder, of string }{
		{".", "./poller/delivery/ndjson"}, {".", "./poller/delivery/parquet"}, {".", "./poller/delivery/postgres"}, {"testing/brokers", "."},
	} {
		command := processes.Go(ctx, "test", "-tags", "night", "-run", "^$", "-bench", "^BenchmarkHandle", "-benchtime", b.each.String(), "-count", strconv.Itoa(b.count), place.of)
		command.Dir = place.folder
		text, err := command.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s, %s: %w\n%s", place.folder, place.of, err, text)
		}
		if err := b.print(place.of, text); err != nil {
			return err
		}
	}
	return nil
}

// print prints the median of each benchmark's messages/s. A benchmark without a name of its own has that of its package.
func (b *sinksBench) print(of string, text []byte) error {
	rates := make(map[string][]float64)
	var names []string
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || !strings.HasPrefix(fields[0], "BenchmarkHandle") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(fields[0], "BenchmarkHandle"), "-")
		if name == "" {
			name = of[strings.LastIndex(of, "/")+1:]
		}
		for i, unit := range fields {
			if unit != "messages/s" {
				continue
			}
			rate, err := strconv.ParseFloat(fields[i-1], 64)
			if err != nil {
				return err
			}
			if rates[name] == nil {
				names = append(names, name)
			}
			rates[name] = append(rates[name], rate)
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("%s measured nothing:\n%s", of, text)
	}
	for _, name := range names {
		b.report.figure("sink_"+strings.ToLower(name)+"_messages_per_second", median(rates[name]), fmt.Sprintf("messages/s, the median of %d", len(rates[name])))
	}
	return nil
}
