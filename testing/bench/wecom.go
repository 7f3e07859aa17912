package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/testing/wecomtest"
)

const (
	wecomCorps    = 10
	callbackEvery = 50 * time.Millisecond // on average
	wecomGroup    = "bench"
)

// wecomBench measures one process with all roles that checks customer-service accounts
// from a fake of WeCom. It measures what the process takes while only the cadence asks
// for checks. Then it measures how soon a callback leads to a check and to its message in
// the stream, as a consumer sees it.
type wecomBench struct {
	report   reporter
	length   time.Duration
	accounts int
	world    *wecomtest.World

	mu        sync.Mutex
	called    map[string]time.Time // when each account's callback was sent
	toCheck   []time.Duration
	toStream  []time.Duration
	callbacks int
}

func (b *wecomBench) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "rounds-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in the system's folder for such
	b.called = make(map[string]time.Time)
	all := make([]wecomtest.Corp, wecomCorps)
	for i := range all {
		all[i] = wecomtest.Corp{ID: fmt.Sprint("corp", i), Accounts: b.accounts / wecomCorps}
	}
	b.world, err = wecomtest.Open(ctx, dir, wecomtest.Options{Corps: all, Every: interval, OnSync: b.sync})
	defer b.world.Close()
	if err != nil {
		return err
	}
	if err := pause(ctx, interval+10*time.Second); err != nil { // every account was checked once
		return err
	}
	if err := b.usage(ctx, all); err != nil {
		return err
	}
	return b.callback(ctx, all)
}

// usage measures what the process takes by its cadence alone.
func (b *wecomBench) usage(ctx context.Context, all []wecomtest.Corp) error {
	calls := func() (n int) {
		for _, c := range all {
			n += b.world.Fake.Stats(c.ID).SyncMsg
		}
		return n
	}
	callsBefore, began := calls(), time.Now()
	cpuBefore, err := processCPU(b.world.Main.Pid())
	if err != nil {
		return err
	}
	if err := pause(ctx, b.length); err != nil {
		return err
	}
	cpu, err := processCPU(b.world.Main.Pid())
	if err != nil {
		return err
	}
	peak, err := peakMemoryOf(strconv.Itoa(b.world.Main.Pid()))
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	b.report.figure("checks", float64(calls()-callsBefore)/took, "checks/s")
	b.report.figure("cpu_share", (cpu-cpuBefore)/took, "of a core")
	b.report.figure("rss_mib", peak/(1<<20), "MiB, at most")
	return nil
}

// callback sends callbacks from time to time.
func (b *wecomBench) callback(ctx context.Context, all []wecomtest.Corp) error {
	server, err := connect.Open(b.world.Redis.URL(), connect.Options{})
	if err != nil {
		return err
	}
	defer server.Close()
	ring, err := circulate.Open(ctx, server, circulate.Options{})
	if err != nil {
		return err
	}
	consuming, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- delivery.Consumer{Ring: ring, Group: wecomGroup, Start: circulate.StreamEnd, Handler: delivery.Each(b.arrived)}.Run(consuming)
	}()
	if err := pause(ctx, settleIdle); err != nil {
		return err
	}
	for end := time.Now().Add(b.length); time.Now().Before(end); {
		if err := pause(ctx, time.Duration(rand.ExpFloat64()*float64(callbackEvery))); err != nil {
			return err
		}
		c := all[rand.IntN(len(all))]
		id := c.Account(rand.IntN(c.Accounts))
		if b.underWay(id) {
			continue
		}
		b.world.Fake.Post(id, "text")
		b.start(id)
		if err := b.world.Callback(ctx, c.ID, id); err != nil {
			return err
		}
		b.callbacks++
	}
	if err := pause(ctx, 5*time.Second); err != nil {
		return err
	}
	cancel()
	if err := <-ended; err != nil {
		return err
	}
	return b.tell()
}

// underWay reports whether an account's last callback has not led to its message yet.
func (b *wecomBench) underWay(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, waits := b.called[id]
	return waits
}

func (b *wecomBench) start(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.called[id] = time.Now()
}

// sync is called for each check's call; one with a token is a callback's.
func (b *wecomBench) sync(openKfID, token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.called[openKfID]; ok && token != "" {
		b.toCheck = append(b.toCheck, time.Since(at))
	}
}

func (b *wecomBench) arrived(_ context.Context, d delivery.Delivery) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.called[d.Account]; ok {
		b.toStream = append(b.toStream, time.Since(at))
		delete(b.called, d.Account)
	}
	return nil
}

func (b *wecomBench) tell() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.toCheck) == 0 || len(b.toStream) == 0 {
		return errors.New("no callback led to a check")
	}
	b.report.figure("callbacks", float64(b.callbacks), "")
	b.report.figure("callbacks_without_message", float64(len(b.called)), "")
	for _, f := range []struct {
		name string
		all  []time.Duration
	}{{"callback_to_check", b.toCheck}, {"callback_to_stream", b.toStream}} {
		all := make([]float64, len(f.all))
		for i, took := range f.all {
			all[i] = ms(took)
		}
		b.report.quantile(f.name+"_p%.0f_ms", all, 0.5, "ms")
		b.report.quantile(f.name+"_p%.0f_ms", all, 0.99, "ms")
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
