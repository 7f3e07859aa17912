package poller

import (
	"testing"

	"github.com/rounds-dev/rounds/circulate/limit"
)

// Changed limits apply to checks that start afterwards. Checks under way end under the limits
// with which they began.
func TestLimitsChange(t *testing.T) {
	parse := func(text string) Limits {
		t.Helper()
		limits, err := ParseLimits(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		return limits
	}
	l := &limiter{}
	l.set(parse("http rate=1/s"))
	r := &record{checker: careful{}, rateKey: "example.com"}
	r.account.Kind = "http"
	before := l.limitsOf(r)
	if before[1] == nil || before[0] != nil || l.limitsOf(r) != before {
		t.Fatalf("%+v", before)
	}
	l.set(parse("http/* concurrency=2"))
	after := l.limitsOf(r)
	if after[1] != nil || after[0] == nil || after[0].Concurrency != 2 || before[1] == (*limit.Limit)(nil) {
		t.Errorf("%+v", after)
	}
	l.set(parse(""))
	if got := l.limitsOf(r); got != (limitsOfCheck{}) {
		t.Errorf("without limits: %+v", got)
	}
	if got := l.limitsOf(&record{}); got != (limitsOfCheck{}) {
		t.Errorf("of a record without a checker: %+v", got)
	}
}
