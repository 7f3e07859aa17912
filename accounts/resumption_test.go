package accounts

import (
	"errors"
	"testing"
	"time"
)

func TestDecodeResumption(t *testing.T) {
	for text, want := range map[string]ResumeFrom{
		"": ResumeCursor, "{}": ResumeCursor, `{"from":null}`: ResumeCursor, `{"from":"cursor"}`: ResumeCursor, `{"from":"now"}`: ResumeNow, `{"from":"backfill"}`: ResumeBackfill,
	} {
		if got, err := DecodeResumption([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for text, fields := range map[string]int{"[]": 1, "x": 1, `{"from":3}`: 1, `{"from":"then","to":"x"}`: 2, `{"from":""}`: 1} {
		var faults Faults
		if _, err := DecodeResumption([]byte(text)); !errors.As(err, &faults) || len(faults) != fields {
			t.Errorf("%s: %v", text, err)
		}
	}
	at := time.UnixMilli(1_700_000_000_123)
	for _, state := range []string{"", "i1000", "i1000 r2@5"} {
		if got := SkipBefore(WithSkip(state, at)); !got.Equal(at) {
			t.Errorf("%q: %v", state, got)
		}
		if got := SkipBefore(state); !got.IsZero() || WithSkip(state, got) != state {
			t.Errorf("%q: %v", state, got)
		}
	}
	for _, state := range []string{"s", "sx", "s-1", "s99999999999999999999", "i1 s5"} {
		if got := SkipBefore(state); !got.IsZero() {
			t.Errorf("%q: %v", state, got)
		}
	}
}
