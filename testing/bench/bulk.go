package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// bulkBench measures operations on very many accounts at once through the API. One
// process serves it, this one calls it, and Redis is on the same machine as both.
type bulkBench struct {
	report   reporter
	accounts int
	profile  string // of the process that serves; empty: none
}

func (b *bulkBench) run(ctx context.Context) error {
	redis, server, stop, err := startRedis()
	if err != nil {
		return err
	}
	defer stop()
	served, err := startAgain(ctx, "bulkserve", redis, "--profile="+b.profile)
	if err != nil {
		return err
	}
	defer served.stop()
	calls := client.New(served.line, "")
	defer calls.Close()

	steps := []struct {
		name string
		do   func() (int, error)
	}{
		{"import", func() (int, error) {
			s, err := calls.Import(ctx, records(b.accounts), "", noBadLine)
			return s.Created, err
		}},
		{"import_unchanged", func() (int, error) {
			s, err := calls.Import(ctx, records(b.accounts), "", noBadLine)
			return s.Unchanged, err
		}},
		{"export", func() (int, error) { return calls.Export(ctx, accounts.Exporting{}, io.Discard) }},
		{"pause", func() (int, error) { return bulkOf(ctx, calls, accounts.PauseAll) }},
		{"resume", func() (int, error) { return bulkOf(ctx, calls, accounts.ResumeAll) }},
		{"delete", func() (int, error) { return bulkOf(ctx, calls, accounts.DeleteAll) }},
	}
	of := countWord(b.accounts)
	for _, step := range steps {
		before, err := usedCPU(server)
		if err != nil {
			return err
		}
		servedBefore, err := served.usedCPU()
		if err != nil {
			return err
		}
		began := time.Now()
		done, err := step.do()
		took := time.Since(began)
		if err == nil && done != b.accounts {
			err = fmt.Errorf("%d accounts of %d", done, b.accounts)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		after, err := usedCPU(server)
		if err != nil {
			return err
		}
		servedAfter, err := served.usedCPU()
		if err != nil {
			return err
		}
		b.report.figure(step.name+"_"+of+"_seconds", took.Seconds(), "s")
		b.report.figure(step.name+"_redis_cpu", (after-before)*1e6/float64(b.accounts), "µs/account of Redis")
		b.report.figure(step.name+"_cpu", (servedAfter-servedBefore)*1e6/float64(b.accounts), "µs/account of the serving process")
	}
	peak, err := served.peakMemory()
	if err != nil {
		return err
	}
	b.report.figure("rss_mib", peak/(1<<20), "MiB, the most that the serving process had")
	return nil
}

// bulkOf does something to all accounts, by a selector that is tested on each account.
func bulkOf(ctx context.Context, calls *client.Client, action accounts.Action) (int, error) {
	chosen := accounts.Selector{Kinds: []string{"feed"}, Labels: map[string]string{"tier": "gold"}}
	did, err := calls.Bulk(ctx, accounts.Bulk{Action: action, Selector: chosen}, func(api.BulkProgress) {})
	return did.Changed, err
}

func noBadLine(bad api.BadLine) error {
	return fmt.Errorf("line %d was not accepted: %w", bad.Line, bad.Errors)
}

// countWord returns a number of accounts as figures are named after it.
func countWord(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return strconv.Itoa(n/1_000_000) + "m"
	case n >= 1000 && n%1000 == 0:
		return strconv.Itoa(n/1000) + "k"
	}
	return strconv.Itoa(n)
}

// records returns so many records, one a line of about 150 bytes.
func records(n int) io.Reader { return &recordReader{left: n} }

type recordReader struct {
	left, number int
	text         bytes.Buffer
}

// Read returns the next bytes.
func (r *recordReader) Read(p []byte) (int, error) {
	for r.text.Len() < len(p) && r.left > 0 {
		r.number++
		r.left--
		// This is kept cheap, because the caller shares the processors.
		number := strconv.Itoa(10_000_000 + r.number)
		r.text.WriteString(`{"id":"customer-`)
		r.text.WriteString(number)
		r.text.WriteString(`","kind":"feed","config":{"url":"https://feeds.example.com/`)
		r.text.WriteString(number)
		r.text.WriteString(`.xml"},"cadence":"every 10m","labels":{"team":"team-`)
		r.text.WriteString(number[len(number)-1:])
		r.text.WriteString(`","tier":"gold"}}` + "\n")
	}
	return r.text.Read(p)
}

func (a *child) peakMemory() (float64, error) {
	return peakMemoryOf(strconv.Itoa(a.cmd.Process.Pid))
}

// usedCPU returns how many seconds of processor time the process has used.
func (a *child) usedCPU() (float64, error) { return processCPU(a.cmd.Process.Pid) }
