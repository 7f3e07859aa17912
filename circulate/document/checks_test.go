package document_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestChecksAreReportedToWhoLooks(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		checks, ctx := open(t, server).Checks(), t.Context()
		if ids, err := checks.Watched(ctx); err != nil || len(ids) != 0 {
			t.Fatalf("nobody looks: got %q, %v", ids, err)
		}
		const odd = "a}|\n"
		for n, first := range []bool{true, false} {
			if got, is, err := checks.Look(ctx, odd); err != nil || len(got) != 0 || is != first {
				t.Fatalf("look %d: got %q, %v, %v", n, got, is, err)
			}
		}
		var all [][]byte
		for n := range document.MostChecks + 5 {
			all = append(all, []byte(fmt.Sprint(n)))
		}
		for _, some := range [][][]byte{all[:3], all[3:]} {
			if err := checks.Report(ctx, map[string][][]byte{odd: some, "none": nil}); err != nil {
				t.Fatal(err)
			}
		}
		got, _, err := checks.Look(ctx, odd)
		slices.Reverse(got)
		if err != nil || len(got) != document.MostChecks || !slices.EqualFunc(got, all[5:], slices.Equal) {
			t.Errorf("got %q, %v", got, err)
		}
		for _, key := range []string{"{ns:checks}:watched", "{ns:checks}:of:" + odd} {
			if left, ok := do(t, server, "PTTL", key).(int64); !ok || left <= 0 || left > document.WatchLives.Milliseconds() {
				t.Errorf("%q ends in %v ms", key, left)
			}
		}
		if n := do(t, server, "EXISTS", "{ns:checks}:of:none"); n != int64(0) {
			t.Error("no checks have a key")
		}
		// The account that was looked at for the longest ago makes room, and a look whose time is over counts as none.
		do(t, server, "ZADD", "{ns:checks}:watched", 1, odd)
		if _, first, err := checks.Look(ctx, odd); err != nil || !first {
			t.Errorf("after the end of a look: first %v, %v", first, err)
		}
		do(t, server, "ZADD", "{ns:checks}:watched", time.Now().Add(time.Minute).UnixMilli(), odd, "9e12", "late")
		for n := range document.MostWatched {
			if _, _, err := checks.Look(ctx, fmt.Sprint(n)); err != nil {
				t.Fatal(err)
			}
		}
		if ids, err := checks.Watched(ctx); err != nil || len(ids) != document.MostWatched || !slices.Contains(ids, "99") || slices.Contains(ids, odd) {
			t.Errorf("%d accounts are watched: %q, %v", len(ids), ids, err)
		}
		if _, _, err := checks.Look(ctx, "late"); err != nil {
			t.Fatal(err)
		}
		if until := fmt.Sprintf("%s", do(t, server, "ZSCORE", "{ns:checks}:watched", "late")); strings.HasPrefix(until, "9") {
			t.Errorf("a look from before a clock went back holds until %s", until)
		}
	})
}

func TestReportsOfChecksAreBounded(t *testing.T) {
	t.Parallel()
	checks := open(t, redistest.Embedded(t)).Checks()
	for _, all := range []map[string][][]byte{nil, {"a": {{}}}, {"a": {[]byte(strings.Repeat("x", document.MaxCheck+1))}}} {
		if err := checks.Report(t.Context(), all); err == nil {
			t.Errorf("%d accounts: no error", len(all))
		}
	}
}
