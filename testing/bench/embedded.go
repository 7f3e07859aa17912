package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	embeddedClients = 8                // who register accounts at once
	embeddedIdle    = 30 * time.Second // for which the disk is watched while nothing is due
)

// embeddedBench measures `rounds serve` without a Redis: how many checks and registrations it
// does in a second when it keeps what it has in a directory and when it keeps nothing, and what
// it writes while nothing is to be done.
type embeddedBench struct {
	report   reporter
	each     time.Duration
	rounds   int
	accounts int
	program  string // of rounds; empty: it is built
}

func (b *embeddedBench) flags(flags *flag.FlagSet) {
	flags.DurationVar(&b.each, "for", 10*time.Second, "how long each measurement runs")
	flags.IntVar(&b.rounds, "rounds", 3, "how often both are measured, in turn; medians are printed")
	flags.StringVar(&b.program, "program", "", "the rounds to measure; empty: this commit's, which is built")
}

func (b *embeddedBench) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "rounds-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if b.program == "" {
		b.program = filepath.Join(dir, "rounds")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", b.program, "./cmd/rounds").CombinedOutput(); err != nil {
			return fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	nothing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer nothing.Close()
	sums := make(map[string][]float64)
	for round := range b.rounds {
		for turn := range 2 {
			where, name := filepath.Join(dir, fmt.Sprint("data", round)), "kept"
			if turn == round%2 {
				where, name = "memory", "memory"
			}
			one := &embeddedRun{embeddedBench: b, where: where, third: nothing.URL}
			if err := one.run(ctx); err != nil {
				return err
			}
			sums["checks "+name] = append(sums["checks "+name], one.checks)
			sums["registrations "+name] = append(sums["registrations "+name], one.registrations)
			if name == "kept" {
				sums["written"] = append(sums["written"], one.written)
			}
		}
	}
	for _, what := range []string{"checks", "registrations"} {
		kept, memory := sums[what+" kept"], sums[what+" memory"]
		ratios := make([]float64, len(kept))
		for i := range kept {
			ratios[i] = kept[i] / memory[i]
		}
		b.report.figure("embedded_"+what+"_per_second", median(kept), "/s")
		b.report.figure("embedded_"+what+"_memory_per_second", median(memory), "/s")
		b.report.figure("embedded_"+what+"_kept_share", median(ratios), "of those in memory")
	}
	b.report.figure("embedded_idle_mb_per_day", median(sums["written"])*86400/1e6, "MB")
	return nil
}

// embeddedRun is one process, with a directory or without.
type embeddedRun struct {
	*embeddedBench
	where, third  string
	base          string
	checks        float64 // a second
	registrations float64 // a second
	written       float64 // bytes a second while idle
}

func (r *embeddedRun) run(ctx context.Context) (err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := listener.Addr().String()
	_ = listener.Close()
	r.base = "http://" + addr
	process := exec.CommandContext(ctx, r.program, "serve")
	process.Env = append(os.Environ(), "ROUNDS_API_ADDR="+addr, "ROUNDS_DATA_DIR="+r.where, "ROUNDS_ALLOW_PRIVATE_ADDRESSES=true", "ROUNDS_LOG_LEVEL=error")
	process.Stderr = os.Stderr
	process.Cancel = func() error { return process.Process.Signal(syscall.SIGTERM) }
	if err := process.Start(); err != nil {
		return err
	}
	defer func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		err = errors.Join(err, process.Wait())
	}()
	for deadline := time.Now().Add(20 * time.Second); ; {
		if status, err := r.call(ctx, http.MethodGet, "/readyz", ""); err == nil && status == http.StatusOK {
			break
		} else if time.Now().After(deadline) {
			return fmt.Errorf("rounds is not ready: %d, %w", status, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if r.registrations, err = r.register(ctx); err != nil {
		return err
	}
	if r.where != "memory" {
		if r.written, err = r.idle(process.Process.Pid); err != nil {
			return err
		}
	}
	r.checks, err = r.check(ctx)
	return err
}

func (r *embeddedRun) call(ctx context.Context, method, path, body string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.base+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// register returns how many accounts several callers register in a second, one a request. They
// are not due for a long time.
func (r *embeddedRun) register(ctx context.Context) (float64, error) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var callers sync.WaitGroup
	until := time.Now().Add(r.each)
	for caller := range embeddedClients {
		callers.Go(func() {
			for n := 0; time.Now().Before(until) && ctx.Err() == nil; n++ {
				status, err := r.call(ctx, http.MethodPut, fmt.Sprintf("/v1/accounts/idle-%d-%d", caller, n),
					fmt.Sprintf(`{"kind":"http","config":{"url":%q},"cadence":"at 2099-01-01T00:00:00Z"}`, r.third))
				if err == nil && status != http.StatusCreated {
					err = fmt.Errorf("a registration was answered %d", status)
				}
				if err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	callers.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / r.each.Seconds(), nil
}

// idle returns how many bytes a second the process has the disk write while nothing is due.
func (r *embeddedRun) idle(pid int) (float64, error) {
	written := func() (n int64, err error) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
		if err != nil {
			return 0, err
		}
		_, after, _ := strings.Cut(string(text), "\nwrite_bytes: ")
		_, err = fmt.Sscan(after, &n)
		return n, err
	}
	time.Sleep(6 * time.Second) // what was registered is on the disk
	before, err := written()
	if err != nil {
		return 0, err
	}
	time.Sleep(embeddedIdle)
	after, err := written()
	return float64(after-before) / embeddedIdle.Seconds(), err
}

// check returns how many checks are completed in a second, when more are due than can be made.
func (r *embeddedRun) check(ctx context.Context) (float64, error) {
	var lines strings.Builder
	for n := range r.accounts {
		fmt.Fprintf(&lines, `{"id":"busy-%d","kind":"http","config":{"url":%q},"cadence":"every 1s"}`+"\n", n, r.third)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+"/v1/accounts:import", strings.NewReader(lines.String()))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the import was answered %d", answer.StatusCode)
	}
	time.Sleep(3 * time.Second) // each was checked once
	before, err := r.completed(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	time.Sleep(r.each)
	after, err := r.completed(ctx)
	return (after - before) / time.Since(began).Seconds(), err
}

// completed returns how many checks the process has completed.
func (r *embeddedRun) completed(ctx context.Context) (sum float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(name, "rounds_checks_total{") {
			var n float64
			_, _ = fmt.Sscan(value, &n)
			sum += n
		}
	}
	return sum, nil
}
