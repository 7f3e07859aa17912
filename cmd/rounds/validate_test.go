package main

import (
	"strings"
	"testing"
)

func TestSettingsReportFaultsOfLimits(t *testing.T) {
	const want = `ROUNDS_LIMITS is "feed rate=2/s; mail/* rate=2/s": rule 2, "mail/* rate=2/s": kind "mail" is not known`
	if _, err := read(t, map[string]string{"ROUNDS_LIMITS": "feed rate=2/s; mail/* rate=2/s"}); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want %s", err, want)
	}
}
