package poller_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// filling is a Redis that reports a chosen use of its memory and refuses messages when a test
// says so.
type filling struct {
	circulate.Server
	percent atomic.Int64
	mute    atomic.Bool // it does not report its use of memory
	refuses atomic.Bool
}

func (f *filling) Conn(ctx context.Context, key string) (redis.Conn, error) {
	conn, err := f.Server.Conn(ctx, key)
	return &fillingConn{conn, f}, err
}

type fillingConn struct {
	redis.Conn
	of *filling
}

func (c *fillingConn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	switch {
	case name == "INFO" && c.of.mute.Load():
		return nil, redis.Error("NOPERM this user has no permissions to run the 'info' command")
	case name == "INFO":
		return fmt.Appendf(nil, "used_memory:%d\r\nmaxmemory:1000\r\nmaxmemory_policy:noeviction\r\n", 10*c.of.percent.Load()), nil
	case c.of.refuses.Load() && adds(name, args):
		return nil, redis.Error("OOM command not allowed when used memory > 'maxmemory'.")
	}
	return redis.DoWithTimeout(c.Conn, timeout, name, args...)
}

// adds reports whether a command is a return or a page with messages, or a trial of whether
// Redis accepts writes.
func adds(name string, args []any) bool {
	const progressKeys, progressArgs = 6, 5
	page := name == "EVALSHA" && args[1] == progressKeys && len(args) > 2+progressKeys+progressArgs
	return name == "ZADD" || page || faketime.Step{Command: name, Args: args}.ReturnsMessages()
}

// fill puts a filling server in front of the world's Redis.
func (w *world) fill(percent int64) *filling {
	f := &filling{Server: w.faulty.Server}
	f.percent.Store(percent)
	w.faulty.Server = f
	return f
}

// pages lets each check find the account's next message. Accounts whose ids begin with
// "endless" always have more. Those whose ids begin with "quiet" have none.
func (w *world) pages() {
	w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
		time.Sleep(100 * time.Millisecond)
		n, _ := strconv.Atoi(string(r.Cursor))
		if strings.HasPrefix(r.Account, "quiet") {
			return poller.Result{}, nil
		}
		return poller.Result{
			Messages: []circulate.Message{{ID: strconv.Itoa(n + 1), Data: []byte(`"x"`)}}, Cursor: []byte(strconv.Itoa(n + 1)),
			HasMore: strings.HasPrefix(r.Account, "endless"),
		}, nil
	}
}

// gapless expects the messages of an account to be 1, 2, 3 and so on.
func (w *world) gapless(account string) {
	w.Helper()
	for i, id := range w.found(account) {
		if id != strconv.Itoa(i+1) {
			w.Fatalf("message %d of %s is %s", i, account, id)
		}
	}
}

func (w *world) rule(id string) string {
	w.Helper()
	return accounts.RuleWord(w.look(id).Rule)
}

func TestNoMessagesAreTakenAboveTheMark(t *testing.T) {
	inFakeTime(t, func(w *world) {
		memory := w.fill(50)
		w.pages()
		w.register("every 10s", "a", "b", "endless", "quiet")
		log := new(strings.Builder)
		stop := w.startLogged(poller.Config{}, log)
		defer stop()
		checks := func() int { return len(w.checker.calls("a")) + len(w.checker.calls("endless")) }
		time.Sleep(time.Minute)
		if checks() < 7 || w.counted("rounds_redis_memory_short", "") != 0 {
			t.Fatalf("%d checks with room, short %v", checks(), w.counted("rounds_redis_memory_short", ""))
		}
		memory.percent.Store(85)
		time.Sleep(3 * time.Second)
		before := checks()
		time.Sleep(30 * time.Minute)
		if checks() != before {
			t.Errorf("%d checks above the mark", checks()-before)
		}
		for _, id := range []string{"a", "b", "endless", "quiet"} {
			if v := w.look(id); v.Place != circulate.Scheduled || w.rule(id) != accounts.RuleMemory || v.Failures != 0 {
				t.Errorf("%s: %+v, rule %s", id, v, w.rule(id))
			}
		}
		if n := w.counted("rounds_put_back_total", accounts.RuleMemory); n < 4*30 || n > 4*240 {
			t.Errorf("put back %v times in half an hour", n)
		}
		if w.counted("rounds_redis_memory_short", "") != 1 {
			t.Error("the metric says that there is room")
		}
		for range 10 { // near the mark the state does not flap
			memory.percent.Store(81)
			time.Sleep(10 * time.Second)
			memory.percent.Store(86)
			time.Sleep(10 * time.Second)
		}
		if checks() != before {
			t.Errorf("%d checks about the mark", checks()-before)
		}
		memory.percent.Store(79)
		time.Sleep(time.Minute)
		if got := len(w.checker.calls("a")); w.rule("a") == accounts.RuleMemory || checks() == before {
			t.Errorf("not as before after a minute with room: %d checks, rule %s", got, w.rule("a"))
		}
		w.gapless("a")
		w.gapless("endless")
		time.Sleep(time.Minute)
		synctest.Wait() // so that nobody writes to the log
		if short, again := strings.Count(log.String(), "used up to the mark"), strings.Count(log.String(), "room for messages again"); short != 1 || again != 1 {
			t.Errorf("told %d times that it is short, %d times that there is room:\n%s", short, again, log)
		}
	})
}

func TestFullRedisTakesAccountsBackWithoutMessages(t *testing.T) {
	inFakeTime(t, func(w *world) {
		memory := w.fill(50)
		memory.mute.Store(true)
		w.pages()
		w.register("every 10s", "a", "endless", "quiet")
		stop := w.start(poller.Config{})
		defer stop()
		time.Sleep(25 * time.Second)
		memory.refuses.Store(true)
		time.Sleep(5 * time.Minute)
		synctest.Wait() // what is claimed at that moment is put back in it
		for _, id := range []string{"a", "endless", "quiet"} {
			if v := w.look(id); v.Place != circulate.Scheduled || w.rule(id) != accounts.RuleMemory || v.Failures != 0 {
				t.Errorf("%s: %+v, rule %s", id, v, w.rule(id))
			}
		}
		had := len(w.found("a"))
		// Redis does not report how full it is. It must be enough that nothing was refused for
		// a while.
		memory.refuses.Store(false)
		time.Sleep(2 * time.Minute)
		if got := len(w.found("a")); got < had+3 {
			t.Errorf("%d messages after two minutes with room, %d before", got, had)
		}
		w.gapless("a")
		w.gapless("endless")
		if n := w.counted("rounds_returns_total", "given_up") + w.counted("rounds_returns_total", "fenced"); n != 0 {
			t.Errorf("%v returns were given up or fenced", n)
		}
	})
}

// startLogged is start with a log to read.
func (w *world) startLogged(config poller.Config, log *strings.Builder) (stop func()) {
	w.Helper()
	return w.startLogging(config, faketime.Log(w, log))
}

func (c *fillingConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, timeout)
}
