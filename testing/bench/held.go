package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const (
	heldSpace   = "held"
	heldHold    = 35 * time.Second
	heldRate    = 200 // messages a second among all accounts
	heldSpare   = 400 // files that a process needs besides its held connections
	heldSettle  = 45 * time.Second
	heldWarm    = 150 * time.Second // of messages before they are measured: then claims are renewed as often as ever after
	heldRestart = 12 * time.Second  // between two replicas of a rolling restart
)

// heldBench measures one replica that has very many accounts of kind "http" held, over HTTP/1.1
// and TLS, and then three of them that are restarted one after the other, and one that is killed.
// Or the accounts are mailboxes in IDLE, over TLS.
type heldBench struct {
	report   reporter
	of       string // held, or mail
	length   time.Duration
	accounts int
	only     string // replica: without the restarts; restarts: without messages; empty: both
	http2    bool
	hold     time.Duration // of a call
	every    time.Duration // between two checks; 0: accounts are held
	limits   string        // the replicas' ROUNDS_LIMITS

	redis  *redistest.Server
	server *connect.Single
	ring   *circulate.Ring
	fake   *heldFakes
	env    []string
}

func (b *heldBench) run(ctx context.Context) error {
	var err error
	if b.accounts, err = fitFiles(b.accounts, "accounts", func(files int) int { return files - heldSpare }); err != nil {
		return err
	}
	stop, err := b.prepare(ctx)
	if err != nil {
		return err
	}
	defer stop()
	b.report.figure(b.of+"_accounts", float64(b.accounts), "accounts")
	monitor, err := b.start(ctx, "monitor")
	if err != nil {
		return err
	}
	defer monitor.stop()
	first, err := b.start(ctx, "poller")
	if err != nil {
		return err
	}
	replicas := []*child{first}
	defer func() {
		for _, r := range replicas {
			r.stop()
		}
	}()
	if err := b.one(ctx, first); err != nil {
		return err
	}
	if b.only == "replica" {
		return nil
	}
	return b.three(ctx, &replicas)
}

// prepare starts Redis and the fake. The caller stops them.
func (b *heldBench) prepare(ctx context.Context) (stop func(), err error) {
	redis, server, stopRedis, err := startRedis()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rounds-bench")
	stop = func() {
		b.fake.close()
		stopRedis()
		_ = os.RemoveAll(dir)
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	if err != nil {
		return nil, err
	}
	b.redis, b.server = redis, server
	authority := filepath.Join(dir, "authority.pem")
	if b.fake, err = newHeldFakes(ctx, b.of, b.accounts, authority, b.http2); err != nil {
		return nil, err
	}
	b.env = append(os.Environ(), "SSL_CERT_FILE="+authority)
	b.ring, err = circulate.Open(ctx, server, circulate.Options{Namespace: heldSpace})
	return stop, err
}

// start starts a process of the service with one role.
func (b *heldBench) start(ctx context.Context, role string) (*child, error) {
	return startAgainWith(ctx, func(cmd *exec.Cmd) { cmd.Env = b.env }, "heldserve", b.redis, "--role", role, "--limits", b.limits)
}

// one measures one replica.
func (b *heldBench) one(ctx context.Context, replica *child) error {
	if err := pause(ctx, 5*time.Second); err != nil {
		return err
	}
	empty, err := residentMemory(replica.cmd.Process.Pid)
	if err != nil {
		return err
	}
	if err := b.register(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := b.fake.await(ctx, 2*time.Minute); err != nil {
		return err
	}
	b.report.figure(b.of+"_start_s", time.Since(began).Seconds(), "s until all accounts are held")
	if b.only == "restarts" {
		return nil
	}
	if err := pause(ctx, heldSettle); err != nil {
		return err
	}
	full, err := residentMemory(replica.cmd.Process.Pid)
	if err != nil {
		return err
	}
	b.report.figure(b.of+"_idle_kib_per_account", (full-empty)/1024/float64(b.accounts), "KiB of the replica, before messages")
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	arrived := newArrivals(b.redis.URL(), b.ring)
	ended := make(chan error, 1)
	go func() { ended <- arrived.read(reading) }()
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	sent, err := b.send(ctx, heldWarm)
	if err != nil {
		return err
	}
	warm := arrived.count()
	before, err := commandCalls(b.server)
	if err != nil {
		return err
	}
	cpuBefore, err := processCPU(replica.cmd.Process.Pid)
	if err != nil {
		return err
	}
	readsBefore := arrived.reads.Load()
	began = time.Now()
	measured, err := b.send(ctx, b.length)
	if err != nil {
		return err
	}
	sent += measured
	took := time.Since(began)
	after, err := commandCalls(b.server)
	if err != nil {
		return err
	}
	commands := after - before - float64(arrived.reads.Load()-readsBefore)
	cpu, err := processCPU(replica.cmd.Process.Pid)
	if err != nil {
		return err
	}
	if full, err = residentMemory(replica.cmd.Process.Pid); err != nil {
		return err
	}
	for end := time.Now().Add(2 * time.Minute); arrived.count() < sent && time.Now().Before(end); {
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	cancel()
	if err := <-ended; err != nil {
		return err
	}
	ms := arrived.from(warm)
	if len(ms) != sent-warm {
		waiting, err := b.fake.waiting()
		return errors.Join(err, fmt.Errorf("%d messages were sent, %d are in the streams; those of %d accounts are not confirmed, of which %d have a call under way",
			sent, warm+len(ms), waiting.Accounts, waiting.Called))
	}
	b.report.figure(b.of+"_messages_per_s", float64(measured)/took.Seconds(), "messages/s")
	b.report.quantile(b.of+"_message_p%.0f_ms", ms, 0.5, "ms")
	b.report.quantile(b.of+"_message_p%.0f_ms", ms, 0.99, "ms")
	b.report.figure(b.of+"_message_worst_ms", slices.Max(ms), "ms")
	b.report.figure(b.of+"_kib_per_account", (full-empty)/1024/float64(b.accounts), "KiB of the replica")
	b.report.figure(b.of+"_commands_per_account_minute", commands/float64(b.accounts)/took.Minutes(), "commands, those of scripts and the monitor's among them")
	b.report.figure(b.of+"_cpu_share", (cpu-cpuBefore)/took.Seconds(), "of a core, the replica")
	return nil
}

// send has messages for random accounts for a while, and returns how many.
func (b *heldBench) send(ctx context.Context, length time.Duration) (sent int, err error) {
	tick := time.NewTicker(time.Second / heldRate)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < length; sent++ {
		select {
		case <-ctx.Done():
			return sent, ctx.Err()
		case <-tick.C:
			if err := b.fake.send(rand.IntN(b.accounts)); err != nil {
				return sent, err
			}
		}
	}
	return sent, nil
}

// three measures a rolling restart of three replicas, and the death of one.
func (b *heldBench) three(ctx context.Context, replicas *[]*child) error {
	for range 2 {
		r, err := b.start(ctx, "poller")
		if err != nil {
			return err
		}
		*replicas = append(*replicas, r)
	}
	if err := pause(ctx, b.hold+20*time.Second); err != nil { // each has its part
		return err
	}
	if err := b.fake.forget(); err != nil {
		return err
	}
	for i := range *replicas {
		(*replicas)[i].stop()
		r, err := b.start(ctx, "poller")
		if err != nil {
			return err
		}
		(*replicas)[i] = r
		if err := pause(ctx, heldRestart); err != nil {
			return err
		}
	}
	if err := b.fake.await(ctx, time.Minute); err != nil {
		return err
	}
	gaps, err := b.fake.gaps()
	if err != nil {
		return err
	}
	b.report.quantile(b.of+"_gap_p%.0f_s", gaps, 0.5, "s, the longest of each account in a rolling restart")
	b.report.quantile(b.of+"_gap_p%.0f_s", gaps, 0.99, "s")
	b.report.figure(b.of+"_gap_worst_s", slices.Max(gaps), "s")
	if err := pause(ctx, b.hold+10*time.Second); err != nil {
		return err
	}
	if err := b.fake.forget(); err != nil {
		return err
	}
	if err := (*replicas)[0].cmd.Process.Kill(); err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	if err := b.fake.await(ctx, time.Minute); err != nil {
		return err
	}
	if gaps, err = b.fake.gaps(); err != nil {
		return err
	}
	gaps = slices.DeleteFunc(gaps, func(s float64) bool { return s < 1 }) // those of the dead one
	if len(gaps) == 0 {
		return fmt.Errorf("the dead replica held no account")
	}
	b.report.figure(b.of+"_kill_accounts", float64(len(gaps)), "accounts of the replica that was killed")
	b.report.quantile(b.of+"_kill_gap_p%.0f_s", gaps, 0.99, "s")
	return nil
}

func (b *heldBench) register(ctx context.Context) error {
	byShard := make(map[int][]circulate.Registration)
	for i := range b.accounts {
		id := heldID(i)
		record := b.record(i, id)
		shard := b.ring.ShardOf(id)
		r := circulate.Registration{ID: id, Record: []byte(record)}
		if b.every > 0 {
			r.Due = time.Now().Add(rand.N(b.every))
		}
		byShard[shard] = append(byShard[shard], r)
	}
	for shard, all := range byShard {
		for some := range slices.Chunk(all, circulate.MaxBatch) {
			if _, err := b.ring.Register(ctx, shard, some); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *heldBench) record(i int, id string) string {
	if b.of == mailFigures {
		return mailRecord(b.fake, i, id, "every "+b.every.String())
	}
	return fmt.Sprintf(`{"id":%q,"kind":"http","config":{"url":%q,"hold":%d},"cadence":"every 0"}`, id, b.fake.url(i), int(heldHold.Seconds()))
}

func heldID(i int) string { return fmt.Sprintf("held-%05d", i) }

// residentMemory returns how many bytes of memory a process has now.
func residentMemory(pid int) (float64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %q", pid, text)
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()), err
}
