package ringtest

import (
	"fmt"
	"slices"
	"sort"

	"github.com/rounds-dev/rounds/circulate"
)

// census says in which places an account is under its current ticket.
type census map[string][]string

// count reads the whole shard, whatever the ring itself says of it.
func (f *fixture) count() census {
	f.Helper()
	tickets := make(map[string]string)
	pairs := f.strings("HGETALL", f.key("tickets"))
	for i := 0; i < len(pairs); i += 2 {
		tickets[pairs[i]] = pairs[i+1][:14]
	}
	c := make(census)
	for id := range tickets {
		c[id] = nil
	}
	for _, place := range []string{"schedule", "parked"} {
		for _, id := range f.strings("ZRANGE", f.key(place), 0, -1) {
			c[id] = append(c[id], place)
		}
	}
	for _, place := range []string{"message_queue", "message_queue:urgent", "message_queue:low", "processing_list"} {
		for _, text := range f.strings("LRANGE", f.key(place), 0, -1) {
			e, err := circulate.ParseEntry(text)
			if err != nil {
				continue // nobody's
			}
			if fmt.Sprintf("%014d", e.Ticket) == tickets[e.ID] {
				c[e.ID] = append(c[e.ID], place)
			}
		}
	}
	return c
}

// conserved expects every account in exactly one place under its current
// ticket, and a reason with every parked one.
func (f *fixture) conserved() {
	f.Helper()
	f.check(func(places []string) bool { return len(places) == 1 })
}

// conservedOnceClaimed is conserved but for copies of one entry in
// message_queue, as a monitor leaves that stopped half way: the next claim of
// the account makes them void.
func (f *fixture) conservedOnceClaimed() {
	f.Helper()
	f.check(func(places []string) bool {
		return len(places) > 0 && len(slices.Compact(slices.Sorted(slices.Values(places)))) == 1 &&
			(len(places) == 1 || places[0] == "message_queue")
	})
}

func (f *fixture) check(lawful func(places []string) bool) {
	f.Helper()
	var broken []string
	for id, places := range f.count() {
		if !lawful(places) {
			broken = append(broken, fmt.Sprintf("%q is in %v", id, places))
		}
		if slices.Contains(places, "parked") && f.text("HGET", f.key("park_reasons"), id) == "" {
			broken = append(broken, fmt.Sprintf("%q is parked without a reason", id))
		}
	}
	if len(broken) > 0 {
		sort.Strings(broken)
		f.Fatalf("the conservation law does not hold:\n%v", broken)
	}
}
