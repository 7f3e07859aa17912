package endtoend

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// applied are the messages that an effect applied, ACCOUNT/ID, in order.
type applied []string

// faults returns what was not applied exactly once, in its account's order.
func (a applied) faults(s *source) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	order := make(map[string][]string)
	for _, name := range a {
		account, id, _ := strings.Cut(name, "/")
		order[account] = append(order[account], id)
	}
	var found []string
	for account, posted := range s.posted {
		want := make([]string, posted)
		for i := range want {
			want[i] = strconv.Itoa(i + 1)
		}
		if got := order[account]; !slices.Equal(got, want) {
			found = append(found, fmt.Sprintf("%s: %d messages, applied were %v", account, posted, got))
		}
		delete(order, account)
	}
	for account := range order {
		found = append(found, account+" was never registered")
	}
	return found
}

// oracleKeys are a HASH message -> times applied, and a LIST of messages in the
// order in which they were applied.
func oracleKeys(tag, effect string) []string {
	return []string{tag + ":oracle:counts:" + effect, tag + ":oracle:order:" + effect}
}

func inRedis(t *testing.T, server *redistest.Server, ring *circulate.Ring, effect string) (all applied) {
	t.Helper()
	conn, err := server.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for shard := range ring.Shards() {
		keys := oracleKeys(ring.Tag(shard), effect)
		counts, err := redis.IntMap(conn.Do("HGETALL", keys[0]))
		if err != nil {
			t.Fatal(err)
		}
		order, err := redis.Strings(conn.Do("LRANGE", keys[1], 0, -1))
		if err != nil {
			t.Fatal(err)
		}
		for name, n := range counts {
			if n != 1 {
				t.Errorf("%s: %s was counted %d times", effect, name, n)
			}
		}
		if len(counts) != len(order) {
			t.Errorf("%s, shard %d: %d messages were counted, %d pushed", effect, shard, len(counts), len(order))
		}
		all = append(all, order...)
	}
	return all
}

func makeTable(t *testing.T, db *sql.DB, key string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE effects (seq "+key+", account TEXT NOT NULL, message TEXT NOT NULL)"); err != nil {
		t.Fatal(err)
	}
}

func inTable(t *testing.T, db *sql.DB) (all applied) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT account, message FROM effects ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var account, id string
		if err := rows.Scan(&account, &id); err != nil {
			t.Fatal(err)
		}
		all = append(all, account+"/"+id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

const signingKey = "whsec_b2xkLXNpZ25pbmcta2V5LW9mLTI0LWJ5dGVz"

// receiver is a webhook endpoint that hangs up on every eleventh call after it has
// accepted the message.
type receiver struct {
	*httptest.Server
	verifier *standardwebhooks.Webhook

	mu    sync.Mutex
	calls int
	bad   []string
	first applied                        // the first of each id, in order
	names map[string]string              // id -> message
	ids   map[string]map[string]struct{} // message -> ids
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(signingKey)
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{verifier: verifier, names: make(map[string]string), ids: make(map[string]map[string]struct{})}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// endpoints returns the receiver as webhook.Read reads it.
func (r *receiver) endpoints() string {
	return fmt.Sprintf(`{"endpoints":[{"name":%q,"url":%q,"secrets":[{"secret":"KEY"}],"ordered":true}]}`, endpointName, r.URL)
}

// ServeHTTP accepts one message.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // the sender has died
	}
	var payload struct {
		Data struct{ Account, ID string }
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if err := r.verifier.Verify(body, request.Header); err != nil {
		r.bad = append(r.bad, err.Error())
	}
	if err := json.Unmarshal(body, &payload); err != nil {
		r.bad = append(r.bad, err.Error())
	}
	id, name := request.Header.Get("webhook-id"), payload.Data.Account+"/"+payload.Data.ID
	switch known := r.names[id]; known {
	case "":
		r.names[id] = name
		r.first = append(r.first, name)
	case name:
	default:
		r.bad = append(r.bad, fmt.Sprintf("id %s is of %s and of %s", id, known, name))
	}
	if r.ids[name] == nil {
		r.ids[name] = make(map[string]struct{})
	}
	r.ids[name][id] = struct{}{}
	if r.calls%11 == 0 {
		panic(http.ErrAbortHandler)
	}
}

// taken returns the messages that arrived, each id once, and how many calls there were.
func (r *receiver) taken() (first applied, calls int, bad []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bad = slices.Clone(r.bad)
	for name, ids := range r.ids {
		if len(ids) != 1 {
			bad = append(bad, fmt.Sprintf("%s came under %d ids", name, len(ids)))
		}
	}
	return slices.Clone(r.first), r.calls, bad
}
