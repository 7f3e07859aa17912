package client

import (
	"errors"
	"fmt"
	"net/http"
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
