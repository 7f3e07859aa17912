package circulate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// The records that a replica caches are bounded by their bytes: four thousand records of
// 60 KB would be within any reasonable number.
func TestRecordsAreBoundedByBytes(t *testing.T) {
	const count, size, most = 64, 60_000, 1 << 20
	ring, err := circulate.Open(context.Background(), redistest.Embedded(t), circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	var items []circulate.Registration
	var batch circulate.Batch
	for i := range count {
		id := fmt.Sprint(i)
		items = append(items, circulate.Registration{ID: id, Record: []byte(id + strings.Repeat(" ", size))})
		batch.Claims = append(batch.Claims, circulate.Claim{ID: id})
	}
	if _, err := ring.Register(context.Background(), 0, items); err != nil {
		t.Fatal(err)
	}
	decoded := 0
	decode := func(_ string, text []byte) string { decoded++; return strings.TrimSpace(string(text)) }
	resolve := func(records *circulate.Records[string], b circulate.Batch) {
		t.Helper()
		got, err := records.Resolve(context.Background(), 0, &b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i] != b.Claims[i].ID {
				t.Fatalf("%s is %q", b.Claims[i].ID, got[i])
			}
		}
	}

	records := circulate.NewRecords(ring, 1000, most, time.Hour, decode)
	resolve(records, batch)
	if b := records.Bytes(); b > most || b < most-size-100 {
		t.Errorf("%d bytes are kept, of at most %d", b, most)
	}
	decoded = 0
	resolve(records, batch)
	if want := count - most/size; decoded != want {
		t.Errorf("%d were read again, want %d", decoded, want)
	}
	changed := batch
	for i := range count {
		changed.Changed = append(changed.Changed, fmt.Sprint(i))
	}
	changed.Claims = nil
	resolve(records, changed)
	if b := records.Bytes(); b != 0 {
		t.Errorf("%d bytes are kept of what changed", b)
	}
	resolve(records, batch)
	resolve(records, circulate.Batch{ForgetAll: true})
	if b := records.Bytes(); b != 0 {
		t.Errorf("%d bytes are kept of what is forgotten", b)
	}

	// Records cached for too long make room for others.
	short := circulate.NewRecords(ring, 1000, most, time.Nanosecond, decode)
	resolve(short, circulate.Batch{Claims: batch.Claims[:most/size]})
	resolve(short, circulate.Batch{Claims: batch.Claims[most/size:]})
	if b := short.Bytes(); b > most || b == 0 {
		t.Errorf("%d bytes are kept", b)
	}
}
