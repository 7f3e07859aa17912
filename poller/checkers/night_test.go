//go:build night

package checkers_test

import (
	"testing"

	"github.com/rounds-dev/rounds/testing/sendtest"
)

// Each kind goes through all points at which Redis may fail, and each control must find a double.
func TestNoKindDoublesASendWhereverRedisForgets(t *testing.T) {
	eachKind(t, func(t *testing.T, _ string, o outlet) {
		sendtest.RunLosing(t, o.deduplicates, o.start, sendtest.Points()...)
		t.Run("attempts do not wait", func(t *testing.T) { sendtest.RunLosingUnconfirmed(t, o.deduplicates, o.start) })
		t.Run("attempts do not wait, and Redis fails later", func(t *testing.T) { sendtest.RunLosingLater(t, o.start) })
	})
}
