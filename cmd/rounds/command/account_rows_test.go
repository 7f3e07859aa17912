package command

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// Each order begins with the accounts that its user looks for.
func TestAccountOrders(t *testing.T) {
	at := func(minutes int) time.Time {
		return time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC).Add(time.Duration(minutes) * time.Minute)
	}
	all := []api.Account{
		{ID: "d", Kind: "feed", State: api.State{Place: circulate.Scheduled, Due: at(10), LastSuccess: at(0)}},
		{ID: "a", Kind: "http", State: api.State{Place: circulate.Scheduled, Due: at(5), LastSuccess: at(-100), Failures: 3, LastError: "timeout: no answer"}},
		{ID: "c", Kind: "feed", State: api.State{Place: circulate.Waiting, NeverSucceeded: true, Failures: 12, LastError: "http_404: not there"}},
		{ID: "b", Kind: "feed", State: api.State{Place: circulate.Parked}},
	}
	for order, want := range map[string]string{"id": "abcd", "kind": "bcda", "failures": "cabd", "success": "cadb", "due": "cadb", "error": "cabd"} {
		var out strings.Builder
		env := testEnvironment(nil)
		env.stdout = &out
		rows := accountRows{env: env, json: true, bar: newProgress(env, ""), key: orders()[order]}
		for _, a := range all {
			if err := rows.add(a); err != nil {
				t.Fatal(err)
			}
		}
		if err := rows.end(len(all), false); err != nil {
			t.Fatal(err)
		}
		got := ""
		for line := range strings.Lines(out.String()) {
			got += line[len(`{"id":"`):][:1]
		}
		if got != want {
			t.Errorf("by %s: %s, want %s", order, got, want)
		}
	}
	for _, word := range orderWords() {
		if !strings.Contains(newListCommand(testEnvironment(nil)).Flag("sort").Usage, word) {
			t.Errorf("the help does not name %s", word)
		}
	}
}

// With a limit, the list has the first of all accounts in the order. No more accounts are
// held in memory than that needs.
func TestListSortsAllBeforeItsLimit(t *testing.T) {
	var out strings.Builder
	env := testEnvironment(nil)
	env.stdout = &out
	rows := accountRows{env: env, json: true, bar: newProgress(env, ""), key: orders()["failures"], most: 3}
	for i := range 1000 {
		if err := rows.add(api.Account{ID: fmt.Sprintf("%04d", i), State: api.State{Failures: i}}); err != nil {
			t.Fatal(err)
		}
		if len(rows.rows) > 2*3+pageSize {
			t.Fatalf("%d are kept", len(rows.rows))
		}
	}
	if err := rows.end(1000, false); err != nil || strings.Count(out.String(), "\n") != 3 || !strings.HasPrefix(out.String(), `{"id":"0999"`) {
		t.Errorf("%v, %s", err, out.String())
	}

	s := startAPI(t)
	for _, id := range []string{"d", "b", "a", "c"} {
		s.must("account", "add", id, "--kind", "feed", "--set", "url=u")
	}
	if got := s.must("account", "list", "--sort", "kind", "--limit", "2"); strings.Count(got, "\n") != 3 || !strings.Contains(got, "\na ") || !strings.Contains(got, "\nb ") {
		t.Errorf("got\n%s", got)
	}
	if _, err := s.rounds("account", "list", "--sort", "colour"); err == nil || !strings.Contains(err.Error(), "--sort: must be one of due, error, failures, id, kind, success") {
		t.Errorf("got %v", err)
	}
}

// An account whose checks succeed with a warning shows it where others show their error.
func TestListShowsWarnings(t *testing.T) {
	var out strings.Builder
	env := testEnvironment(nil)
	env.stdout = &out
	rows := accountRows{env: env, bar: newProgress(env, ""), key: orders()["id"]}
	if err := rows.add(api.Account{ID: "a", Kind: "http", State: api.State{Place: circulate.Waiting, Warning: "cursor_stuck: it stays"}}); err != nil {
		t.Fatal(err)
	}
	if err := rows.end(1, false); err != nil || !strings.Contains(out.String(), "warning: cursor_stuck: it stays") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
