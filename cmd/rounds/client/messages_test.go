package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

func TestEvents(t *testing.T) {
	for _, c := range []struct{ name, stream, want, id string }{
		{"plain", "data: a\n\n", "[a]", ""},
		{"every field", "event: message\nid: 1\nretry: 5\nunknown: x\ndata: a\n\n", "message[a]", "1"},
		{"carriage returns", "id:1\r\ndata:a\r\n\r\n", "[a]", "1"},
		{"many lines", "data: a\ndata\ndata:  b\n\n", "[a\n\n b]", ""},
		{"comments", ": hello\n\ndata: a\n: more\n\n", "[a]", ""},
		{"an id alone", "id: 7\n\n", "", "7"},
		{"an id is kept", "id: 7\ndata: a\n\ndata: b\n\n", "[a][b]", "7"},
		{"an id is cleared", "id: 7\ndata: a\n\nid\ndata: b\n\n", "[a][b]", ""},
		{"an id with a NUL", "id: 7\x00\ndata: a\n\n", "[a]", ""},
		{"a name without data", "event: x\n\ndata: a\n\n", "[a]", ""},
		{"cut in an event", "id: 1\ndata: a\n\nid: 2\ndata: b\n", "[a]", "1"},
		{"too long", "data: " + strings.Repeat("a", maxEvent) + "\n\n", "", ""},
	} {
		r := newEventReader(strings.NewReader(c.stream))
		got := ""
		e, err := r.next()
		for ; err == nil; e, err = r.next() {
			got += e.name + "[" + string(e.data) + "]"
		}
		want := io.EOF
		if c.name == "too long" {
			want = errEventSize
		}
		if got != c.want || r.id != c.id || !errors.Is(err, want) {
			t.Errorf("%s: got %q, id %q, %v", c.name, got, r.id, err)
		}
	}
}

// Any stream has a finite number of events, and no event is longer than allowed.
func FuzzEvents(f *testing.F) {
	f.Add("id: 1\nevent: message\ndata: {}\n\n: beat\n\ndata\n\n")
	f.Add("\r\n\r\nid:\x00\ndata:a\r\rdata:b\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		r := newEventReader(strings.NewReader(stream))
		for events := 0; ; events++ {
			e, err := r.next()
			if err != nil {
				return
			}
			if len(e.data) > maxEvent || events > len(stream) {
				t.Fatalf("%d bytes, event %d", len(e.data), events)
			}
		}
	})
}

func TestTailGoesOnWhereItBroke(t *testing.T) {
	var asked []string
	c := faked(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "text/event-stream" {
			t.Errorf("accepts %s", r.Header.Get("Accept"))
		}
		asked = append(asked, r.URL.RawQuery+" "+r.Header.Get("Last-Event-ID"))
		switch len(asked) {
		case 1: // cut off before the first message
			_, _ = io.WriteString(w, "retry: 1\nid: p0\n\n")
		case 2: // cut off within a message
			_, _ = io.WriteString(w, "id: p1\ndata: {\"id\":\"1\"}\n\nid: p2\ndata: {\"id\":")
		case 3, 4: // the server is not back yet
			answer(w, http.StatusServiceUnavailable, "application/problem+json", `{"detail":"Redis cannot be reached"}`)
			return
		case 5:
			_, _ = io.WriteString(w, ": beat\n\nevent: other\ndata: none of ours\n\nid: p2\ndata: {\"id\":\"2\"}\n\n")
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		panic(http.ErrAbortHandler)
	})
	enough := errors.New("enough")
	got, lost := "", 0
	err := c.Tail(t.Context(), FromNow, func(m api.Message) error {
		if got += m.ID; len(got) == 2 {
			return enough
		}
		return nil
	}, func(error, time.Duration) { lost++ })
	if !errors.Is(err, enough) || got != "12" || lost != 4 {
		t.Errorf("got %q, %v, lost %d times", got, err, lost)
	}
	if want := "after=now |after=now p0|after=now p1|after=now p1|after=now p1"; strings.Join(asked, "|") != want {
		t.Errorf("asked %q", asked)
	}
}

func TestTailGivesUp(t *testing.T) {
	for _, c := range []struct {
		name     string
		statuses []int // of the requests in their order; a reply of 200 is cut off at once
		want     int   // the status with which Tail gives up
	}{
		{"not there at first", []int{503}, 503},
		{"no token", []int{401}, 401},
		{"a cursor that is none", []int{200, 503, 429, 422}, 422},
		{"moved", []int{200, 301}, 301},
	} {
		requests := 0
		client := faked(t, func(w http.ResponseWriter, _ *http.Request) {
			requests++
			answer(w, c.statuses[min(requests, len(c.statuses))-1], "text/event-stream", "")
		})
		err := client.Tail(t.Context(), FromStart, func(api.Message) error { return nil }, func(error, time.Duration) {})
		if Status(err) != c.want || requests != len(c.statuses) {
			t.Errorf("%s: got %v after %d requests", c.name, err, requests)
		}
	}
	c := faked(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "text/event-stream", "data: nonsense\n\n")
	})
	err := c.Tail(t.Context(), FromStart, func(api.Message) error { return nil }, func(error, time.Duration) {})
	if err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("nonsense: got %v", err)
	}
}

func TestTailEndsWithItsContext(t *testing.T) {
	c := faked(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: {}\n\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	})
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := c.Tail(ctx, FromStart, func(api.Message) error {
		cancel(stopped)
		return nil
	}, func(err error, _ time.Duration) { t.Errorf("lost: %v", err) })
	if !errors.Is(err, stopped) {
		t.Errorf("got %v", err)
	}
}
