package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

func TestRequestsOfDelivery(t *testing.T) {
	var got []string
	c := faked(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = append(got, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
		answer(w, http.StatusOK, "application/json", "{}")
	})
	ctx := t.Context()
	_, err := c.Dead(ctx, DeadQuery{Group: "a b", Cursor: "x", Limit: 5})
	_, err2 := c.Dead(ctx, DeadQuery{})
	_, err3 := c.ReplayDead(ctx, api.ReplayRequest{Group: "g", Cursor: "x"})
	_, err4 := c.DropDead(ctx, api.DropRequest{IDs: []string{"0:1-1"}})
	_, err5 := c.Groups(ctx)
	_, err6 := c.Webhooks(ctx)
	if err = errors.Join(err, err2, err3, err4, err5, err6, c.RemoveGroup(ctx, ".."), c.EnableWebhook(ctx, "a/b")); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"GET /v1/dead?cursor=x&group=a+b&limit=5",
		"GET /v1/dead",
		`POST /v1/dead:replay {"group":"g","cursor":"x"}`,
		`POST /v1/dead:drop {"ids":["0:1-1"]}`,
		"GET /v1/groups",
		"GET /v1/webhooks",
		"DELETE /v1/groups/%2E%2E",
		"POST /v1/webhooks/a%2Fb/enable",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A read that fails is repeated unchanged. The next read acknowledges the messages of the one
// before.
func TestConsume(t *testing.T) {
	var turns []string
	c := faked(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		turns = append(turns, regexp.MustCompile(`"consumer":"[A-Z0-9]{10}"`).ReplaceAllString(string(body), `"consumer":"C"`))
		switch n := len(turns); n { // the second reply is lost
		case 2:
			panic(http.ErrAbortHandler)
		case 1, 3:
			answer(w, http.StatusOK, "application/json", fmt.Sprintf(`{"consumer":"ABCDEFGHIJ","messages":[{"handle":"%d"},{"handle":"%d!"}]}`, n, n))
		default:
			answer(w, http.StatusOK, "application/json", `{"consumer":"ABCDEFGHIJ","messages":[]}`)
		}
	})
	var read []string
	lost, enough := 0, errors.New("enough")
	err := c.Consume(t.Context(), "crm", FromNow, false, 0, func(m api.GroupMessage) error {
		if m.Handle == "3!" {
			return enough
		}
		read = append(read, m.Handle)
		return nil
	}, func(error, time.Duration) { lost++ })
	if !errors.Is(err, enough) || lost != 1 || strings.Join(read, " ") != "1 1! 3" {
		t.Errorf("read %v, lost %d, %v", read, lost, err)
	}
	want := []string{
		`{"consumer":"C","from":"now","limit":100,"wait":"10s"}`,
		`{"consumer":"C","acknowledge":["1","1!"],"limit":100,"wait":"10s"}`,
		`{"consumer":"C","acknowledge":["1","1!"],"limit":100,"wait":"10s"}`,
		`{"consumer":"C","acknowledge":["3"],"leave":true}`,
	}
	if strings.Join(turns, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(turns, "\n"), strings.Join(want, "\n"))
	}
}

func TestConsumeGivesUpWhereItNeverBegan(t *testing.T) {
	calls := 0
	c := faked(t, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		answer(w, http.StatusServiceUnavailable, "application/problem+json", `{"detail":"Redis cannot be reached"}`)
	})
	err := c.Consume(t.Context(), "crm", FromNow, false, 0, func(api.GroupMessage) error { return nil }, func(error, time.Duration) {})
	if Status(err) != http.StatusServiceUnavailable || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// A consumer that ends in the middle of a page acknowledges what it read and leaves the
// group, even if the last call must be repeated and the context is done by then.
func TestConsumeLeavesWithWhatWasRead(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	var turns []string
	c := faked(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		turns = append(turns, string(body))
		if len(turns) == 2 {
			answer(w, http.StatusServiceUnavailable, "application/problem+json", `{"detail":"Redis cannot be reached"}`)
			return
		}
		answer(w, http.StatusOK, "application/json", `{"consumer":"C","messages":[{"handle":"1"},{"handle":"2"}]}`)
	})
	err := c.Consume(ctx, "crm", FromNow, false, 0, func(api.GroupMessage) error {
		stop(stopped)
		return nil
	}, func(err error, _ time.Duration) { t.Errorf("lost: %v", err) })
	if !errors.Is(err, stopped) {
		t.Errorf("got %v", err)
	}
	const leaves = `{"consumer":"C","acknowledge":["1"],"leave":true}`
	if len(turns) != 3 || turns[1] != leaves || turns[2] != leaves {
		t.Errorf("asked %q", turns)
	}
}

func TestConsumeEndsAtItsLimit(t *testing.T) {
	var turns []string
	c := faked(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		turns = append(turns, string(body))
		answer(w, http.StatusOK, "application/json", `{"consumer":"C","messages":[{"handle":"1"}]}`)
	})
	read := 0
	err := c.Consume(t.Context(), "crm", FromStart, false, 2, func(api.GroupMessage) error { read++; return nil }, func(error, time.Duration) {})
	if err != nil || read != 2 || len(turns) != 3 {
		t.Fatalf("%d were read, %v, asked %q", read, err, turns)
	}
	for i, want := range []string{`"limit":2,`, `"limit":1,`, `"acknowledge":["1"],"leave":true`} {
		if !strings.Contains(turns[i], want) {
			t.Errorf("turn %d is %s, want %s in it", i, turns[i], want)
		}
	}
}
