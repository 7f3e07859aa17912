package census

import (
	"fmt"
	"slices"
	"strings"
)

// Once is the conservation law at rest: an account is in one place.
func Once(places []string) bool { return len(places) == 1 }

// OnceInALane is Once, but allows copies of one entry in one lane of message_queue. A
// monitor that stopped half way leaves such copies, and the account's next claim makes
// them void.
func OnceInALane(places []string) bool {
	return Once(places) || len(slices.Compact(slices.Sorted(slices.Values(places)))) == 1 && queued(places[0])
}

// OnceInTheQueue is OnceInALane, but allows copies in any lanes.
func OnceInTheQueue(places []string) bool {
	return Once(places) || len(places) > 0 && !slices.ContainsFunc(places, func(place string) bool { return !queued(place) })
}

func queued(place string) bool { return strings.HasPrefix(place, "message_queue") }

// Broken returns the accounts for which the conservation law does not hold. Lawful
// decides in which places an account may be under its current ticket.
func (c *Census) Broken(lawful func(places []string) bool) []string {
	var broken []string
	for id, a := range c.Accounts {
		parked := slices.Contains(a.Places, "parked")
		switch {
		case len(a.Places) == 0:
			broken = append(broken, fmt.Sprintf("%q is in no place: lost, ticket %d", id, a.Ticket))
		case !lawful(a.Places):
			broken = append(broken, fmt.Sprintf("%q is in %v, ticket %d", id, a.Places, a.Ticket))
		case parked && a.Reason == "":
			broken = append(broken, fmt.Sprintf("%q is parked without a reason", id))
		case !parked && a.Reason != "":
			broken = append(broken, fmt.Sprintf("%q is in %v with a reason to be parked: %s", id, a.Places, a.Reason))
		case a.Record == "":
			broken = append(broken, fmt.Sprintf("%q has no record", id))
		}
	}
	slices.Sort(broken)
	return broken
}
