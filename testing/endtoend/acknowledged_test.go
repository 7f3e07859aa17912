package endtoend

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/datadir"
	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
	"github.com/rounds-dev/rounds/testing/upstream/telegram"
)

// acknowledged is what a service told others it has done.
type acknowledged struct {
	mu         sync.Mutex
	registered map[string]bool // answered 201
	removed    map[string]bool // answered; false: asked for, and nobody knows
	next       int
}

// clients register accounts and remove some of them until ctx is done or nobody answers.
func (a *acknowledged) clients(ctx context.Context, base string) {
	call := func(method, id, body string) int {
		request, err := http.NewRequestWithContext(ctx, method, base+"/v1/accounts/"+id, strings.NewReader(body))
		if err != nil {
			return 0
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for ctx.Err() == nil {
				a.mu.Lock()
				a.next++
				id := fmt.Sprintf("registered-%06d", a.next)
				a.mu.Unlock()
				if call(http.MethodPut, id, `{"kind":"http","config":{"url":"http://127.0.0.1:9/"},"cadence":"every 1h"}`) != http.StatusCreated {
					return
				}
				a.mu.Lock()
				a.registered[id] = true
				a.mu.Unlock()
				if rand.IntN(3) > 0 {
					continue
				}
				a.mu.Lock()
				a.removed[id] = false
				a.mu.Unlock()
				if call(http.MethodDelete, id, "")/100 != 2 {
					return
				}
				a.mu.Lock()
				a.removed[id] = true
				a.mu.Unlock()
			}
		})
	}
	all.Wait()
}

// begun reports whether a registration and a removal were answered.
func (a *acknowledged) begun() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, answered := range a.removed {
		if answered {
			return len(a.registered) > 0
		}
	}
	return false
}

// persons are WeChat accounts. Their server gives each message once: a page whose answer was on
// its way to a process that was killed is lost, and no program can help that. What the next call
// says it has got must be there.
type persons struct {
	third  *ilinkd.Server
	tokens []string
	gone   []map[int]bool // of each: messages of pages that nobody confirmed before the kill
	there  int            // messages that were confirmed, at the last look
}

// confirmed returns up to which message a call said that it has got them.
func (p *persons) confirmed(t *testing.T, token string) int {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(p.third.Stats(token).Buf)
	if err != nil {
		t.Fatal(err)
	}
	_, number, _ := strings.Cut(string(text), "/")
	n, _ := strconv.Atoi(number) // none before the first page
	return n
}

// begun reports whether a message was confirmed.
func (p *persons) begun(t *testing.T) bool {
	return slices.ContainsFunc(p.tokens, func(token string) bool { return p.confirmed(t, token) > 0 })
}

// judge names messages that were confirmed and are not among those that were found, and notes
// those that the killed process may have taken along.
func (p *persons) judge(t *testing.T, found map[string]bool) {
	t.Helper()
	p.there = 0
	for i, token := range p.tokens {
		confirmed := p.confirmed(t, token)
		for n := 1; n <= confirmed; n++ {
			switch {
			case p.gone[i][n]:
			case !found[token+" "+ilink.MessageID("", n)]:
				t.Errorf("message %d of %s was confirmed, and is lost", n, token)
			default:
				p.there++
			}
		}
		for n := confirmed + 1; n <= p.third.Stats(token).Given; n++ {
			p.gone[i][n] = true
		}
	}
}

// judge compares a directory whose process was killed with what that process acknowledged, also
// to Telegram, which has forgotten each update that a call confirmed, and to WeChat.
func (a *acknowledged) judge(t *testing.T, path string, third *telegram.Telegram, tokens []string, wechat *persons) {
	t.Helper()
	server := connect.NewEmbedded()
	defer func() { _ = server.Close() }()
	dir, err := datadir.Open(t.Context(), server, datadir.Options{Path: path, What: "the test"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	if damaged := dir.State().Damaged; len(damaged) > 0 {
		t.Fatalf("damaged: %+v", damaged)
	}
	ring, err := circulate.Open(t.Context(), server, circulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	there, found := make(map[string]bool), make(map[string]bool)
	for shard := range ring.Shards() {
		for cursor := ""; cursor != circulate.ScanDone; {
			var all []circulate.Archived
			if all, cursor, err = ring.Archive().Accounts(t.Context(), shard, cursor, 1000); err != nil {
				t.Fatal(err)
			}
			for i := range all {
				there[all[i].ID] = true
			}
		}
		messages, err := ring.Streams().Messages(t.Context(), shard, circulate.StreamStart, 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			found[m.Account+" "+m.Message.ID] = true
		}
	}
	wechat.judge(t, found)
	for id := range a.registered {
		removed, asked := a.removed[id]
		switch {
		case !asked && !there[id]:
			t.Errorf("%s was answered 201, and is lost", id)
		case removed && there[id]:
			t.Errorf("%s was removed, and is there", id)
		}
	}
	for _, token := range tokens {
		stats := third.Stats(token)
		for n := 1; n <= stats.Posted; n++ {
			id := telegram.UpdateID("", n)
			if number, _ := strconv.ParseInt(id, 10, 64); number < stats.Offset && !found[botID(token)+" "+id] {
				t.Errorf("update %d of %s was confirmed, and is lost", n, token)
			}
		}
	}
}

// begun reports whether an update was confirmed.
func begun(third *telegram.Telegram, tokens []string) bool {
	return slices.ContainsFunc(tokens, func(token string) bool {
		stats := third.Stats(token)
		return stats.Kept < stats.Posted
	})
}

// botID returns the account of a bot.
func botID(token string) string {
	number, _, _ := strings.Cut(token, ":")
	return "bot-" + number
}

// TestKilledProcessKeepsWhatItAcknowledged kills a service that keeps everything itself, at any
// moment, under registrations, removals and messages. Whatever it answered is so afterwards,
// and so is what it confirmed to a third party that gives each message once.
func TestKilledProcessKeepsWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	binary := build(t)
	third, stop, err := telegram.Serve(telegram.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	persons := &persons{}
	if persons.third, stop, err = ilinkd.Serve(ilink.Options{}); err != nil {
		t.Fatal(err)
	}
	defer stop()
	addr := freeAddress(t)
	path := filepath.Join(t.TempDir(), "data")
	settings := []string{"ROUNDS_API_ADDR=" + addr, "ROUNDS_API_URL=http://" + addr, "ROUNDS_ALLOW_PRIVATE_ADDRESSES=true", "ROUNDS_SHARDS=3", "ROUNDS_DATA_DIR=" + path,
		"ROUNDS_DATA_SAVE_WITHIN=500ms", "ROUNDS_HEARTBEAT_INTERVAL=200ms", "ROUNDS_DEAD_AFTER=2s", "ROUNDS_SWEEP_INTERVAL=200ms"}
	var tokens []string
	records := make(map[string]string)
	for n := range 3 {
		id := fmt.Sprint("person", n)
		persons.third.AddBot(id)
		persons.tokens, persons.gone = append(persons.tokens, id), append(persons.gone, make(map[int]bool))
		settings = append(settings, fmt.Sprintf("ROUNDS_SECRET_%s=%[1]s", id))
		records[id] = fmt.Sprintf(`{"kind":"weixin","cadence":"every 0","config":{"token":{"secret":%q},"base_url":%q}}`, id, persons.third.URL())
	}
	for n := range 6 {
		token := fmt.Sprintf("%d:%s", 1000+n, strings.Repeat("A", 35))
		third.AddBot(token)
		tokens = append(tokens, token)
		settings = append(settings, fmt.Sprintf("ROUNDS_SECRET_BOT%d=%s", n, token))
		records[botID(token)] = fmt.Sprintf(`{"kind":"telegram","cadence":"every 0","config":{"token":{"secret":"BOT%d"},"base_url":%q}}`, n, third.URL())
	}
	done := &acknowledged{registered: make(map[string]bool), removed: make(map[string]bool)}
	begin := func(name string) *process {
		t.Helper()
		p := start(t, name, binary, settings, "serve")
		eventually(t, 20*time.Second, "the API is ready", func() bool { return status(t, "http://"+addr+"/readyz") == http.StatusOK })
		return p
	}
	p := begin("first")
	for id, record := range records {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+addr+"/v1/accounts/"+id, strings.NewReader(record))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil || answer.StatusCode != http.StatusCreated {
			t.Fatal(answer, err)
		}
		_ = answer.Body.Close()
	}
	for n := range kills() {
		ctx, cancel := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		busy.Go(func() { done.clients(ctx, "http://"+addr) })
		busy.Go(func() {
			for ctx.Err() == nil {
				third.PostN(tokens[rand.IntN(len(tokens))], 1+rand.IntN(5))
				persons.third.PostN(persons.tokens[rand.IntN(len(persons.tokens))], 1+rand.IntN(2))
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
		if n == 0 { // what follows shows nothing unless something was acknowledged before a kill
			eventually(t, 20*time.Second, "each side has acknowledged something", func() bool { return done.begun() && persons.begun(t) && begun(third, tokens) })
		}
		time.Sleep(time.Duration(100+rand.IntN(900)) * time.Millisecond) // the moment of the kill
		p.kill()
		cancel()
		busy.Wait()
		done.judge(t, path, third, tokens, persons)
		if t.Failed() {
			t.Fatalf("after kill %d", n+1)
		}
		p = begin(fmt.Sprint("process ", n))
	}
	p.terminate(t)
	posted, kept := 0, 0
	for _, token := range tokens {
		stats := third.Stats(token)
		posted, kept = posted+stats.Posted, kept+stats.Kept
	}
	if len(done.registered) == 0 || len(done.removed) == 0 || posted == kept || persons.there == 0 {
		t.Error("nothing was acknowledged: the test shows nothing")
	}
	t.Logf("%d kills, %d registrations and %d removals acknowledged, %d of %d updates and %d messages confirmed", kills(), len(done.registered), len(done.removed), posted-kept, posted, persons.there)
}
