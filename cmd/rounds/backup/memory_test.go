package backup

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A backup has what accounts remember, in format 3. Without any memory it has format 2,
// which earlier versions read.
func TestMemoryIsInABackup(t *testing.T) {
	server := redistest.Embedded(t)
	ring := open(t, server, "from", 4)
	remember := circulate.Remember{Messages: 8, For: time.Hour}
	// turn checks all accounts, which find a message, and counts repetitions.
	turn := func(ring *circulate.Ring, remember circulate.Remember) (repeated int) {
		t.Helper()
		for shard := range ring.Shards() {
			b, err := ring.Claim(t.Context(), shard, "replica001", 100, 0)
			must(t, err)
			for i := range b.Claims {
				items := []circulate.Return{{Claim: &b.Claims[i], Kind: "k", Messages: []circulate.Message{{ID: "1", Content: "x"}}, Remember: remember}}
				_, err := ring.Return(t.Context(), shard, items)
				must(t, err)
				repeated += items[0].Judged.Repeated
			}
		}
		return repeated
	}
	for _, id := range []string{"a", "b", "c"} {
		register(t, ring, id, nil)
	}
	turn(ring, circulate.Remember{})
	var forgetful bytes.Buffer
	if _, err := Write(t.Context(), ring, &forgetful, Options{Program: "v1"}); err != nil || !strings.Contains(forgetful.String(), `"format":2`) || strings.Contains(forgetful.String(), "known") {
		t.Fatalf("%v: %.300s", err, forgetful.String())
	}
	turn(ring, remember)
	var out bytes.Buffer
	if _, err := Write(t.Context(), ring, &out, Options{Program: "v1"}); err != nil || !strings.Contains(out.String(), `"format":3`) {
		t.Fatalf("%v: %.300s", err, out.String())
	}
	for _, shards := range []int{4, 3} {
		after := open(t, server, fmt.Sprintf("to%d", shards), shards)
		if _, err := Restore(t.Context(), after, strings.NewReader(out.String()), Restoring{}); err != nil {
			t.Fatal(err)
		}
		if n := turn(after, remember); n != 3 {
			t.Errorf("%d shards: %d repetitions, want 3", shards, n)
		}
	}
	bad := strings.Replace(out.String(), `"known_for":"`, `"known_for":"x`, 1)
	if _, err := Verify(strings.NewReader(bad), nil); err == nil {
		t.Error("a backup with a broken memory is good")
	}
}
