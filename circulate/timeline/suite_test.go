package timeline_test

import (
	"testing"

	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/ringtest"
)

// The whole suite runs on real servers too: see the tests of circulate.
func TestSuite(t *testing.T) { ringtest.Part(t, redistest.Embedded(t), "timeline") }
