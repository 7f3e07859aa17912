package endtoend

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// programOf returns the whole program that a page has.
func programOf(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d whole programs, want one", page, len(found))
	}
	return found[0][1]
}

// The README's consumer is a whole program. As it stands there, but for the address of Redis, it
// enters every message of a service once, also those that come after it was killed, and after
// the number of shards has changed.
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	const address = "redis://127.0.0.1:6379"
	redis := redistest.Start(t)
	program := programOf(t, "../../README.md")
	if !strings.Contains(program, address) {
		t.Fatalf("it does not use %s", address)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(strings.ReplaceAll(program, address, redis.URL())), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, "readme", "main.go"): source}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	building := processes.Go(t.Context(), "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", filepath.Join(dir, "consumer"), "./readme")
	building.Dir = root
	if said, err := building.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}

	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Cursor int }
		_ = json.NewDecoder(r.Body).Decode(&asked) // null is none
		fmt.Fprintf(w, `{"messages":[{"id":"%d","data":{}}],"next_cursor":%d}`, asked.Cursor+1, asked.Cursor+1)
	}))
	t.Cleanup(upstream.Close)
	binary, addr := build(t), freeAddress(t)
	service := start(t, "service", binary, []string{"ROUNDS_REDIS_URL=" + redis.URL(), "ROUNDS_API_ADDR=" + addr, "ROUNDS_ALLOW_NETWORKS=127.0.0.1"}, "serve")
	eventually(t, 30*time.Second, "the service is ready", func() bool { return status(t, "http://"+addr+"/readyz") == 200 })
	for i := range 5 {
		id := fmt.Sprint("account-", i)
		if code, answer := ask(t, "PUT", "http://"+addr+"/v1/accounts/"+id, fmt.Sprintf(`{"id":%q,"kind":"http","config":{"url":%q},"cadence":"every 1s"}`, id, upstream.URL)); code != 201 {
			t.Fatalf("put: %d %s", code, answer)
		}
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "ledger.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	rows := func() (n, distinct int) {
		_ = db.QueryRowContext(t.Context(), "SELECT count(*), count(DISTINCT account || ' ' || message) FROM ledger").Scan(&n, &distinct) // no table yet: none
		return n, distinct
	}
	grows := func(after string) {
		t.Helper()
		before, _ := rows()
		eventually(t, 40*time.Second, "rows come "+after, func() bool { n, _ := rows(); return n >= before+10 })
	}
	consume := func() *process {
		return start(t, "consumer", "sh", nil, "-c", `cd "$0" && exec ./consumer`, dir)
	}
	consumer := consume()
	grows("at once")
	consumer.kill()
	consumer = consume()
	grows("after kill -9")
	if code, answer := ask(t, "POST", "http://"+addr+"/v1/reshard", `{"shards":7}`); code/100 != 2 {
		t.Fatalf("reshard: %d %s", code, answer)
	}
	grows("after another number of shards")
	// A consumer that is told to stop leaves its group, so that the next one need not wait.
	if err := consumer.Terminate(20 * time.Second); err != nil || consumer.LogCount("<nil>") > 0 {
		t.Errorf("a consumer that was told to stop: %v\n%s", err, consumer.Log())
	}
	if code, answer := ask(t, "GET", "http://"+addr+"/v1/groups", ""); code != 200 || !strings.Contains(answer, `"consumers":[]`) {
		t.Errorf("groups: %d %s", code, answer)
	}
	consume()
	grows("after a restart")
	service.terminate(t)
	if n, distinct := rows(); n != distinct {
		t.Errorf("%d rows of %d messages", n, distinct)
	}
	var gaps int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM
		(SELECT account FROM ledger GROUP BY account HAVING count(*) <> max(CAST(message AS INTEGER)))`).Scan(&gaps); err != nil || gaps > 0 {
		t.Errorf("messages of %d accounts are missing, %v", gaps, err)
	}
}
