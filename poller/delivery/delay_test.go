package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// The delay of a message lasts from its third party's time to its acknowledgement, whatever held it up.
func TestDelaysAreMeasured(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		write := func(id string, at time.Time, more ...any) {
			text := ""
			if !at.IsZero() {
				text = at.UTC().Format(time.RFC3339)
			}
			w.Do("XADD", append([]any{w.Key(0, "messages"), "*", "account", id, "kind", "feed", "id", id, "type", "text", "time", text, "data", "1"}, more...)...)
		}
		now := time.Now()
		write("quick", now.Add(-3*time.Second))
		write("ahead", now.Add(time.Minute)) // its third party's clock is
		write("late", now.Add(-10*time.Minute))
		write("retried", now)
		write("dead", now)
		write("untimed", time.Time{})
		write("history", now.Add(-25*time.Hour))
		write("replayed", now, "group", "crew", "origin", "1-0")
		write("event", now, "group", "crew", "event", "1")
		handle := delivery.Each(func(_ context.Context, d delivery.Delivery) error {
			switch {
			case d.Account == "dead":
				return &delivery.Dead{Err: errors.New("useless")}
			case d.Account == "retried" && d.Attempt == 1:
				return errors.New("not yet")
			}
			return nil
		})
		c := w.start(delivery.Consumer{
			Group: "crew", Handler: handle, Metrics: delivery.NewMetrics(w.Metrics), Objective: 30 * time.Second,
			Backoff: func(int) time.Duration { return 100 * time.Second },
		})
		time.Sleep(10 * time.Minute)
		c.stop(t)
		if n := w.Counted("rounds_detection_slow_total", "crew"); n != 2 { // late and retried
			t.Errorf("%v were slow", n)
		}
		families, err := w.Metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range families {
			if f.GetName() != "rounds_detection_delay_seconds" {
				continue
			}
			for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
				got += fmt.Sprint(b.GetUpperBound(), ":", b.GetCumulativeCount(), " ")
			}
		}
		if want := "1:1 2:1 5:2 10:2 20:2 30:2 60:2 120:3 300:3 600:3 1800:4 3600:4 21600:4 86400:4 "; got != want {
			t.Errorf("delays are %s, want %s", got, want)
		}
	})
}

// Without an objective nothing is slow, and there is nothing to alert on.
func TestWithoutAnObjectiveNothingIsSlow(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.Do("XADD", w.Key(0, "messages"), "*", "account", "a", "kind", "feed", "id", "1", "type", "text", "time", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), "data", "1")
		handle := delivery.Each(func(context.Context, delivery.Delivery) error { return nil })
		c := w.start(delivery.Consumer{Group: "crew", Handler: handle, Metrics: delivery.NewMetrics(w.Metrics)})
		time.Sleep(time.Minute)
		c.stop(t)
		families, err := w.Metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		measured := false
		for _, f := range families {
			if f.GetName() == "rounds_detection_slow_total" {
				t.Error("there is a series of slow messages")
			}
			measured = measured || f.GetName() == "rounds_detection_delay_seconds"
		}
		if !measured {
			t.Error("the delay is not measured")
		}
	})
}
