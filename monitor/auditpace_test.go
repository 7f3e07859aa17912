package monitor

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// An audit of a million accounts takes about forty minutes, at four thousandths of Redis'
// time, and one of some millions as long. An idle ring stays idle.
func TestAuditPace(t *testing.T) {
	for _, test := range []struct {
		accounts, shards int
		interval         time.Duration
		pause            time.Duration
		least, most      time.Duration
	}{
		{0, 64, 10 * time.Minute, 937500 * time.Microsecond, 5 * time.Minute, 5 * time.Minute},
		{0, 4, 10 * time.Minute, time.Second, 20 * time.Second, 20 * time.Second},
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
