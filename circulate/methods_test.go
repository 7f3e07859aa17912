package circulate_test

import (
	"reflect"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
)

// What a ring does for one purpose is on a type of its own, such as Roster and Mover,
// rather than on Ring.
func TestRingHasFewMethods(t *testing.T) {
	const most = 60
	if n := reflect.TypeFor[*circulate.Ring]().NumMethod(); n > most {
		t.Errorf("Ring has %d exported methods, at most %d", n, most)
	}
}
