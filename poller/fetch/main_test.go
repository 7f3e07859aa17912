package fetch

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/testing/processes"
)

// Tests of bodies of many megabytes and of thousands of names run without the race detector,
// which sees the same steps in those of small ones.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(processes.Apart(m, "TestPackedBodyLimit", "TestBodyLimit", "TestWindowsAreBounded", "TestNamesAreBounded"))
}

// networks reads a valid list.
func networks(list string) Networks {
	n, err := ParseNetworks(list)
	if err != nil {
		panic(err)
	}
	return n
}

// client returns a client that may reach 127.0.0.1 and no other private address.
func client(t *testing.T, options Options) *Client {
	t.Helper()
	if options.Networks.prefixes == nil && options.Networks.names == nil {
		options.Networks = networks("127.0.0.1")
	}
	c := New(options)
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}
