package endtoend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// pausedID is an account that is paused from the beginning.
const pausedID = "account-7"

// TestTheWayAroundLosesNothing moves accounts from a laptop to a Redis, to a Cluster with
// another number of shards, and back to a laptop, by backup and restore alone. Everywhere
// pollers find messages while the backup is taken and after it, until the place is given up.
// What they find after it is lost with the place, and found again by the next one: in the end
// every message of every account is there, and the law holds.
func TestTheWayAroundLosesNothing(t *testing.T) {
	t.Parallel()
	const accounts = 60
	binary := build(t)
	third := &telling{asked: make(map[string]int), most: 1 << 30}
	upstream := httptest.NewServer(third)
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	w := &way{t: t, binary: binary, third: third, accounts: accounts}

	first := filepath.Join(dir, "first")
	w.serve("laptop", "ROUNDS_DATA_DIR="+first, "ROUNDS_SHARDS=4")
	for i := range accounts {
		id := fmt.Sprint("account-", i)
		body := fmt.Sprintf(`{"id":%q,"kind":"http","config":{"url":%q},"cadence":"every 1s","labels":{"n":"%d"}}`, id, upstream.URL+"/"+id, i)
		if code, answer := ask(t, "PUT", w.base+"/v1/accounts/"+id, body); code != 201 {
			t.Fatalf("put %s: %d %s", id, code, answer)
		}
	}
	if code, answer := ask(t, "POST", w.base+"/v1/accounts/"+pausedID+"/pause", ""); code != 200 {
		t.Fatalf("pause: %d %s", code, answer)
	}
	w.works()
	file := filepath.Join(dir, "laptop.ndjson.zst")
	w.rounds("backup", file)
	w.works() // for nothing: what it finds now stays here
	w.give()

	single := redistest.Start(t)
	w.rounds("restore", file, "--to", single.URL())
	w.serve("redis", "ROUNDS_REDIS_URL="+single.URL())
	w.works()

	cluster := redistest.StartCluster(t, 0)
	// In one line, as the guide has it.
	pipe := exec.CommandContext(t.Context(), "sh", "-c", `"$0" backup - | "$0" restore - --to "$1" --shards 7`, binary, cluster.URL())
	pipe.Env = w.environ()
	if said, err := pipe.CombinedOutput(); err != nil || !bytes.Contains(said, []byte("restored 60 accounts")) {
		t.Fatalf("%v: %s", err, said)
	}
	w.works()
	w.give()
	w.serve("cluster", "ROUNDS_REDIS_URL="+cluster.URL())
	w.works()
	file = filepath.Join(dir, "cluster.ndjson")
	w.rounds("backup", file)
	w.works()
	w.give()

	last := filepath.Join(dir, "last")
	w.rounds("restore", file, "--data", last, "--shards", "3")
	w.serve("laptop again", "ROUNDS_DATA_DIR="+last)
	w.works()
	third.end()
	w.everythingIsThere()
}

// way is the way from place to place.
type way struct {
	t        *testing.T
	binary   string
	third    *telling
	accounts int

	place *process // that works now
	base  string
}

func (w *way) serve(name string, settings ...string) {
	w.t.Helper()
	addr := freeAddress(w.t)
	w.base = "http://" + addr
	w.place = start(w.t, name, w.binary, append(settings, "ROUNDS_API_ADDR="+addr, "ROUNDS_ALLOW_PRIVATE_ADDRESSES=true"), "serve")
	eventually(w.t, 30*time.Second, name+" is ready", func() bool { return status(w.t, w.base+"/readyz") == 200 })
}

// works waits until the place has found messages of every account but the paused one.
func (w *way) works() {
	w.t.Helper()
	before := w.third.checks()
	eventually(w.t, time.Minute, w.place.Name+" checks all accounts", func() bool {
		n := 0
		for id, checks := range w.third.checks() {
			if checks > before[id]+1 {
				n++
			}
		}
		return n == w.accounts-1
	})
}

func (w *way) give() {
	w.t.Helper()
	if err := w.place.Terminate(40 * time.Second); err != nil {
		w.t.Error(err)
	}
}

func (w *way) environ() []string { return append(os.Environ(), "LC_ALL=C", "ROUNDS_API_URL="+w.base) }

func (w *way) rounds(args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), w.binary, args...)
	cmd.Env = w.environ()
	if said, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("rounds %s: %v: %s", strings.Join(args, " "), err, said)
	}
}

// everythingIsThere compares what the last place has with what the third party has told.
func (w *way) everythingIsThere() {
	w.t.Helper()
	found := make(map[string]map[string]bool)
	again := 0
	complete := func() bool {
		clear(found)
		again = 0
		for next := "start"; ; {
			var page struct {
				Messages []struct{ Account, ID string }
				Next     string
			}
			code, body := ask(w.t, "GET", w.base+"/v1/messages?limit=1000&after="+next, "")
			if code != 200 || json.Unmarshal([]byte(body), &page) != nil {
				w.t.Fatalf("messages: %d %s", code, body)
			}
			for _, m := range page.Messages {
				if found[m.Account] == nil {
					found[m.Account] = make(map[string]bool)
				}
				if found[m.Account][m.ID] {
					again++
				}
				found[m.Account][m.ID] = true
			}
			if len(page.Messages) == 0 {
				break
			}
			next = page.Next
		}
		return len(w.third.missing(found)) == 0
	}
	eventually(w.t, time.Minute, "all messages are there", complete)
	w.t.Logf("%d accounts, %d messages, of which %d were found again after a move", w.accounts, w.third.told(), again)
	var audited struct {
		Accounts int
		Findings []any
	}
	_, body := ask(w.t, "GET", w.base+"/v1/audit", "")
	if err := json.Unmarshal([]byte(body), &audited); err != nil || audited.Accounts != w.accounts || len(audited.Findings) > 0 {
		w.t.Errorf("audit: %s", body)
	}
	var paused struct{ Labels map[string]string }
	if _, body := ask(w.t, "GET", w.base+"/v1/accounts/"+pausedID, ""); json.Unmarshal([]byte(body), &paused) != nil || paused.Labels["n"] != "7" || !strings.Contains(body, "paused") {
		w.t.Errorf("the paused account: %s", body)
	}
}

// telling answers as a connector. Every check finds up to three messages behind its cursor,
// and the same ones behind the same cursor.
type telling struct {
	mu    sync.Mutex
	asked map[string]int // checks
	high  int            // the highest cursor that was given
	most  int            // no message is above
}

func (u *telling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct{ Cursor *int }
	_ = json.NewDecoder(r.Body).Decode(&request)
	cursor := 0
	if request.Cursor != nil {
		cursor = *request.Cursor
	}
	u.mu.Lock()
	u.asked[strings.TrimPrefix(r.URL.Path, "/")]++
	var messages []map[string]any
	for len(messages) < 3 && cursor < u.most {
		cursor++
		messages = append(messages, map[string]any{"id": strconv.Itoa(cursor), "type": "text", "data": "x"})
	}
	u.high = max(u.high, cursor)
	u.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"messages": messages, "next_cursor": cursor})
}

func (u *telling) checks() map[string]int {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := make(map[string]int, len(u.asked))
	for id, n := range u.asked {
		all[id] = n
	}
	return all
}

// end has no message come after the highest that any account has.
func (u *telling) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.most = u.high
}

func (u *telling) told() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for id := range u.asked {
		if id != pausedID {
			n += u.most
		}
	}
	return n
}

// missing returns messages that were not found, of every account but the paused one.
func (u *telling) missing(found map[string]map[string]bool) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var missing []string
	for id := range u.asked {
		for n := 1; n <= u.most && id != pausedID; n++ {
			if !found[id][strconv.Itoa(n)] {
				missing = append(missing, id+" "+strconv.Itoa(n))
			}
		}
	}
	return missing
}
