package circulate

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestHistoryIsReadAsItIsKept(t *testing.T) {
	for text, want := range map[string]struct {
		marks string
		never bool
	}{
		"65000000--------": {"", false}, // not yet checked
		"65000000tt------": {"tt", true},
		"65000000ttttttt-": {"ttttttt", true},
		"65000000tttttttt": {"tttttttt", false}, // one of eight: the mark that succeeded is beyond them
		"65000000t+------": {"t+", false},
		"65000000+-------": {"+", false},
		"too short":        {"", false},
	} {
		h := readHistory(text)
		marks := ""
		for _, mark := range h.Marks {
			marks += string(rune(mark))
		}
		if marks != want.marks || h.NeverSucceeded() != want.never {
			t.Errorf("%q: marks %q, never succeeded %t", text, marks, h.NeverSucceeded())
		}
		if len(text) == historyWidth && !h.Succeeded.Equal(time.Unix(0x65000000, 0)) {
			t.Errorf("%q: succeeded at %v", text, h.Succeeded)
		}
	}
}

func TestErrorsAreCutBetweenCharacters(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("a", MaxError), strings.Repeat("a", MaxError-1) + "客客", strings.Repeat("客", MaxError)} {
		got := clip(text)
		kept, cut := strings.CutSuffix(got, "…")
		if cut != (len(text) > MaxError) || len(got) > MaxError || cut && len(got) < MaxError-2 || !utf8.ValidString(got) || !strings.HasPrefix(text, kept) {
			t.Errorf("%d bytes became %q", len(text), got)
		}
	}
}

// Quantiles are at most nine hundredths too high, never too low, and a sum is like them.
func TestAgesOfManyAccounts(t *testing.T) {
	var all Ages
	if all.Quantile(0.99) != 0 || all.Sum() != 0 {
		t.Errorf("of no account: %v, %v", all.Quantile(0.99), all.Sum())
	}
	bucket := func(age time.Duration) int {
		b := 0
		for bucketEnd(b) < age {
			b++
		}
		return b
	}
	exact := 0.0
	for second := 1; second <= 1000; second++ {
		age := time.Duration(second) * time.Second
		page := Ages{Now: time.Unix(int64(second), 0), Scanned: 1, Max: age, Stalest: age.String()}
		b := bucket(age)
		page.buckets[b]++
		if begin := bucketBegin(b); begin > age {
			t.Fatalf("the bucket of %v begins at %v", age, begin)
		}
		all.Add(page)
		exact += age.Seconds()
	}
	all.Add(Ages{Now: time.Unix(3, 0), Parked: 7})
	if all.Scanned != 1000 || all.Parked != 7 || all.Max != 1000*time.Second || all.Stalest != "16m40s" || all.Now != time.Unix(1000, 0) {
		t.Errorf("%d scanned, %d parked, at most %v (%s), at %v", all.Scanned, all.Parked, all.Max, all.Stalest, all.Now)
	}
	for _, share := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
		want := time.Duration(share*1000) * time.Second
		if got := all.Quantile(share); got < want || got > want*109/100+time.Second {
			t.Errorf("quantile %v is %v, want about %v", share, got, want)
		}
	}
	if got := all.Sum(); got < exact || got > 1.09*exact {
		t.Errorf("sum %v, want about %v", got, exact)
	}
}
