package monitor

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// estimateEvery is how often the time until all accounts are in time is estimated, while
	// they are not. An estimate costs Redis half a millisecond for each shard.
	estimateEvery = 15 * time.Second
	// madeOver is over how many of them the replicas' checks a second are averaged.
	madeOver = 4
)

// catchUpWatch estimates when late accounts are in time again.
type catchUpWatch struct {
	*Monitor
	made []float64 // checks a second of all live replicas, the latest last
}

// turn estimates. Where the last count found nobody late, it asks Redis nothing.
func (w *catchUpWatch) turn(ctx context.Context) error {
	if w.last.overdue() < circulate.Late {
		w.inTime()
		return nil
	}
	counts, err := w.ring.CountAll(ctx)
	if err != nil {
		return err
	}
	var sum circulate.Count
	for _, c := range counts {
		sum.Add(c)
	}
	if sum.Overdue < circulate.Late {
		w.inTime()
		return nil
	}
	replicas, now, err := w.ring.Replicas(ctx)
	if err != nil {
		return err
	}
	sample, err := accounts.SampleBacklog(ctx, w.ring)
	if err != nil {
		return err
	}
	found, known := accounts.EstimateCatchUp(sample, w.average(replicas, now))
	if !w.duty.held() {
		return nil
	}
	if !known {
		w.metrics.catchUp.forget()
		w.watch.catchUp(nil)
		return nil
	}
	found.At = now.UTC()
	if found.Never {
		w.metrics.catchUp.set(math.Inf(1))
	} else {
		w.metrics.catchUp.set(found.Seconds)
	}
	w.watch.catchUp(&found)
	return nil
}

// inTime notes that nobody is late.
func (w *catchUpWatch) inTime() {
	w.made = w.made[:0]
	if w.duty.held() {
		w.metrics.catchUp.set(0)
		w.watch.catchUp(nil)
	}
}

// average adds what live replicas report, and returns the mean of the last minute.
func (w *catchUpWatch) average(replicas []circulate.Replica, now time.Time) float64 {
	made := 0.0
	for _, r := range replicas {
		var report accounts.Report
		// A replica of another version may report something else.
		if now.Sub(r.Beat) <= w.config.DeadAfter && json.Unmarshal(r.Report, &report) == nil {
			made += report.ChecksPerSecond
		}
	}
	w.made = append(w.made, made)
	w.made = w.made[max(0, len(w.made)-madeOver):]
	sum := 0.0
	for _, one := range w.made {
		sum += one
	}
	return sum / float64(len(w.made))
}
