package message

import (
	"math"
	"testing"
	"time"
)

func TestTime(t *testing.T) {
	for ms, want := range map[int64]string{
		1: "1970-01-01T00:00:00.001Z", 1_795_000_000_500: "2026-11-18T11:06:40.5Z", lastMS: "9999-12-31T23:59:59.999Z",
		0: "0001-01-01T00:00:00Z", -1: "0001-01-01T00:00:00Z", lastMS + 1: "0001-01-01T00:00:00Z", math.MaxInt64: "0001-01-01T00:00:00Z",
	} {
		if got := Time(ms).Format(time.RFC3339Nano); got != want {
			t.Errorf("%d: got %s, want %s", ms, got, want)
		}
	}
	for seconds, want := range map[int64]string{
		1: "1970-01-01T00:00:01Z", 253402300799: "9999-12-31T23:59:59Z",
		0: "0001-01-01T00:00:00Z", math.MinInt64: "0001-01-01T00:00:00Z", 253402300800: "0001-01-01T00:00:00Z", math.MaxInt64: "0001-01-01T00:00:00Z",
	} {
		if got := TimeOfSeconds(seconds).Format(time.RFC3339Nano); got != want {
			t.Errorf("%d s: got %s, want %s", seconds, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc", "ab你": "ab", "你好": "你", "\x80\x80\x80\x80": ""} {
		if got := Cut(text, 3); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestLimitAndID(t *testing.T) {
	for wanted, want := range map[int]int{-1: 100, 0: 100, 1: 1, 100: 100, 101: 100} {
		if got := Limit(wanted, 100); got != want {
			t.Errorf("%d: got %d", wanted, got)
		}
	}
	if got := ID([]byte("abc")); got != "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("got %s", got)
	}
}
