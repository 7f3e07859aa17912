package delivery_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// The messages that wait are shown while a consumer runs. An operator can have them tried at
// once, in their order.
func TestControl(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		var mu sync.Mutex
		var got []string
		refuse := map[string]bool{"a/1": true, "b/0": true}
		handler := delivery.Each(func(_ context.Context, d delivery.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			name := d.Account + "/" + d.Message.ID
			got = append(got, name)
			if refuse[name] {
				return errors.New("answered 400")
			}
			return nil
		})
		seen := func() []string {
			mu.Lock()
			defer mu.Unlock()
			names := got
			got = nil
			return names
		}
		control := &delivery.Control{}
		if s := control.Standing(); s.Accounts != 0 || control.Hasten("") != 0 {
			t.Errorf("without a consumer: %+v", s)
		}
		c := w.start(delivery.Consumer{Handler: handler, Control: control, Backoff: func(int) time.Duration { return time.Hour }})
		w.add(3, "a", "b", "c")
		time.Sleep(5 * time.Second)
		seen()
		s := control.Standing()
		if s.Accounts != 2 || s.Messages != 5 || len(s.First) != 2 {
			t.Fatalf("%+v", s)
		}
		for _, first := range s.First {
			behind := map[string]int{"a": 1, "b": 2}[first.Account]
			if first.Behind != behind || first.Failed != 1 || first.Err == nil || first.Err.Error() != "answered 400" ||
				first.Shard != w.Ring.ShardOf(first.Account) || time.Until(first.Next) < 50*time.Minute {
				t.Errorf("%+v", first)
			}
		}
		if n := control.Hasten("nobody"); n != 0 {
			t.Errorf("hastened %d of nobody's", n)
		}
		time.Sleep(5 * time.Second)
		if got := seen(); got != nil {
			t.Errorf("tried %q", got)
		}

		if n := control.Hasten("a"); n != 1 { // it fails again
			t.Errorf("hastened %d", n)
		}
		time.Sleep(time.Second)
		if got := seen(); !slices.Equal(got, []string{"a/1"}) {
			t.Errorf("tried %q", got)
		}
		if s := control.Standing(); s.First[1].Account != "a" || s.First[1].Failed != 2 {
			t.Errorf("%+v", s.First)
		}
		mu.Lock()
		refuse = nil
		mu.Unlock()
		if n := control.Hasten(""); n != 2 {
			t.Errorf("hastened %d", n)
		}
		time.Sleep(time.Second)
		for _, account := range []string{"a", "b"} {
			want := map[string][]string{"a": {"a/1", "a/2"}, "b": {"b/0", "b/1", "b/2"}}[account]
			mu.Lock()
			of := slices.DeleteFunc(slices.Clone(got), func(name string) bool { return name[:1] != account })
			mu.Unlock()
			if !slices.Equal(of, want) {
				t.Errorf("tried %q, want %q", of, want)
			}
		}
		if s := control.Standing(); s.Accounts != 0 || len(s.First) != 0 {
			t.Errorf("after all: %+v", s)
		}
		c.stop(t)
		if control.Hasten("") != 0 {
			t.Error("a consumer that has ended is hastened")
		}
	})
}

// A message may be under way when an operator wants it tried. If that delivery fails, the
// message is tried once more.
func TestHastenWhileItIsDelivered(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		var times []time.Duration
		begin := time.Now()
		handler := delivery.Each(func(context.Context, delivery.Delivery) error {
			times = append(times, time.Since(begin).Round(time.Second))
			time.Sleep(10 * time.Second)
			return errors.New("answered 400")
		})
		control := &delivery.Control{}
		c := w.start(delivery.Consumer{Handler: handler, Control: control, Backoff: func(int) time.Duration { return time.Minute }})
		w.add(1, "a")
		time.Sleep(75 * time.Second) // the second delivery is under way
		s := control.Standing()
		if s.Accounts != 1 || s.Messages != 1 || s.First[0].Failed != 1 || control.Hasten("a") != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(10 * time.Second)
		c.stop(t)
		if len(times) != 3 || times[2]-times[1] > 11*time.Second {
			t.Errorf("delivered at %v", times)
		}
	})
}
