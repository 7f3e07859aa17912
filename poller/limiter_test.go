package poller

import (
	"fmt"
	"testing"
	"time"
)

func TestDeniedAccountsComeBackOnceAndInOrder(t *testing.T) {
	for _, test := range []struct {
		rules    string
		every    time.Duration
		burst    int
		accounts int
		took     time.Duration // at most, for all
	}{
		{"http rate=20/s", 50 * time.Millisecond, 20, 600, 30 * time.Second},
		{"http/* rate=200/s", 5 * time.Millisecond, 200, 2000, 10 * time.Second},
		{"http rate=2/s burst=1", 500 * time.Millisecond, 1, 60, 38 * time.Second},
		{"http rate=10/m", 6 * time.Second, 1, 50, 50 * 6200 * time.Millisecond},
	} {
		t.Run(test.rules, func(t *testing.T) {
			inCrowd(t, test.rules, func(c *crowd) {
				c.come(test.accounts, oneHost)
				began := time.Now()
				c.run(2 * test.took)
				c.holds(test.every, test.burst)
				if len(c.starts) != test.accounts {
					c.Fatalf("%d of %d started", len(c.starts), test.accounts)
				}
				took := c.starts[len(c.starts)-1].Sub(began)
				c.Logf("took %v, denied at most %d times, out of order by %d", took, c.worst(), c.displaced)
				if took > test.took {
					c.Errorf("took %v, want %v at most", took, test.took)
				}
				if c.worst() > 1 {
					c.Errorf("an account was denied %d times", c.worst())
				}
				if c.displaced > 1+int(125*time.Millisecond/test.every) {
					c.Errorf("an account started %d places late", c.displaced)
				}
			})
		})
	}
}

// More checks come due than a limit allows, without end.
func TestStandingOverloadIsSharedAndCostsLittle(t *testing.T) {
	for _, test := range []struct {
		rules    string
		accounts int
		interval time.Duration
		held     func() time.Duration
		rate     float64 // checks a second, at least
		denials  float64 // for each check, at most
		spread   float64 // of how often accounts are checked, at most
	}{
		{"http rate=20/s", 300, 5 * time.Second, between(0, 0), 19.5, 1.1, 1.2},
		{"http concurrency=1", 30, 5 * time.Second, between(200*time.Millisecond, 300*time.Millisecond), 2.4, 2.5, 2},
		{"http concurrency=5", 100, 5 * time.Second, between(100*time.Millisecond, time.Second), 6.5, 2.5, 2},
		{"http concurrency=4", 200, 2 * time.Second, between(20*time.Millisecond, 80*time.Millisecond), 40, 2.5, 2},
		{"http rate=10/s concurrency=10; http/* rate=4/s concurrency=3", 100, 5 * time.Second,
			between(100*time.Millisecond, 500*time.Millisecond), 9, 3, 3},
	} {
		t.Run(test.rules, func(t *testing.T) {
			t.Parallel()
			inCrowd(t, test.rules, func(c *crowd) {
				c.held, c.interval = test.held, test.interval
				c.come(test.accounts, func(i int) string { return fmt.Sprint("host-", i%4) })
				c.run(20 * time.Second) // the limiter learns how long checks take
				from, denials := len(c.starts), c.denials
				const lasts = 40 * time.Second
				c.run(lasts)
				checks := len(c.starts) - from
				rate, cost := float64(checks)/lasts.Seconds(), float64(c.denials-denials)/float64(checks)
				least, most := c.checked()
				c.Logf("%.1f checks/s, %.2f denials for each, %d at most, accounts checked %d to %d times", rate, cost, c.worst(), least, most)
				if rate < test.rate {
					c.Errorf("%.1f checks/s, want %v", rate, test.rate)
				}
				if cost > test.denials {
					c.Errorf("%.2f denials for each check, want at most %v", cost, test.denials)
				}
				if float64(most) > test.spread*float64(least)+2 {
					c.Errorf("some accounts were checked %d times and some %d", least, most)
				}
			})
		})
	}
}

func TestAfterAnOutageNothingRunsAtOnce(t *testing.T) {
	inCrowd(t, "http rate=10/s concurrency=8", func(c *crowd) {
		c.held, c.interval = between(50*time.Millisecond, 500*time.Millisecond), 20*time.Second
		c.come(300, oneHost)
		c.run(time.Minute)
		time.Sleep(10 * time.Minute)
		from, denials := len(c.starts), c.denials
		c.run(time.Minute)
		c.holds(100*time.Millisecond, 10)
		checks := len(c.starts) - from
		least, most := c.checked()
		c.Logf("%d checks, %d denials, accounts checked %d to %d times", checks, c.denials-denials, least, most)
		if checks < 500 {
			c.Errorf("%d checks after the outage, want nearly 600", checks)
		}
		if c.denials-denials > 3*checks {
			c.Errorf("%d denials for %d checks", c.denials-denials, checks)
		}
	})
}
