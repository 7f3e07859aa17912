package backup

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A backup has events, and which groups ask for them.
func TestEventsAreInABackup(t *testing.T) {
	server := redistest.Embedded(t)
	ring := open(t, server, "from", 4)
	register(t, ring, "a", nil)
	for _, name := range []string{"crm", "plain"} {
		_, err := group.Of(ring).Ensure(t.Context(), name, func(int) string { return circulate.StreamStart })
		must(t, err)
	}
	must(t, group.Of(ring).TellEvents(t.Context(), "crm", true))
	const data = `{"id":"S","account":"a","state":"accepted"}`
	must(t, ring.Archive().LoadMessages(t.Context(), ring.ShardOf("a"), []circulate.Found{
		{Position: "5-1", Account: "a", Kind: "k", Message: circulate.Message{ID: "1", Data: []byte(`{}`)}},
		{Position: "5-2", Account: "a", Kind: "k", Message: circulate.Message{ID: "S.accepted.5", Type: "send.accepted", Data: []byte(data)}, Only: "crm", Event: true},
	}))
	var out bytes.Buffer
	if _, err := Write(t.Context(), ring, &out, Options{Program: "v1"}); err != nil {
		t.Fatal(err)
	}
	for _, shards := range []int{4, 3} {
		after := open(t, server, fmt.Sprintf("to%d", shards), shards)
		if _, err := Restore(t.Context(), after, strings.NewReader(out.String()), Restoring{}); err != nil {
			t.Fatal(err)
		}
		for shard := range shards {
			if told, err := after.Streams().Told(t.Context(), shard); err != nil || !slices.Equal(told, []string{"crm"}) {
				t.Errorf("%d shards: %q ask for events in shard %d, %v", shards, told, shard, err)
			}
		}
		found, err := after.Streams().Messages(t.Context(), after.ShardOf("a"), circulate.StreamStart, 10)
		if err != nil || len(found) != 2 || found[0].Event || !found[1].Event || found[1].Only != "crm" {
			t.Fatalf("%d shards: %+v, %v", shards, found, err)
		}
		if e, err := found[1].SendEvent(); err != nil || e.ID != "S" || e.State != "accepted" {
			t.Errorf("%d shards: %+v, %v", shards, e, err)
		}
	}
}
