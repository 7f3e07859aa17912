package accounts_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
)

// The tightest of the known bounds decides how many more accounts fit.
func TestCapacity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		load accounts.Load
		want string
	}{
		"nothing is known":    {accounts.Load{}, ""},
		"nothing is used":     {accounts.Load{MemoryLimit: 100, MemoryMark: 85, Places: 10, HeldPlaces: 10}, ""},
		"memory to the mark":  {accounts.Load{Memory: 50, MemoryLimit: 100, MemoryMark: 85}, "memory 0.70"},
		"no limit of memory":  {accounts.Load{Memory: 50, MemoryMark: 85, InFlight: 1, Places: 2}, "places 0.60"},
		"above the mark":      {accounts.Load{Memory: 90, MemoryLimit: 100, MemoryMark: 85, InFlight: 4, Places: 10}, "memory 0.00, places 1.00"},
		"places":              {accounts.Load{Memory: 10, MemoryLimit: 100, MemoryMark: 85, InFlight: 128, Places: 256}, "places 0.60, memory 7.50"},
		"more than is said":   {accounts.Load{InFlight: 1, Places: 256}, "places 10.00"},
		"accounts are late":   {accounts.Load{InFlight: 1, Places: 256, Late: true, Held: 5, HeldPlaces: 20}, "places 0.00, held 3.00"},
		"held":                {accounts.Load{InFlight: 1, Places: 10, Held: 500, HeldPlaces: 600}, "held 0.20, places 7.00"},
		"the budget":          {accounts.Load{InFlight: 1, Places: 10, Spent: 80, Budget: 100}, "budget 0.25, places 7.00"},
		"the budget, at once": {accounts.Load{Spent: 120, Budget: 100}, "budget 0.00"},
	} {
		var got []string
		if of := accounts.CapacityOf(c.load); of != nil {
			for _, b := range of.Bounds {
				got = append(got, fmt.Sprintf("%s %.2f", b.Bound, b.Room))
			}
			if of.Bound != of.Bounds[0].Bound || of.Room != of.Bounds[0].Room {
				t.Errorf("%s: %s, of which %s %v is said to be the first", name, got, of.Bound, of.Room)
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}
