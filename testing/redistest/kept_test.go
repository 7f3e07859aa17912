package redistest_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// remembered is a log in memory.
type remembered struct {
	at      []time.Time
	effects [][][]string
}

// Append implements connect.Log.
func (r *remembered) Append(at time.Time, effects [][]string) error {
	r.at, r.effects = append(r.at, at), append(r.effects, slices.Clone(effects))
	return nil
}

// Refuses implements connect.Log.
func (*remembered) Refuses() error { return nil }

// Sync implements connect.Log.
func (*remembered) Sync() error { return nil }

// A server that is filled from a log is as the one that wrote it, and as soon as the effects of
// one command are left out of the log, that is found.
func TestEachEffectIsMissed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	live, log := connect.NewEmbedded(), &remembered{}
	defer live.Close()
	if err := live.SetLog(log); err != nil {
		t.Fatal(err)
	}
	ring, err := circulate.Open(ctx, live, circulate.Options{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 6 {
		id := fmt.Sprint("account", n)
		if _, err := ring.Account(id).Register(ctx, circulate.Registration{ID: id, Record: fmt.Appendf(nil, `{"id":%q,"kind":"plain"}`, id), Due: time.UnixMilli(1)}); err != nil {
			t.Fatal(err)
		}
	}
	groups := group.Of(ring)
	for shard := range ring.Shards() {
		if _, err := ring.Streams().EnsureGroup(ctx, shard, "crm", circulate.StreamStart); err != nil {
			t.Fatal(err)
		}
		batch, err := ring.Claim(ctx, shard, "replica001", 2, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range batch.Claims {
			messages := []circulate.Message{{ID: "1", Type: "text", Time: time.Now(), Data: []byte(`{}`)}, {ID: "2", Type: "text", Time: time.Now(), Data: []byte(`{}`)}}
			if _, err := ring.Return(ctx, shard, []circulate.Return{{Claim: &batch.Claims[i], Kind: "plain", Due: time.Now().Add(time.Hour), Messages: messages}}); err != nil {
				t.Fatal(err)
			}
		}
		lease, _, err := groups.Member("crm", "consumer01", time.Minute).Lease(ctx, shard)
		if err != nil || lease == nil {
			t.Fatal(lease, err)
		}
		read, err := groups.Read(ctx, lease, 2, 1<<20, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(read.Messages) > 0 {
			if _, err := groups.Acknowledge(ctx, shard, "crm", []string{read.Messages[0].Position}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var names []string
	for _, effects := range log.effects {
		for _, effect := range effects {
			if !slices.Contains(names, effect[0]) {
				names = append(names, effect[0])
			}
		}
	}
	if len(names) < 8 {
		t.Errorf("only %q change anything", names)
	}
	redo := func(without string) (err error) {
		other := connect.NewEmbedded()
		defer func() { err = errors.Join(err, other.Close()) }()
		for i, effects := range log.effects {
			effects = slices.DeleteFunc(slices.Clone(effects), func(effect []string) bool { return effect[0] == without })
			if err := other.Redo(log.at[i], effects); err != nil {
				return err
			}
		}
		return redistest.Same(live, other)
	}
	if err := redo(""); err != nil {
		t.Errorf("the whole log: %v", err)
	}
	for _, name := range names {
		if redo(name) == nil {
			t.Errorf("nobody misses %s", name)
		}
	}
}
