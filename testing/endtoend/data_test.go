package endtoend

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
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

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/datadir"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// counting is a third party that has one new message for each check, for ever. It remembers
// each check: when it came, and with which cursor.
type counting struct {
	mu     sync.Mutex
	checks map[string][]counted
}

type counted struct {
	at     time.Time
	cursor int
}

// ServeHTTP answers a check.
func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	var request struct {
		Account struct{ ID string }
		Cursor  int
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	id, n := request.Account.ID, request.Cursor+1
	c.mu.Lock()
	c.checks[id] = append(c.checks[id], counted{at, request.Cursor})
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"messages":[{"id":%q,"type":"message","data":{"number":%d}}],"next_cursor":%d}`, upstream.MessageID(id, n), n, n)
}

// taken returns the checks since it was called before.
func (c *counting) taken() map[string][]counted {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.checks
	c.checks = make(map[string][]counted)
	return all
}

// kept is what a data directory has of each account.
type kept struct {
	saved    time.Time
	due      map[string]time.Time // zero: it was waiting or being checked
	messages map[string]int
}

const (
	keptAccounts = 24
	keptSlot     = time.Second // the accounts' cadence
)

// look opens a directory whose process has ended. It expects all accounts, each in exactly one
// place, and the messages of each in order, without a gap and with ids of their own.
func look(t *testing.T, path string) kept {
	t.Helper()
	server := connect.NewEmbedded()
	defer func() { _ = server.Close() }()
	dir, err := datadir.Open(t.Context(), server, datadir.Options{Path: path, What: "the test"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	state := dir.State()
	if len(state.Damaged) > 0 {
		t.Fatalf("damaged: %+v", state.Damaged)
	}
	ring, err := circulate.Open(t.Context(), server, circulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := kept{state.Saved, make(map[string]time.Time), make(map[string]int)}
	for shard := range ring.Shards() {
		found, err := ring.AuditShard(t.Context(), shard, circulate.AuditOptions{})
		if err != nil || len(found.Findings) > 0 {
			t.Fatalf("shard %d: %+v, %v", shard, found.Findings, err)
		}
		for cursor := ""; cursor != circulate.ScanDone; {
			var all []circulate.Archived
			if all, cursor, err = ring.Archive().Accounts(t.Context(), shard, cursor, 100); err != nil {
				t.Fatal(err)
			}
			for _, a := range all {
				k.due[a.ID] = a.At
				if a.Standing == circulate.StandsParked {
					t.Fatalf("%s is parked: %s", a.ID, a.Reason)
				}
			}
		}
		messages, err := ring.Streams().Messages(t.Context(), shard, circulate.StreamStart, 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if k.messages[m.Account]++; m.Message.ID != upstream.MessageID(m.Account, k.messages[m.Account]) {
				t.Fatalf("message %d of %s is %s", k.messages[m.Account], m.Account, m.Message.ID)
			}
		}
	}
	if len(k.due) != keptAccounts {
		t.Fatalf("%d accounts of %d", len(k.due), keptAccounts)
	}
	return k
}

// judge compares the checks of one process with what the directory had when it began: none is
// before its time, none is in the slot of another, and each begins where the one before ended.
func (k kept) judge(t *testing.T, checks map[string][]counted, phases map[string]time.Duration) {
	t.Helper()
	for id, all := range checks {
		due, slot := k.due[id], int64(-1)
		for i, c := range all {
			if c.at.Before(due) && i == 0 {
				t.Errorf("%s was checked at %v, and is due at %v", id, c.at, due)
			}
			if c.cursor != k.messages[id]+i {
				t.Errorf("check %d of %s has cursor %d, and %d messages were kept", i, id, c.cursor, k.messages[id])
			}
			phase, ok := phases[id]
			if !ok {
				continue
			}
			at := c.at.Add(-phase).UnixMilli() / keptSlot.Milliseconds()
			if at == slot {
				t.Errorf("%s was checked twice in its slot, at %v and %v", id, all[i-1].at, c.at)
			}
			slot = at
		}
	}
}

// kills is how often a process is killed. The variable DATA_KILLS raises it.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("DATA_KILLS")); err == nil && n > 0 {
		return n
	}
	return 3
}

// TestKilledProcessGoesOn kills a service that keeps everything itself, at any moment, again and
// again. What it left is an earlier state of itself, whole, and the next process goes on from it.
func TestKilledProcessGoesOn(t *testing.T) {
	binary := build(t)
	third := &counting{checks: make(map[string][]counted)}
	web := httptest.NewServer(third)
	defer web.Close()
	addr := freeAddress(t)
	path := filepath.Join(t.TempDir(), "data")
	settings := []string{"ROUNDS_API_ADDR=" + addr, "ROUNDS_API_URL=http://" + addr, "ROUNDS_ALLOW_PRIVATE_ADDRESSES=true", "ROUNDS_SHARDS=3",
		"ROUNDS_DATA_DIR=" + path, "ROUNDS_DATA_SAVE_WITHIN=100ms", "ROUNDS_HEARTBEAT_INTERVAL=200ms", "ROUNDS_DEAD_AFTER=2s", "ROUNDS_SWEEP_INTERVAL=200ms"}

	p := start(t, "first", binary, settings, "serve")
	eventually(t, 20*time.Second, "the API is ready", func() bool { return status(t, "http://"+addr+"/readyz") == 200 })
	var records strings.Builder
	for i := range keptAccounts {
		fmt.Fprintf(&records, `{"id":"account-%02d","kind":"http","config":{"url":%q},"cadence":"every 1s"}`+"\n", i, web.URL)
	}
	load := exec.Command(binary, "account", "import", "-")
	load.Env, load.Stdin = settings, strings.NewReader(records.String())
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("import: %v\n%s", err, out)
	}
	p.terminate(t)
	third.taken()
	have := look(t, path)

	phases := make(map[string]time.Duration)
	moved, oldest := 0, time.Duration(0)
	for n := 0; n < kills() || moved == 0 && n < 30; n++ {
		p := start(t, fmt.Sprint("process ", n), binary, settings, "serve")
		// The moment of the kill. It comes later if no process of a busy machine got far enough.
		time.Sleep(time.Duration(rand.IntN(900*(1+n/kills()))) * time.Millisecond)
		p.kill()
		killed := time.Now()
		for id, due := range have.due {
			if !due.IsZero() && len(phases) < keptAccounts {
				phases[id] = time.Duration(due.UnixMilli()%keptSlot.Milliseconds()) * time.Millisecond
			}
		}
		next := look(t, path)
		have.judge(t, third.taken(), phases)
		if next.saved.After(have.saved) {
			moved++
			oldest = max(oldest, killed.Sub(next.saved))
		}
		for id, n := range next.messages {
			if n < have.messages[id] {
				t.Errorf("%s had %d messages and now has %d", id, have.messages[id], n)
			}
		}
		if t.Failed() {
			t.Fatalf("after kill %d", n+1)
		}
		have = next
	}

	p = start(t, "last", binary, settings, "serve")
	eventually(t, 20*time.Second, "the API is ready", func() bool { return status(t, "http://"+addr+"/readyz") == 200 })
	audit := exec.Command(binary, "audit")
	audit.Env = settings
	if out, err := audit.CombinedOutput(); err != nil {
		t.Errorf("audit: %v\n%s", err, out)
	}
	p.terminate(t)
	have.judge(t, third.taken(), phases)
	total := 0
	for _, n := range look(t, path).messages {
		total += n
	}
	if moved == 0 || total == 0 {
		t.Errorf("of %d kills %d left something new, %d messages: the test shows nothing", kills(), moved, total)
	}
	t.Logf("%d kills, %d of them left something new, the oldest %v old; %d messages in the end", kills(), moved, oldest.Round(time.Millisecond), total)
}
