package message

import (
	"context"
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/processes"
)

// Tests of many or of large messages run without the race detector, which sees the same steps
// in the others.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(processes.Apart(m, "TestDropGroup", "TestReadGroupTogether", "TestDeliveredSaysWhereItDidNotLook", "TestTailsAreBounded"))
}

// world is a ring with accounts whose messages are read.
type world struct {
	*Reader
	*accounts.Registry
}

func newWorld(tb testing.TB, server circulate.Server, shards int) (*world, *circulate.Ring) {
	tb.Helper()
	ring, err := circulate.Open(context.Background(), server, circulate.Options{Shards: shards})
	if err != nil {
		tb.Fatal(err)
	}
	return &world{New(ring), accounts.NewRegistry(ring, anyKind{})}, ring
}

// anyKind takes every config.
type anyKind struct{}

func (anyKind) Validate(string, json.RawMessage) error { return nil }

// find lets an account find messages. It must be due.
func find(t *testing.T, ring *circulate.Ring, id string, messages ...circulate.Message) {
	t.Helper()
	shard := ring.ShardOf(id)
	batch, err := ring.Claim(context.Background(), shard, "replica001", 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range batch.Claims {
		if batch.Claims[i].ID != id {
			continue
		}
		outcomes, err := ring.Return(context.Background(), shard, []circulate.Return{{Claim: &batch.Claims[i], Kind: "plain", Messages: messages}})
		if err != nil || outcomes[0] != circulate.Written {
			t.Fatalf("return of %s: %v, %v", id, outcomes, err)
		}
		return
	}
	t.Fatalf("%s is not due", id)
}
