package endtoend

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/hostile"
	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// maxResident is the most memory that a process may take, whatever third parties answer.
const maxResident = 1 << 30

// TestHostileAnswersStopNobody sends every hostile answer at once, and again,
// beside accounts that are well. The poller must survive and stay within its memory. The
// other accounts must be checked and lose nothing. Once it is over, the hostile accounts
// are checked like any other.
func TestHostileAnswersStopNobody(t *testing.T) {
	t.Parallel()
	binary := build(t)
	server := redistest.Start(t, redistest.WithAOF())
	third, closeThird, err := upstream.Serve(upstream.Options{PageLimit: 50})
	if err != nil {
		t.Fatal(err)
	}
	defer closeThird()
	addr := freeAddress(t)
	settings := []string{"ROUNDS_REDIS_URL=" + server.URL(), "ROUNDS_API_ADDR=" + addr, "ROUNDS_API_URL=http://" + addr, "ROUNDS_ALLOW_PRIVATE_ADDRESSES=true"}
	all := start(t, "rounds", binary, settings, "serve", "--roles", "api,poller,monitor")
	eventually(t, 20*time.Second, "the API is ready", func() bool { return status(t, "http://"+addr+"/readyz") == 200 })

	var records bytes.Buffer
	add := func(id, kind, route, cadence string) {
		fmt.Fprintf(&records, `{"id":%q,"kind":%q,"config":{"url":%q},"cadence":%q}`+"\n", id, kind, third.URL(route, id), cadence)
	}
	var well, bad []string
	for i := range 20 {
		id := fmt.Sprintf("well-%02d", i)
		well = append(well, id)
		if i%2 == 0 {
			add(id, "http", "connector", "every 2s")
		} else {
			add(id, "feed", "feed", "every 2s")
		}
		third.Post(id)
	}
	copies := hostileCopies()
	for n, b := range hostile.Bodies() {
		if b.Route == "wecom" {
			continue // no account of that kind can be registered without its secret
		}
		fault := upstream.Fault{Body: b.Make(hostile.Size)}
		for c := range copies {
			id := fmt.Sprintf("bad-%02d-%d", n, c)
			bad = append(bad, id)
			if b.Route == "connector" {
				add(id, "http", "connector", "every 10s")
			} else {
				add(id, "feed", "feed", "every 10s")
			}
			third.Fail(id, fault)
		}
	}
	began := time.Now()
	load := exec.Command(binary, "account", "import", "-")
	load.Env, load.Stdin = settings, &records
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("import: %v\n%s", err, out)
	}
	goOn := func() {
		t.Helper()
		for _, id := range well {
			third.Post(id)
		}
		since := time.Now()
		eventually(t, time.Minute, "who is well is checked on", func() bool { return checkedSince(third, well, since) == len(well) })
	}
	goOn()
	goOn()
	eventually(t, 3*time.Minute, "every hostile account is checked", func() bool { return checkedSince(third, bad, began) == len(bad) })
	t.Logf("%d hostile answers were taken within %v, peak resident %d MiB", len(bad), time.Since(began).Round(time.Second), resident(t, all.Pid())>>20)
	goOn()
	if all.Ended() || status(t, "http://"+addr+"/healthz") != 200 {
		t.Fatal("the process has ended")
	}
	peak := resident(t, all.Pid())
	if peak > maxResident {
		t.Errorf("the process took %d MiB", peak>>20)
	}
	t.Logf("peak resident %d MiB", peak>>20)

	for _, id := range bad {
		third.Heal(id)
	}
	ring, err := circulate.Open(t.Context(), redistest.Connect(t, server), circulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command(binary, "account", "list", "--state", "parked", "--json")
	list.Env = settings
	if out, err := list.CombinedOutput(); err != nil || bytes.Contains(out, []byte("bad-")) {
		t.Errorf("parked for what they answered a few times: %v\n%.2000s", err, out)
	}
	healed := time.Now()
	eventually(t, 3*time.Minute, "who was hostile is checked as any other", func() bool { return checkedSince(third, bad, healed) == len(bad) })
	total := 0
	for _, id := range well {
		total += third.Stats(id).Posted
	}
	eventually(t, time.Minute, "as many messages found as posted", func() bool { return countOf(t, ring, "well-") >= total })
	for _, id := range well {
		if n := countOf(t, ring, id+"-"); n != third.Stats(id).Posted {
			t.Errorf("%s: %d messages of %d", id, n, third.Stats(id).Posted)
		}
	}
}

// hostileCopies is how many accounts send each answer. The variable HOSTILE_COPIES raises
// it for a trial by hand.
func hostileCopies() int {
	if n, err := strconv.Atoi(os.Getenv("HOSTILE_COPIES")); err == nil && n > 0 {
		return n
	}
	return 1
}

// resident returns the most memory that a process ever had, in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`).FindSubmatch(text)
	if match == nil {
		t.Fatalf("no VmHWM in %s", text)
	}
	n, err := strconv.ParseInt(string(match[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// countOf counts the messages whose ids have a prefix.
func countOf(t *testing.T, ring *circulate.Ring, prefix string) int {
	t.Helper()
	n := 0
	for shard := range ring.Shards() {
		for after := circulate.StreamStart; ; {
			page, err := ring.Streams().Messages(t.Context(), shard, after, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, m := range page {
				if bytes.HasPrefix([]byte(m.Message.ID), []byte(prefix)) {
					n++
				}
				after = m.Position
			}
		}
	}
	return n
}
