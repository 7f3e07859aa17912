//go:build night

package endtoend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// TestSlowCheckWhileShardsChangeOnAFullRedis changes the number of shards while one check
// is slow and Redis fills up completely. Copies of moved accounts are still freed, the
// change ends, and once there is room all accounts are checked again.
func TestSlowCheckWhileShardsChangeOnAFullRedis(t *testing.T) {
	t.Parallel()
	binary := build(t)
	server := redistest.Start(t)
	third := &waiting{greedy: greedy{checked: make(map[string]time.Time)}, begun: make(chan struct{}), answer: make(chan struct{})}
	upstream := httptest.NewServer(third)
	t.Cleanup(upstream.Close)
	answer := sync.OnceFunc(func() { close(third.answer) })
	t.Cleanup(answer)
	addr := freeAddress(t)
	p := start(t, "rounds", binary, []string{"ROUNDS_REDIS_URL=" + server.URL(), "ROUNDS_API_ADDR=" + addr, "ROUNDS_ALLOW_PRIVATE_ADDRESSES=true",
		"ROUNDS_SHARDS=2", "ROUNDS_CHECK_TIMEOUT=2m"}, "serve")
	base := "http://" + addr
	eventually(t, 20*time.Second, "it is ready", func() bool { return status(t, base+"/readyz") == 200 })
	ids := []string{"slow"}
	for i := range 60 {
		ids = append(ids, fmt.Sprintf("account-%d", i))
	}
	for _, id := range ids {
		if code, body := ask(t, "PUT", base+"/v1/accounts/"+id,
			fmt.Sprintf(`{"id":%q,"kind":"http","config":{"url":%q},"cadence":"every 1s"}`, id, upstream.URL+"/"+id)); code != 200 && code != 201 {
			t.Fatalf("put %s: %d %s", id, code, body)
		}
	}
	type progress struct {
		Phase             string
		Left, Unconfirmed int
	}
	change := func() (p progress) {
		t.Helper()
		if code, body := ask(t, "GET", base+"/v1/reshard", ""); code != 200 || json.Unmarshal([]byte(body), &p) != nil {
			return progress{Left: -1} // the routes change to the new shards
		}
		return p
	}
	if code, body := ask(t, "POST", base+"/v1/reshard", `{"shards":3}`); code != 200 {
		t.Fatalf("reshard: %d %s", code, body)
	}
	eventually(t, 20*time.Second, "the new shards are polled", func() bool { return strings.Contains(p.Log(), `"shards":5,"layout":"0:2>1:3"`) })
	third.arm()
	<-third.begun // some seconds before the first account moves
	eventually(t, time.Minute, "accounts have begun to move", func() bool { p := change(); return p.Left >= 0 && p.Left < len(ids) })
	server.LimitMemory(t, "1mb")
	eventually(t, time.Minute, "all but the slow one have moved, and their copies are freed", func() bool {
		p := change()
		return p.Phase == "moving" && p.Left == 1 && p.Unconfirmed == 0
	})
	answer()
	eventually(t, time.Minute, "all have moved", func() bool { return change().Phase == "draining" })

	server.LimitMemory(t, "0")
	since := time.Now()
	eventually(t, time.Minute, "all are checked in their new shards", func() bool { return third.since(ids, since) == len(ids) })
	var audited struct {
		Accounts int
		Findings []any
	}
	_, body := ask(t, "GET", base+"/v1/audit", "")
	if err := json.Unmarshal([]byte(body), &audited); err != nil || audited.Accounts != len(ids) || len(audited.Findings) > 0 {
		t.Errorf("audit: %s", body)
	}
}

// waiting answers as a connector: once armed, the account called slow waits.
type waiting struct {
	greedy
	armed         atomic.Bool
	once          sync.Once
	begun, answer chan struct{}
}

func (u *waiting) arm() { u.armed.Store(true) }

func (u *waiting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/slow" && u.armed.Load() {
		u.once.Do(func() { close(u.begun) })
		select {
		case <-u.answer:
		case <-r.Context().Done():
		}
	}
	u.greedy.ServeHTTP(w, r)
}
