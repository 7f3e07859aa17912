package circulate_test

import (
	"testing"

	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/ringtest"
)

func TestRing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) { ringtest.Run(t, server) })
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		ringtest.Run(t, redistest.StartSentinels(t).Connect(t))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		ringtest.Run(t, redistest.StartCluster(t, 0).Connect(t))
	})
}
