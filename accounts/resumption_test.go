package accounts

import (
	"errors"
	"testing"
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
}
