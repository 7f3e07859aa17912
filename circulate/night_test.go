//go:build night

package circulate_test

import (
	"testing"

	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/ringtest"
)

// TestRingBehindSentinels runs the suite on a master that Sentinels name. Its commands are
// those of TestRing on a real server. By day, TestFailoverOfSentinelsUnderTraffic has them sent
// to such a master, and to the next one.
func TestRingBehindSentinels(t *testing.T) {
	ringtest.Run(t, redistest.StartSentinels(t).Connect(t))
}
