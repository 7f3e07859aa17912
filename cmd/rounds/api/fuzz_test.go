package api

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/message"
)

// The parameters and headers that routes parse themselves are accepted in their valid forms,
// or refused with a fault for each.
func FuzzParameters(f *testing.F) {
	f.Add(`"a", W/"b"`, "limit=5&after=start&all=true&dry_run=1")
	f.Add("*", "limit=1001&limit=2&after=a;b")
	f.Add(`"a""b",`, "kind=%ff&%zz&from=x&from=now")
	f.Fuzz(func(t *testing.T, header, query string) {
		if m, err := (IfMatch{header}).match(); err != nil && (m.Any || m.Tags != nil) {
			t.Errorf("%q is refused, and matches %+v", header, m)
		} else if err == nil && strings.TrimSpace(header) != "" && !m.Any && m.Tags == nil {
			t.Errorf("%q is passed over", header)
		}
		r := httptest.NewRequest("POST", "http://localhost/", nil)
		r.URL.RawQuery = query
		if q := readQuery(r, true, "all", "dry_run"); len(q.faults) == 0 {
			for name := range q.values {
				if name != "all" && name != "dry_run" {
					t.Errorf("%q: there is %q", query, name)
				}
			}
		} else if p := badQuery(q.faults); len(p.Errors) == 0 || p.Status != 422 {
			t.Errorf("%q: %+v", query, p)
		}
		if o, err := readImport(r); err == nil && o.from.Validate() != nil {
			t.Errorf("%q: %+v", query, o)
		}
		if values, err := url.ParseQuery(query); err == nil {
			if q, faults := readMessagesQuery(values, false); len(faults) == 0 && (q.limit < 1 || q.limit > message.MaxLimit || q.after != "" && q.before != "") {
				t.Errorf("%q: %+v", query, q)
			}
		}
		withSlash(r)
		selection(r)
	})
}
