package processes

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

// Tests run a package's tests and return the exit code, as testing.M does.
type Tests interface{ Run() int }

// raceAll is the variable of the environment that has the race detector watch all tests.
const raceAll = "ROUNDS_TEST_RACE_ALL"

// Apart returns tests of which some run apart. A binary with the race detector builds one
// without it. That one runs the tests that are named, and the binary itself all others. It is
// for tests that take long because they do much of what shorter ones do too. A name may be that
// of a subtest, as in TestRing/embedded.
//
// A binary without the race detector runs all tests itself. So does one whose user chooses
// tests, and one in an environment with ROUNDS_TEST_RACE_ALL.
func Apart(m Tests, names ...string) Tests { return apart{Tests: m, plain: names} }

// Watched is Apart with all tests but those named running apart. It is for packages whose tests ask
// one thing after another, where few are about what happens at once.
func Watched(m Tests, names ...string) Tests { return apart{Tests: m, watched: names} }

// apart has the names of those tests that run apart, or of those that do not.
type apart struct {
	Tests
	plain, watched []string
}

// Run runs the tests.
func (a apart) Run() int {
	flag.Parse()
	if !RaceDetector || os.Getenv(raceAll) != "" || chosen("run") || chosen("skip") || chosen("list") || chosen("bench") || chosen("fuzz") {
		return a.Tests.Run()
	}
	code := 0
	names, here, there := a.plain, "skip", "run"
	if len(names) == 0 {
		names, here, there = a.watched, "run", "skip"
	}
	if err := plain(there, names...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := flag.Set("test."+here, pattern(names)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return max(code, a.Tests.Run())
}

// chosen reports whether a flag of the test binary says which tests run.
func chosen(name string) bool {
	f := flag.Lookup("test." + name)
	return f != nil && f.Value.String() != ""
}

// pattern matches the tests of these names, and no others.
func pattern(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = "^" + strings.ReplaceAll(name, "/", "$/^") + "$"
	}
	return strings.Join(all, "|")
}
