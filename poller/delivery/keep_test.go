package delivery_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// A handler may take longer than a lease lasts. The lease is renewed meanwhile, and a new
// consumer to which the shard is assigned waits for the handler.
func TestLeasesAreKeptWhileHandlersWork(t *testing.T) {
	inFakeTime(t, 8, func(w *world) {
		var accounts []string
		for i := range 30 {
			accounts = append(accounts, fmt.Sprint("account", i))
		}
		w.add(1, accounts...)
		slow := journal{answer: func(delivery.Delivery) error {
			time.Sleep(20 * time.Second)
			return nil
		}}
		var quick journal
		one := w.start(delivery.Consumer{Handler: slow.handler(), HandlerTimeout: 5 * time.Minute, Grace: 5 * time.Minute})
		time.Sleep(2 * time.Second)
		two := w.start(delivery.Consumer{Handler: quick.handler()})
		time.Sleep(3 * time.Minute)
		lines, _ := slow.all()
		again, _ := quick.all()
		for _, account := range accounts {
			n := 0
			for _, line := range append(append([]string(nil), lines...), again...) {
				if line == account+"/0#1" {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%s was delivered %d times: %q, %q", account, n, slow.of(account), quick.of(account))
			}
		}
		if len(lines)+len(again) != len(accounts) {
			t.Errorf("%d deliveries of %d messages", len(lines)+len(again), len(accounts))
		}
		w.add(1, accounts...)
		time.Sleep(time.Second)
		if quick.total() == len(again) {
			t.Error("the consumer that came has no shard")
		}
		one.stop(t)
		time.Sleep(5 * time.Second)
		two.stop(t)
		w.nothingLeft()
	})
}
