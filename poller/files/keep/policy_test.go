package keep

import (
	"strings"
	"testing"
)

func TestParsePolicies(t *testing.T) {
	kinds := []string{"feed", "telegram"}
	got, err := ParsePolicies(" feed=demand, telegram = none,", kinds)
	if err != nil || len(got) != 2 || got["feed"] != Demand || got["telegram"] != None {
		t.Errorf("%v, %v", got, err)
	}
	_, err = ParsePolicies("feed,mail=all,telegram=all,telegram=none,feed=now", kinds)
	for _, want := range []string{`"feed": must be KIND=all`, `"mail": is none of the kinds whose messages carry files: feed, telegram`, `"telegram": is named twice`, `"feed=now": must be`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
