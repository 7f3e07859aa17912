// Package panics says what a log may hold of a checker's panic.
package panics

import (
	"fmt"
	"strings"
)

// Ended is what a checker did that ended its goroutine without a panic, by runtime.Goexit.
const Ended = "the checker ended its goroutine"

// Type returns the type of a panic's value. Its text may hold a secret and is left out, unless it is
// Go's own, such as that of an index out of range.
func Type(value any) string {
	name := fmt.Sprintf("%T", value)
	if err, ok := value.(error); ok && strings.HasPrefix(strings.TrimPrefix(name, "*"), "runtime.") {
		return name + ": " + err.Error()
	}
	return name
}
