package datadir

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// What accounts remember is in an image and in the log, with its end.
func TestMemoryOutlivesTheProcess(t *testing.T) {
	path := t.TempDir()
	p := mustBegin(t, path)
	// turn checks the one account, which finds a message, and reports how often that was a
	// repetition.
	turn := func(id string) int {
		t.Helper()
		ring, err := circulate.Open(t.Context(), p.server, circulate.Options{Namespace: "ns", Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ring.Register(t.Context(), 0, []circulate.Registration{{ID: "a", Record: []byte("{}")}}); err != nil {
			t.Fatal(err)
		}
		b, err := ring.Claim(t.Context(), 0, "alice00000", 1, 0)
		if err != nil || len(b.Claims) != 1 {
			t.Fatalf("claimed %d, %v", len(b.Claims), err)
		}
		items := []circulate.Return{{Claim: &b.Claims[0], Kind: "k", Messages: []circulate.Message{{ID: id}}, Remember: circulate.Remember{Messages: 8, For: time.Hour}}}
		if _, err := ring.Return(t.Context(), 0, items); err != nil {
			t.Fatal(err)
		}
		return items[0].Judged.Repeated
	}
	if n := turn("1"); n != 0 {
		t.Errorf("%d repetitions of the first message", n)
	}
	p.kill()
	p = mustBegin(t, path)
	if n := turn("1"); n != 1 {
		t.Errorf("%d repetitions after the log was read", n)
	}
	turn("2")
	p.save()
	p.kill()
	p = mustBegin(t, path)
	for _, id := range []string{"1", "2"} {
		if n := turn(id); n != 1 {
			t.Errorf("%s: %d repetitions after the image was read", id, n)
		}
	}
	ms, err := p.conn.Do("PTTL", "{ns:0}:known:a")
	if left, _ := ms.(int64); err != nil || left <= time.Hour.Milliseconds() {
		t.Errorf("the memory ends in %v ms, %v", ms, err)
	}
}
