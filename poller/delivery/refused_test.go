package delivery_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sqlonce"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// expect expects so many lines that contain all of the texts.
func (l *lines) expect(t *testing.T, lines int, texts ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.text.String()) {
		has := true
		for _, text := range texts {
			has = has && strings.Contains(line, text)
		}
		if has {
			n++
		}
	}
	if n != lines {
		t.Errorf("%d lines with %q, want %d, in\n%s", n, texts, lines, l.text.String())
	}
}

// A handler that fails is in the log from its first message on, with the error, and again every ten
// minutes while that lasts. The consumer also reports the error to others. Both end when no message
// waits.
func TestAHandlerThatFailsIsTold(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		const first, still, again = "the handler fails to handle a message", "the handler still fails", "the handler handles messages again"
		log := &lines{}
		w.add(3, "a", "b")
		var broken atomic.Bool
		broken.Store(true)
		var j journal
		j.answers(func(delivery.Delivery) error {
			if broken.Load() {
				return errors.New("no such table: ledger")
			}
			return nil
		})
		// After a pause of the default length a message might still wait when the next line is due.
		minutely := func(int) time.Duration { return time.Minute }
		c := w.start(delivery.Consumer{Handler: j.handler(), MaxDeliveries: 1000, Log: faketime.Log(w, log), Backoff: minutely})
		time.Sleep(5 * time.Second)
		log.expect(t, 1, first)
		log.expect(t, 1, "level=WARN", first, "no such table: ledger", "account=", "message=0")
		w.deferred("no such table: ledger")
		time.Sleep(31 * time.Minute)
		log.expect(t, 1, first)
		log.expect(t, 3, "level=WARN", still, "no such table: ledger")
		w.deferred("no such table: ledger")
		log.expect(t, 0, again)
		broken.Store(false)
		time.Sleep(11 * time.Minute)
		log.expect(t, 1, "level=INFO", again)
		log.expect(t, 3, still)
		w.deferred("")
		c.stop(t)
	})
}

// A handler that works and then fails again is logged again, at once and when the failure is over.
func TestAHandlerThatFailsAnewIsToldAnew(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		log := &lines{}
		var broken atomic.Bool
		var j journal
		j.answers(func(delivery.Delivery) error {
			if broken.Load() {
				panic("no such table")
			}
			return nil
		})
		c := w.start(delivery.Consumer{Handler: j.handler(), MaxDeliveries: 1000, Log: faketime.Log(w, log), Backoff: func(int) time.Duration { return time.Second }})
		for episode := 1; episode <= 3; episode++ {
			broken.Store(true)
			w.add(1, "a", "b")
			time.Sleep(20 * time.Second)
			log.expect(t, episode, "level=WARN", "the handler fails to handle a message", "no such table")
			broken.Store(false)
			time.Sleep(2 * time.Minute)
			log.expect(t, episode, "level=INFO", "the handler handles messages again")
		}
		c.stop(t)
	})
}

// A handler that fails for single messages is logged rarely. A message that becomes a dead letter
// no longer waits.
func TestAMessageThatFailsNowAndThenIsToldRarely(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		log := &lines{}
		var j journal
		j.answers(func(d delivery.Delivery) error {
			if d.Account == "bad" {
				return errors.New("cannot be read")
			}
			return nil
		})
		c := w.start(delivery.Consumer{Handler: j.handler(), MaxDeliveries: 2, Log: faketime.Log(w, log)})
		for range 5 {
			w.add(1, "bad", "good")
			time.Sleep(time.Minute)
		}
		log.expect(t, 1, "the handler fails to handle a message", "account=bad", "message=0", "cannot be read")
		log.expect(t, 1, "no message waits for the handler any more")
		log.expect(t, 0, "still fails")
		log.expect(t, 5, "message is a dead letter", "account=bad", "message=")
		c.stop(t)
	})
}

// The log also names a message of which consumers may have died, although it was not read here.
func TestADeadLetterThatNobodyReadIsNamed(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		log, stream := &lines{}, w.Key(0, "messages")
		w.add(2, "a")
		w.Do("XGROUP", "CREATE", stream, "g", "0")
		w.Do("XREADGROUP", "GROUP", "g", "dead000000", "COUNT", 1, "STREAMS", stream, ">")
		first, err := w.Ring.Streams().Messages(w.Context(), 0, circulate.StreamStart, 1)
		if err != nil || len(first) != 1 {
			t.Fatal(first, err)
		}
		w.Do("XCLAIM", stream, "g", "dead000000", 0, first[0].Position, "RETRYCOUNT", 9, "JUSTID")
		var j journal
		c := w.start(delivery.Consumer{Handler: j.handler(), Log: faketime.Log(w, log)})
		time.Sleep(time.Minute)
		c.stop(t)
		log.expect(t, 1, "message is a dead letter", "account=a", "message=0", "its consumers may have died of it")
		expect(t, j.of("a"), []string{"1#1"})
	})
}

// A panic that a handler catches itself, as sqlonce does, is counted and logged with its stack like
// any other.
func TestAPanicThatTheHandlerCaughtIsTold(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		log := &lines{}
		w.add(1, "a")
		var j journal
		j.answers(func(delivery.Delivery) error {
			return &sqlonce.PanicError{Value: "poison", Stack: []byte("goroutine 7: apply()")}
		})
		c := w.start(delivery.Consumer{Handler: j.handler(), MaxDeliveries: 2, Log: faketime.Log(w, log), Metrics: delivery.NewMetrics(w.Metrics)})
		time.Sleep(time.Minute)
		log.expect(t, 2, "level=ERROR", "handler panicked", "poison", "goroutine 7: apply()")
		if n := w.Counted("rounds_delivery_handler_panics_total", "g"); n != 2 {
			t.Errorf("%v panics are counted", n)
		}
		c.stop(t)
	})
}

// A consumer says at once what it reads and where, even if its group exists already.
func TestAConsumerSaysWhatItReads(t *testing.T) {
	inFakeTime(t, 3, func(w *world) {
		var j journal
		w.start(delivery.Consumer{Handler: j.handler()}).stop(t)
		log := &lines{}
		c := w.start(delivery.Consumer{Handler: j.handler(), Log: faketime.Log(w, log)})
		time.Sleep(time.Second)
		log.expect(t, 1, "level=INFO", "consuming", "group=g", "consumer=", "namespace="+w.Ring.Namespace(), "redis=", "shards=3")
		log.expect(t, 0, "ended")
		c.stop(t)
		log.expect(t, 1, "level=INFO", "the consumer has ended")
	})
}

// The leases that a consumer loses together are one line of its log.
func TestLostLeasesAreOneLine(t *testing.T) {
	inFakeTime(t, 8, func(w *world) {
		log := &lines{}
		var j journal
		c := w.start(delivery.Consumer{Handler: j.handler(), Log: faketime.Log(w, log)})
		time.Sleep(time.Minute)
		for shard := range 8 {
			w.Do("DEL", w.Key(shard, "leases"))
		}
		time.Sleep(time.Minute)
		c.stop(t)
		log.expect(t, 1, "level=INFO", "lost")
		log.expect(t, 1, "level=INFO", "leases lost", `shards="[0 1 2 3 4 5 6 7]"`)
	})
}
