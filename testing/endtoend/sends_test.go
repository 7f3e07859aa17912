package endtoend

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// TestKilledPollersDoubleNoSend tests sends with real processes on a real Redis: an API, three
// pollers, of which one after the other is killed at a random time, and a monitor. A caller repeats
// each request, as after a lost reply. No send may reach the connector twice, and each is accepted and
// has reached it, or is shown as unknown. Those to one person arrive in their order, as long as their
// ends are known.
func TestKilledPollersDoubleNoSend(t *testing.T) {
	const (
		chats = 6
		kills = 6
	)
	binary := build(t)
	server := redistest.Start(t, redistest.WithAOF())
	var mu sync.Mutex
	arrived := make(map[string][]int) // when each text arrived, as a number
	arrivals, came := 0, make(chan struct{}, 1)
	connector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var send struct {
			Data struct{ Text string }
		}
		body, err := io.ReadAll(r.Body)
		if r.URL.Path != "/send" || err != nil || json.Unmarshal(body, &send) != nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		mu.Lock()
		arrivals++
		arrived[send.Data.Text] = append(arrived[send.Data.Text], arrivals)
		mu.Unlock()
		select {
		case came <- struct{}{}:
		default:
		}
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond) // so that a kill finds some under way
	}))
	defer connector.Close()
	addr := freeAddress(t)
	settings := []string{"ROUNDS_REDIS_URL=" + server.URL(), "ROUNDS_API_ADDR=" + addr, "ROUNDS_API_URL=http://" + addr, "ROUNDS_ALLOW_PRIVATE_ADDRESSES=true",
		"ROUNDS_SHARDS=4", "ROUNDS_HEARTBEAT_INTERVAL=200ms", "ROUNDS_DEAD_AFTER=1s", "ROUNDS_SWEEP_INTERVAL=200ms"}
	start(t, "api", binary, settings, "serve", "--roles", "api")
	start(t, "monitor", binary, settings, "serve", "--roles", "monitor")
	pollers := make([]*process, 3)
	for i := range pollers {
		pollers[i] = start(t, fmt.Sprint("poller ", i), binary, settings, "serve", "--roles", "poller")
	}
	api := "http://" + addr
	eventually(t, 20*time.Second, "the API is ready", func() bool { return status(t, api+"/readyz") == 200 })
	call := func(method, path, key, body string, into any) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, api+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if key != "" {
			request.Header.Set("Idempotency-Key", key)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if text, err := io.ReadAll(answer.Body); err != nil || into != nil && json.Unmarshal(text, into) != nil {
			t.Fatalf("%s: %s, %v", path, text, err)
		}
		return answer.StatusCode
	}
	if code := call("PUT", "/v1/accounts/a", "", fmt.Sprintf(`{"kind":"http","cadence":"every 1h","config":{"url":"%s/check","send_url":"%[1]s/send"}}`, connector.URL), nil); code != 201 {
		t.Fatalf("the registration was answered %d", code)
	}
	type send struct{ ID, State string }
	sends := make(map[string]*send) // by text
	lines := make(map[string][]string)
	for n, killed := 0, 0; killed < kills; n++ {
		text, chat := fmt.Sprint("text ", n), fmt.Sprint("chat ", rand.IntN(chats))
		if n%20 == 19 {
			select {
			case <-came: // the others may all have arrived
			default:
			}
		}
		for again := range 1 + n%2 {
			var got send
			if code := call("POST", "/v1/accounts/a/sends", text, fmt.Sprintf(`{"to":%q,"data":{"text":%q}}`, chat, text), &got); code != 202 || again > 0 && got.ID != sends[text].ID {
				t.Fatalf("%s was answered %d, %+v, and before %+v", text, code, got, sends[text])
			}
			sends[text] = &got
		}
		lines[chat] = append(lines[chat], text)
		if n%20 == 19 { // at a random time after one of them has arrived
			i := killed % len(pollers)
			select {
			case <-came:
			case <-time.After(20 * time.Second):
				t.Fatal("no send arrives")
			}
			time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
			pollers[i].kill()
			pollers[i] = start(t, fmt.Sprint("poller ", i), binary, settings, "serve", "--roles", "poller")
			killed++
		}
	}
	eventually(t, 30*time.Second, "every send has an outcome", func() bool {
		waiting := 0
		for _, s := range sends {
			if s.State == "queued" || s.State == "attempting" {
				call("GET", "/v1/sends/"+s.ID, "", "", s)
				waiting++
			}
		}
		return waiting == 0
	})
	var doubts struct{ Sends []send }
	call("GET", "/v1/sends?state=unknown&limit=1000", "", "", &doubts)
	mu.Lock()
	defer mu.Unlock()
	unknown := 0
	for text, s := range sends {
		switch n := len(arrived[text]); {
		case n > 1:
			t.Errorf("%q arrived %d times, and is %s", text, n, s.State)
		case s.State == "unknown":
			if unknown++; !slices.ContainsFunc(doubts.Sends, func(d send) bool { return d.ID == s.ID }) {
				t.Errorf("%q is unknown, and not among those that are listed", text)
			}
		case s.State != "accepted" || n == 0:
			t.Errorf("%q arrived %d times, and is %s", text, n, s.State)
		}
	}
	for chat, texts := range lines {
		last := 0
		for _, text := range texts {
			if sends[text].State != "accepted" || len(arrived[text]) == 0 {
				continue
			}
			if at := arrived[text][0]; at < last {
				t.Errorf("%s got %q too late", chat, text)
			} else {
				last = at
			}
		}
	}
	t.Logf("%d sends, %d arrived, %d are unknown after %d kills", len(sends), arrivals, unknown, kills)
}
