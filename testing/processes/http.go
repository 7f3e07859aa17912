package processes

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// Get returns the status and body of the answer to a GET, under a bearer token unless
// that is empty. If nobody listens, the status is 0 and the body holds the error.
func Get(t testing.TB, url, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(body)
}

// AwaitStatus waits until a GET is answered with a status, for at most 30 s.
func AwaitStatus(t testing.TB, url string, want int) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		status, body := Get(t, url, "")
		if status == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s answers %d, want %d: %s", url, status, want, body)
		}
	}
}
