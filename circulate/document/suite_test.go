package document_test

import (
	"testing"

	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/ringtest"
)

// The whole suite runs on real servers too: see the tests of circulate.
func TestSuite(t *testing.T) {
	server := redistest.Embedded(t)
	for _, part := range []string{"keys of the API", "vault", "session", "job", "endpoints"} {
		t.Run(part, func(t *testing.T) { ringtest.Part(t, server, part) })
	}
}
