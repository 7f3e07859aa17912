package accounts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
)

func TestWarningStandsBesideWhatElseIsKept(t *testing.T) {
	at := time.UnixMilli(1786000000123)
	for _, before := range []string{"", "i1500 r1@1786000000123", accounts.WithUsed("i1500", at), accounts.WithSkip(accounts.WithUsed("", at), at)} {
		for _, text := range []string{"", "malformed: broken XML at line 12", "moved: to https://ü.example/a b", strings.Repeat("ä", 300)} {
			state := accounts.WithWarning(before, text)
			got := accounts.WarningIn(state)
			if got != text && (len(text) <= accounts.MaxWarning || got == "" || !strings.HasPrefix(text, got)) {
				t.Errorf("%q with %q: got %q", before, text, got)
			}
			if accounts.SkipBefore(state) != accounts.SkipBefore(before) || accounts.UsedUntil(state) != accounts.UsedUntil(before) {
				t.Errorf("%q is not what it was: %q", before, state)
			}
			kept, err := cadence.ParseState(state)
			want, wantErr := cadence.ParseState(before)
			if kept != want || err != nil || wantErr != nil {
				t.Errorf("the cadence reads %+v, %v of %q", kept, err, state)
			}
		}
	}
	for _, state := range []string{"w", "w!", "w" + "_w", "x"} {
		if got := accounts.WarningIn(state); got != "" {
			t.Errorf("%q: got %q", state, got)
		}
	}
}
