package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const (
	viewers = 10
	// turnOf is the least time between two requests for the same page. What visitors share
	// is a second old at most, so each turn asks Redis again.
	turnOf = 1100 * time.Millisecond
	// summedWithin bounds the wait until all failing accounts have failed and are summed up.
	summedWithin = 10 * time.Minute
)

// dashboardBench measures the pages of the dashboard over very many accounts of which some
// fail. One process serves them, with all roles but the poller's. Another checks the accounts,
// with checkers that ask nobody. Redis is on the same machine.
type dashboardBench struct {
	report   reporter
	accounts int
	failing  int
	requests int           // for each page
	window   time.Duration // of each measurement of Redis
	rounds   int           // measurements of an idle Redis, with viewers and without, in turn
	only     []string      // names of pages; none: all
}

func (b *dashboardBench) run(ctx context.Context) error {
	redis, server, stop, err := startRedis()
	if err != nil {
		return err
	}
	defer stop()
	served, err := startAgain(ctx, "dashboardserve", redis)
	if err != nil {
		return err
	}
	defer served.stop()
	polled, err := startAgain(ctx, "dashboardpoll", redis)
	if err != nil {
		return err
	}
	defer polled.stop()
	calls := client.New(served.line, "")
	defer calls.Close()
	if err := b.prepare(ctx, calls, served.line); err != nil {
		return err
	}
	pages, err := b.pages(ctx, served.line)
	if err != nil {
		return err
	}
	if err := b.speed(ctx, pages); err != nil {
		return err
	}
	if err := b.size(ctx, pages); err != nil {
		return err
	}
	atWork, err := b.share(ctx, server)
	if err != nil {
		return err
	}
	b.report.figure("redis_cpu_share_at_work", atWork, "% of a core, with a poller and a monitor at work, without viewers")
	polled.stop()
	served.stop()
	return b.cost(ctx, redis, server)
}

// share measures how much processor time of Redis is used, in per cent of a core.
func (b *dashboardBench) share(ctx context.Context, server *connect.Single) (float64, error) {
	began := time.Now()
	before, err := usedCPU(server)
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, b.window); err != nil {
		return 0, err
	}
	after, err := usedCPU(server)
	return 100 * (after - before) / time.Since(began).Seconds(), err
}

// prepare registers the accounts, and waits until those that fail have failed.
func (b *dashboardBench) prepare(ctx context.Context, calls *client.Client, base string) error {
	if err := awaitServed(ctx, base); err != nil {
		return err
	}
	summary, err := calls.Import(ctx, dashboardRecords(b.accounts, b.failing), "", noBadLine)
	if err == nil && summary.Created != b.accounts {
		err = fmt.Errorf("%d accounts of %d", summary.Created, b.accounts)
	}
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	for end := time.Now().Add(summedWithin); ; {
		var problems struct {
			Accounts int `json:"accounts"`
		}
		if err := getJSON(ctx, base+"/v1/problems", &problems); err != nil {
			return err
		}
		found := problems.Accounts
		if found >= b.failing {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d accounts of %d fail after %v", found, b.failing, summedWithin)
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	// A group and its consumer, for the page about delivery.
	return leaveGroup(ctx, base)
}

// speed measures how long the first byte of each page takes. All pages are asked in turn, in
// any order, so that each of them is now and then the first after a change.
func (b *dashboardBench) speed(ctx context.Context, pages []dashboardPage) error {
	const warmUp = 3
	took := make(map[string][]float64)
	for turn := range b.requests + warmUp {
		began := time.Now()
		for _, i := range rand.Perm(len(pages)) {
			first, _, err := receive(ctx, pages[i].address)
			if err != nil {
				return err
			}
			if turn >= warmUp {
				took[pages[i].name] = append(took[pages[i].name], 1000*first.Seconds())
			}
		}
		if err := pause(ctx, turnOf-time.Since(began)); err != nil {
			return err
		}
	}
	worst := 0.0
	for _, page := range pages {
		p99 := quantile(took[page.name], 0.99)
		worst = max(worst, p99)
		b.report.quantile("p%.0f_ms_of_"+page.name, took[page.name], 0.5, "ms to the first byte of "+pathOf(page.address))
		b.report.quantile("p%.0f_ms_of_"+page.name, took[page.name], 0.99, "ms to the first byte of "+pathOf(page.address))
	}
	if len(b.only) > 0 {
		return nil
	}
	b.report.figure("dashboard_p99_ms", worst, "ms to the first byte of the worst page")
	return nil
}

// size measures what a browser loads for each page.
func (b *dashboardBench) size(ctx context.Context, pages []dashboardPage) error {
	worst := 0.0
	for _, page := range pages {
		bytes, err := weigh(ctx, page.address)
		if err != nil {
			return err
		}
		kib := float64(bytes) / 1024
		worst = max(worst, kib)
		b.report.figure("kib_of_"+page.name, kib, "KiB, compressed, of "+pathOf(page.address)+" with all that it loads")
	}
	if len(b.only) > 0 {
		return nil
	}
	b.report.figure("dashboard_kib", worst, "KiB, compressed, the worst page with all that it loads")
	return nil
}

// cost measures how much processor time of Redis ten viewers of the Overview take: the
// difference between windows with them and windows without, in turn. The poller and the monitor
// have stopped, and one process with the role api alone serves the pages. What they take changes
// from minute to minute by many times what viewers take. The commands that viewers cause are the
// same, and an idle Redis takes more time for each, because it waits and wakes for each.
func (b *dashboardBench) cost(ctx context.Context, redis *redistest.Server, server *connect.Single) error {
	served, err := startAgain(ctx, "dashboardserve", redis, "--roles", "api")
	if err != nil {
		return err
	}
	defer served.stop()
	if err := awaitServed(ctx, served.line); err != nil {
		return err
	}
	watched := func() (float64, error) {
		watching, leave := context.WithCancel(ctx)
		audience := watch(watching, served.line, viewers)
		share, err := 0.0, pause(ctx, 3*time.Second) // all have come
		if err == nil {
			share, err = b.share(ctx, server)
		}
		leave()
		return share, errors.Join(err, audience())
	}
	var with, without []float64
	for range b.rounds {
		alone, err := b.share(ctx, server)
		if err != nil {
			return err
		}
		together, err := watched()
		if err != nil {
			return err
		}
		without, with = append(without, alone), append(with, together)
	}
	b.report.figure("redis_cpu_share_idle", mean(without), "% of a core, while nobody polls or looks")
	b.report.figure("redis_cpu_share_watched", mean(with), "% of a core, with ten Overviews open")
	b.report.figure("dashboard_redis_cpu_share", mean(with)-mean(without), "% of a core that ten open Overviews add")
	return nil
}

func mean(all []float64) float64 {
	sum := 0.0
	for _, one := range all {
		sum += one
	}
	return sum / float64(len(all))
}

// quantile returns the value below or at which a share of all values is.
func quantile(all []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// child is another process of this program. It ends when its input does.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	line  string // what it said first
}

// startAgain starts this program again, to do something else on a Redis until its input ends.
func startAgain(ctx context.Context, what string, redis *redistest.Server, flags ...string) (*child, error) {
	return startAgainWith(ctx, func(*exec.Cmd) {}, what, redis, flags...)
}

// startAgainWith is startAgain with a change of the command.
func startAgainWith(ctx context.Context, change func(*exec.Cmd), what string, redis *redistest.Server, flags ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{what, "--redis", redis.URL()}, flags...)...)
	cmd.Stderr = os.Stderr
	change(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	a := &child{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		a.stop()
		return nil, fmt.Errorf("%s did not start: %w", what, err)
	}
	a.line = strings.TrimSpace(line)
	return a, nil
}

// stop ends the process, unless it has ended.
func (a *child) stop() {
	_ = a.stdin.Close()
	_ = a.cmd.Wait()
}

// getJSON reads a reply of the API.
func getJSON(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is answered %s", url, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
