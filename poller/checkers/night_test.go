//go:build night

package checkers_test

import (
	"maps"
	"testing"

	"github.com/rounds-dev/rounds/testing/sendtest"
)

// A replica may be killed at any point of a send with a file, too.
func TestNoKindDoublesAFile(t *testing.T) {
	each(t, files(), func(t *testing.T, _ string, o outlet) { sendtest.Run(t, o.deduplicates, o.start) })
}

// Each kind goes through all points at which Redis may fail, and each control must find a double.
func TestNoKindDoublesASendWhereverRedisForgets(t *testing.T) {
	outlets := texts()
	maps.Copy(outlets, files())
	each(t, outlets, func(t *testing.T, _ string, o outlet) {
		sendtest.RunLosing(t, o.deduplicates, o.start, sendtest.Points()...)
		t.Run("attempts do not wait", func(t *testing.T) { sendtest.RunLosingUnconfirmed(t, o.deduplicates, o.start) })
		t.Run("attempts do not wait, and Redis fails later", func(t *testing.T) { sendtest.RunLosingLater(t, o.start) })
	})
}
