//go:build night

package endtoend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// TestThirdPartyThatAlwaysHasMoreStopsNobody has a connector answer every check with two
// megabytes and the claim that there is more, against a Redis of 24 MB. The other
// accounts must still be checked, and an operator must be able to look, pause and delete
// all the while. After Redis was completely full, everything recovers by itself.
func TestThirdPartyThatAlwaysHasMoreStopsNobody(t *testing.T) {
	t.Parallel()
	binary := build(t)
	server := redistest.Start(t, redistest.WithArgs("--maxmemory", "24mb", "--maxmemory-policy", "noeviction"))
	third := &greedy{checked: make(map[string]time.Time)}
	upstream := httptest.NewServer(third)
	t.Cleanup(upstream.Close)
	addr := freeAddress(t)
	settings := []string{"ROUNDS_REDIS_URL=" + server.URL(), "ROUNDS_API_ADDR=" + addr, "ROUNDS_ALLOW_PRIVATE_ADDRESSES=true",
		"ROUNDS_SHARDS=4", "ROUNDS_ACCOUNT_SHARE=0", "ROUNDS_MESSAGE_RETENTION=20s"}
	p := start(t, "rounds", binary, settings, "serve")
	base := "http://" + addr
	eventually(t, 20*time.Second, "it is ready", func() bool { return status(t, base+"/readyz") == 200 })

	put := func(id string) (int, string) {
		return ask(t, "PUT", base+"/v1/accounts/"+id,
			fmt.Sprintf(`{"id":%q,"kind":"http","config":{"url":%q},"cadence":"every 2s"}`, id, upstream.URL+"/"+id))
	}
	var healthy []string
	for i := range 20 {
		healthy = append(healthy, fmt.Sprintf("healthy-%d", i))
	}
	for _, id := range append([]string{"endless", "endless-2"}, healthy...) {
		if code, body := put(id); code != 200 && code != 201 {
			t.Fatalf("put %s: %d %s", id, code, body)
		}
	}
	allChecked := func(what string) {
		t.Helper()
		since := time.Now()
		eventually(t, 3*time.Minute, what, func() bool { return third.since(healthy, since) == len(healthy) })
	}
	allChecked("healthy accounts are checked")
	eventually(t, 2*time.Minute, "the endless one has filled Redis to the mark", func() bool { return strings.Contains(p.Log(), "used up to the mark") })
	allChecked("healthy accounts are checked beside the endless one")

	// Completely full: everything that adds is refused.
	server.LimitMemory(t, "1mb")
	eventually(t, 20*time.Second, "it says that it is not ready", func() bool { return status(t, base+"/readyz") == 503 })
	for _, step := range []struct {
		method, path string
		code         int
	}{
		{"GET", "/v1/stats", 200}, {"GET", "/v1/accounts/endless/schedule", 200}, {"GET", "/v1/accounts/healthy-1", 200},
		{"POST", "/v1/accounts/endless/pause", 200}, {"GET", "/v1/parked", 200}, {"DELETE", "/v1/accounts/endless", 204},
	} {
		if code, body := ask(t, step.method, base+step.path, ""); code != step.code {
			t.Errorf("%s %s on a full Redis: %d %s, want %d", step.method, step.path, code, body, step.code)
		}
	}
	if code, body := put("one-more"); code != 503 || !strings.Contains(body, "Redis is at its memory limit") {
		t.Errorf("put on a full Redis: %d %s", code, body)
	}
	eventually(t, time.Minute, "why tells of the memory", func() bool {
		_, body := ask(t, "GET", base+"/v1/accounts/healthy-2/schedule", "")
		var schedule struct{ Rule string }
		return json.Unmarshal([]byte(body), &schedule) == nil && schedule.Rule == "redis-memory"
	})

	server.LimitMemory(t, "24mb")
	allChecked("healthy accounts are checked again, by themselves")
	eventually(t, time.Minute, "it is ready again", func() bool { return status(t, base+"/readyz") == 200 })
	for _, line := range []string{"redis does not serve", "used up to the mark", "at its memory limit"} {
		if n := strings.Count(p.Log(), line); n > 3 {
			t.Errorf("the log says %d times: %s", n, line)
		}
	}
}

// greedy answers as a connector: accounts called endless always have more.
type greedy struct {
	mu      sync.Mutex
	checked map[string]time.Time
}

func (g *greedy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct{ Cursor *int }
	_ = json.NewDecoder(r.Body).Decode(&request)
	id := strings.TrimPrefix(r.URL.Path, "/")
	g.mu.Lock()
	g.checked[id] = time.Now()
	g.mu.Unlock()
	cursor, n, size, more := 0, 1, 10, false
	if request.Cursor != nil {
		cursor = *request.Cursor
	}
	if strings.HasPrefix(id, "endless") {
		n, size, more = 40, 50_000, true
	}
	var messages []map[string]any
	for range n {
		cursor++
		messages = append(messages, map[string]any{"id": strconv.Itoa(cursor), "type": "text", "data": strings.Repeat("x", size)})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"messages": messages, "next_cursor": cursor, "has_more": more})
}

// since counts the accounts that were checked after a time.
func (g *greedy) since(ids []string, at time.Time) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range ids {
		if g.checked[id].After(at) {
			n++
		}
	}
	return n
}
