package fetch

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rounds-dev/rounds/poller"
)

// A call whose context is over before it begins has certainly not left, even if a connection waits for it.
func TestACallThatIsOverBeforeItBeginsIsUnsent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	c := New(Options{AllowPrivate: true})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		if _, err := c.Do(t.Context(), Call{URL: server.URL}); err != nil {
			t.Fatal(err)
		}
		_, err := c.Do(over, Call{URL: server.URL})
		if known, ok := errors.AsType[*poller.SendError](SendError(err)); !ok || !known.Unsent {
			t.Fatalf("got %v", err)
		}
	}
}
