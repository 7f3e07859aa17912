package ringtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/circulate"
)

// returnFromLongList returns full batches while thousands of others are in flight, so
// that the rest is put back in several pushes: exactly as much as one push takes, one
// more, and at the length from which the list is not read as a whole.
func returnFromLongList(f *fixture) {
	const full = circulate.MaxBatch
	id := func(i int) string { return fmt.Sprintf("%05d", i) }
	var claims []*circulate.Claim
	add := func(n int) {
		for n > 0 {
			ids := make([]string, min(n, full))
			for i := range ids {
				ids[i] = id(len(claims) + i)
			}
			n -= len(ids)
			f.register(ids...)
			claims = append(claims, f.claim(alice, ids...)...)
		}
	}
	held := func() []string { return f.strings("LRANGE", f.key("processing_list"), 0, -1) }
	returned := 0
	giveBack := func(n, left int) {
		f.Helper()
		var items []circulate.Return
		gone := make(map[string]bool)
		// Every other entry, as far as that goes, so that gaps are everywhere.
		for i := 0; len(items) < n; i = (i + 2) % (len(claims) | 1) {
			if c := claims[i%len(claims)]; c != nil {
				items = append(items, circulate.Return{Claim: c, Due: soon(c)})
				gone[c.ID] = true
				claims[i%len(claims)] = nil
			}
		}
		want := slices.DeleteFunc(held(), func(text string) bool { return gone[text[strings.LastIndexByte(text, '|')+1:]] })
		if len(want) != left {
			f.Fatalf("the test has %d in flight behind the return, and means %d", len(want), left)
		}
		outcomes, err := f.ring.Return(context.Background(), 0, items)
		if err != nil || slices.Contains(outcomes, circulate.Fenced) {
			f.Fatalf("of %d with %d left: %v, %v", n, left, outcomes, err)
		}
		returned += n
		if got := held(); !slices.Equal(got, want) {
			f.Fatalf("%d were returned: of the other %d processing_list has %d, and not the same in the same order", n, left, len(got))
		}
	}
	add(6 * full)
	giveBack(full, 5000)
	giveBack(full, 4000)
	add(1001)
	giveBack(full, 4001)
	giveBack(8, 3993) // one by one: the list is too long for so few
	f.conserved()
	if n := f.number("ZCARD", f.key("schedule")); n != returned {
		f.Errorf("%d are scheduled, and %d were returned", n, returned)
	}
}
