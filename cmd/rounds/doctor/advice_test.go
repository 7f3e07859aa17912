package doctor

import (
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/concern"
)

// Of several groups that nobody reads, no single one is named as the one to remove.
func TestAdviceForSeveralGroups(t *testing.T) {
	one := concern.Concern{Code: concern.GroupLagging, Subject: "audit", Value: concern.NoConsumer}
	several := one
	several.Count = 2
	if got := adviceOn(&one).do; !strings.Contains(got, "rounds groups rm audit") {
		t.Error(got)
	}
	if got := adviceOn(&several).do; strings.Contains(got, "audit") || !strings.Contains(got, "rounds groups list") {
		t.Error(got)
	}
}
