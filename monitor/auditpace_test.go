package monitor

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// An audit of a million accounts takes about forty minutes, at four thousandths of Redis'
// time, and one of some millions as long. One of a small ring takes seconds.
func TestAuditPace(t *testing.T) {
	for _, test := range []struct {
		accounts, shards int
		interval         time.Duration
		pause            time.Duration
		least, most      time.Duration
	}{
		{0, 64, 10 * time.Minute, 20 * time.Millisecond, 6 * time.Second, 7 * time.Second},
		{10_000, 4, 10 * time.Minute, 20 * time.Millisecond, 0, 7 * time.Second},
		{10_001, 64, 10 * time.Minute, 800 * time.Millisecond, 4 * time.Minute, 6 * time.Minute},
		{10_001, 4, 10 * time.Minute, time.Second, 20 * time.Second, 2 * time.Minute},
		{100_000, 64, 10 * time.Minute, 400 * time.Millisecond, 5 * time.Minute, 7 * time.Minute},
		{1_000_000, 64, 10 * time.Minute, 400 * time.Millisecond, 35 * time.Minute, 45 * time.Minute},
		{3_000_000, 64, 10 * time.Minute, 140 * time.Millisecond, 35 * time.Minute, 45 * time.Minute},
		{10_000_000, 64, 10 * time.Minute, 100 * time.Millisecond, 90 * time.Minute, 2 * time.Hour},
		{1_000_000, 64, time.Second, 400 * time.Millisecond, 35 * time.Minute, 45 * time.Minute},
		{1_000_000, 64, 24 * time.Hour, time.Second, 90 * time.Minute, 2 * time.Hour},
	} {
		pause := auditPause(test.accounts, test.shards, test.interval)
		took := time.Duration(circulate.AuditSteps(test.accounts, test.shards)) * pause
		if pause.Round(10*time.Millisecond) != test.pause.Round(10*time.Millisecond) || took < test.least || took > test.most {
			t.Errorf("%d accounts in %d shards, every %v: a pause of %v, %v in all", test.accounts, test.shards, test.interval, pause, took)
		}
	}
}
