package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

func TestBulk(t *testing.T) {
	const half, whole = `{"progress":{"seen":2,"matched":2,"changed":1}}` + "\n", `{"summary":{"seen":4,"matched":4,"changed":4}}` + "\n"
	job := accounts.Bulk{Action: accounts.DeleteAll, All: true, DryRun: true}
	for name, tt := range map[string]struct {
		answer string
		seen   int // Seen in the progress that is returned
		err    string
	}{
		"whole":          {half + "\n" + whole, 4, ""},
		"without an end": {half, 2, errCutOff.Error() + " before its summary: more accounts may have been changed, run it again"},
		"nothing":        {"", 0, errCutOff.Error() + " before its summary: more accounts may have been changed, run it again"},
		"stopped":        {half + `{"error":"why","summary":{"seen":3,"unknown":1}}` + "\n", 3, "why"},
		"half a line":    {half + `{"summ`, 2, "the answer cannot be read: unexpected end of JSON input"},
	} {
		told := 0
		c := faked(t, func(w http.ResponseWriter, r *http.Request) {
			if r.RequestURI != "/v1/accounts:delete?all=true&dry_run=true" || r.Method != http.MethodPost {
				t.Errorf("%s %s", r.Method, r.RequestURI)
			}
			answer(w, http.StatusOK, "application/x-ndjson", tt.answer)
		})
		done, err := c.Bulk(t.Context(), job, func(api.BulkProgress) { told++ })
		text := ""
		if err != nil {
			text = err.Error()
		}
		if done.Seen != tt.seen || text != tt.err || (told == 1) != (tt.seen > 0) {
			t.Errorf("%s: %+v, %v, told %d times", name, done, err, told)
		}
	}
	c := faked(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, half)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	if done, err := c.Bulk(t.Context(), job, func(api.BulkProgress) {}); !errors.Is(err, errCutOff) || done.Seen != 2 {
		t.Errorf("cut: %+v, %v", done, err)
	}
}

func TestBulkKeepsTheRate(t *testing.T) {
	c := faked(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("rate"); got != "2.5" {
			t.Errorf("the rate is %q, want 2.5", got)
		}
		answer(w, http.StatusOK, "application/x-ndjson", `{"summary":{}}`+"\n")
	})
	if _, err := c.Bulk(t.Context(), accounts.Bulk{Action: accounts.NudgeAll, All: true, Rate: 2.5}, func(api.BulkProgress) {}); err != nil {
		t.Error(err)
	}
}

// A caller that asks for the trail after a change of many accounts finds the change in it: the API
// writes its trail between the last line of its answer and the end.
func TestAnswersAreReadToTheirEnd(t *testing.T) {
	for name, ask := range map[string]func(*Client) error{
		"import": func(c *Client) error {
			_, err := c.Import(t.Context(), strings.NewReader("{}"), "", func(api.BadLine) error { return nil })
			return err
		},
		"bulk": func(c *Client) error {
			_, err := c.Bulk(t.Context(), accounts.Bulk{Action: accounts.PauseAll, All: true}, func(api.BulkProgress) {})
			return err
		},
	} {
		body := &lines{rest: []string{`{"summary":{}}` + "\n", "\n"}}
		c := New("http://rounds.invalid", "")
		c.http.Transport = transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-ndjson"}}, Body: body}, nil
		})
		if err := ask(c); err != nil || !body.ended {
			t.Errorf("%s: %v, the answer was read to its end: %t", name, err, body.ended)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// lines is a body that arrives a line at a time.
type lines struct {
	rest  []string
	ended bool
}

func (l *lines) Read(p []byte) (n int, err error) {
	if len(l.rest) == 0 {
		l.ended = true
		return 0, io.EOF
	}
	n = copy(p, l.rest[0])
	l.rest = l.rest[1:]
	return n, nil
}

func (l *lines) Close() error { return nil }
