package endtoend

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// TestIdleEndpointsHoldNothingUp has 100 webhook endpoints wait for messages in the
// process that polls. The process still beats and claims, and the first message is
// delivered to all of them.
func TestIdleEndpointsHoldNothingUp(t *testing.T) {
	t.Parallel()
	const endpoints = 100 // more than three times as many as a replica has connections for them
	binary := build(t)
	server := redistest.Start(t)
	third, closeThird, err := upstream.Serve(upstream.Options{PageLimit: 50})
	if err != nil {
		t.Fatal(err)
	}
	defer closeThird()
	var mu sync.Mutex
	delivered := make(map[string]int)
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		delivered[r.URL.Path]++
		w.WriteHeader(http.StatusNoContent)
	}))
	defer sink.Close()

	var hooks struct {
		Endpoints []map[string]any `json:"endpoints"`
	}
	for i := range endpoints {
		hooks.Endpoints = append(hooks.Endpoints, map[string]any{
			"name": fmt.Sprint("e", i), "url": fmt.Sprintf("%s/%d", sink.URL, i), "secrets": []any{map[string]string{"secret": "hook"}},
		})
	}
	text, err := json.Marshal(hooks)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "webhooks.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	addr := freeAddress(t)
	settings := []string{
		"ROUNDS_REDIS_URL=" + server.URL(), "ROUNDS_API_ADDR=" + addr, "ROUNDS_API_URL=http://" + addr, "ROUNDS_ALLOW_PRIVATE_ADDRESSES=true",
		"ROUNDS_WEBHOOKS_FILE=" + file, "ROUNDS_WEBHOOKS_FROM=now",
		"ROUNDS_SERVICE_SECRET_hook=whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))),
	}
	start(t, "rounds", binary, settings, "serve", "--roles", "api,poller,monitor,delivery")
	eventually(t, 60*time.Second, "the API is ready", func() bool { return status(t, "http://"+addr+"/readyz") == 200 })
	load := exec.Command(binary, "account", "import", "-")
	load.Env = settings
	load.Stdin = strings.NewReader(fmt.Sprintf(`{"id":"a","kind":"http","config":{"url":%q},"cadence":"every 1s"}`+"\n", third.URL("connector", "a")))
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("import: %v\n%s", err, out)
	}

	metric := func(line string) string {
		answer, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			return ""
		}
		defer answer.Body.Close()
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if value, ok := strings.CutPrefix(lines.Text(), line+" "); ok {
				return value
			}
		}
		return ""
	}
	// More than half a minute of heartbeats, from the very start of all consumers.
	// The metrics of so many endpoints are long, so they are read once a second.
	second := time.NewTicker(time.Second)
	defer second.Stop()
	eventually(t, 3*time.Minute, "15 heartbeats", func() bool {
		<-second.C
		var n int
		_, err := fmt.Sscan(metric(`rounds_heartbeats_total{outcome="ok"}`), &n)
		return err == nil && n >= 15
	})
	if failed := metric(`rounds_heartbeats_total{outcome="failed"}`); failed != "" && failed != "0" {
		t.Errorf("%s heartbeats failed", failed)
	}
	third.Post("a")
	eventually(t, 2*time.Minute, "every endpoint has the message", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(delivered) == endpoints
	})
}
