package panics_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller/internal/panics"
)

// none is a map that cannot be written, which the linter must not see.
func none() map[string]int { return nil }

// Go's own texts say what is wrong and hold no value of the program. Any other text is left out.
func TestOnlyGosOwnTextsAreShown(t *testing.T) {
	const secret = "s3cret"
	for want, f := range map[string]func(){
		"string":                        func() { panic(secret) },
		"*errors.errorString":           func() { panic(errors.New(secret)) },
		"runtime.boundsError: ":         func() { var s []string; n := len(secret); _ = s[n] },
		"*runtime.TypeAssertionError: ": func() { var v any = secret; _ = v.(int) },
		"runtime.plainError: ":          func() { none()[secret] = 1 },
	} {
		got := func() (got string) {
			defer func() { got = panics.Type(recover()) }()
			f()
			return ""
		}()
		if !strings.HasPrefix(got, want) || strings.Contains(got, secret) || len(got) == len(want) && strings.HasSuffix(want, ": ") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
