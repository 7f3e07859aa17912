package circulate_test

import (
	"testing"

	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/ringtest"
)

// TestRing runs the suite on each sort of server whose scripts may behave in a way of their own.
// Behind Sentinels are the scripts of a single server: see TestRingBehindSentinels.
func TestRing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) { ringtest.Run(t, server) })
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		ringtest.Run(t, redistest.StartCluster(t, 0).Connect(t))
	})
}
