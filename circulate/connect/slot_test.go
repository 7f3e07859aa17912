package connect

import "testing"

// The slots are those that CLUSTER KEYSLOT returns.
func TestSlots(t *testing.T) {
	for key, want := range map[string]int{
		"":                         0,
		"123456789":                0x31c3, // the example of the specification
		"foo":                      12182,
		"{foo}bar":                 12182,
		"a{foo}{bar}":              12182,
		"foo{}{bar}":               8363,
		"{rounds:00}:schedule":     Slot("rounds:00"),
		"rounds:limits:{h}:leases": Slot("h"),
	} {
		if got := Slot(key); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
}

func TestSlotMapsAreRead(t *testing.T) {
	node := func(host any, port int64) []any { return []any{host, port, []byte("id"), []any{}} }
	got, err := readSlots([]any{
		[]any{int64(100), int64(16383), node(nil, 2), node([]byte("r"), 3)},
		[]any{int64(0), int64(99), node([]byte("::1"), 1)},
	}, "[2001:db8::7]:9")
	want := []slotRange{{0, 99, "[::1]:1"}, {100, 16383, "[2001:db8::7]:2"}}
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	one := func(first, last int64) []any { return []any{first, last, node([]byte("h"), 1)} }
	for name, reply := range map[string]any{
		"none":        []any{},
		"no array":    []byte("x"),
		"no ranges":   []any{int64(1)},
		"short":       []any{[]any{int64(0), int64(1)}},
		"backwards":   []any{one(5, 4)},
		"negative":    []any{one(-1, 4)},
		"too high":    []any{one(0, 16384)},
		"overlapping": []any{one(0, 5), one(5, 9)},
		"no port":     []any{[]any{int64(0), int64(1), []any{[]byte("h"), []byte("x")}}},
		"no master":   []any{[]any{int64(0), int64(1), []any{}}},
	} {
		if got, err := readSlots(reply, "h:1"); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
