package message

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const reader = "reader0000"

// stream registers an account that has found messages, numbered from 0.
func stream(t *testing.T, r *world, ring *circulate.Ring, id string, n int) {
	t.Helper()
	if _, err := r.Create(context.Background(), accounts.Account{ID: id, Kind: "plain"}); err != nil {
		t.Fatal(err)
	}
	messages := make([]circulate.Message, n)
	for i := range messages {
		messages[i] = circulate.Message{ID: fmt.Sprint(i), Data: []byte(`{"n":1}`)}
	}
	find(t, ring, id, messages...)
}

// bury lets a group read all messages and handle none of them.
func bury(t *testing.T, ring *circulate.Ring, name string) {
	t.Helper()
	ctx := context.Background()
	for shard := range ring.Shards() {
		if _, err := ring.Streams().EnsureGroup(ctx, shard, name, circulate.StreamStart); err != nil {
			t.Fatal(err)
		}
		lease, _, err := group.Of(ring).Member(name, reader, time.Minute).Lease(ctx, shard)
		if err != nil || lease == nil {
			t.Fatal(lease, err)
		}
		batch, err := group.Of(ring).Read(ctx, lease, group.MaxRead, 1<<20, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range batch.Messages {
			if done, err := group.Of(ring).Bury(ctx, lease, group.Pending{Position: m.Position, Deliveries: 8}, "refused"); !done || err != nil {
				t.Fatal(done, err)
			}
		}
	}
}

func walkDead(t *testing.T, r *world, q DeadQuery) []DeadLetter {
	t.Helper()
	var all []DeadLetter
	for pages := 0; ; pages++ {
		page, err := r.Dead(context.Background(), q)
		if err != nil || len(page.Letters) > q.Limit || pages > 200 {
			t.Fatalf("%d on page %d: %v", len(page.Letters), pages, err)
		}
		all = append(all, page.Letters...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all
		}
	}
}

func TestDead(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newWorld(t, server, 4)
		for i := range 10 {
			stream(t, r, ring, fmt.Sprintf("id-%d", i), 20)
		}
		bury(t, ring, "crm")
		if _, err := ring.Streams().EnsureGroup(ctx, 0, "other", circulate.StreamEnd); err != nil {
			t.Fatal(err)
		}
		var all []DeadLetter
		for _, limit := range []int{1, 7, 1000} {
			all = walkDead(t, r, DeadQuery{Limit: limit})
			ids := make([]string, len(all))
			for i, l := range all {
				ids[i] = l.ID
				if l.Group != "crm" || l.Error != "refused" || l.Deliveries != 8 || l.Kind != "plain" || l.ID != fmt.Sprintf("%d:%s", l.Shard, l.Position) {
					t.Fatalf("%+v", l)
				}
			}
			slices.Sort(ids)
			if len(slices.Compact(ids)) != 200 {
				t.Errorf("pages of %d: %d letters", limit, len(ids))
			}
		}
		if got := walkDead(t, r, DeadQuery{Limit: 50, Group: "other"}); len(got) != 0 {
			t.Errorf("of another group: %d", len(got))
		}

		// Replay by ids. A second replay finds nothing.
		some := []string{all[0].ID, all[1].ID, all[0].ID, "3:1-1", "900:1-1"}
		done, err := r.ReplayDead(ctx, some)
		if err != nil || done != (Replayed{Replayed: 2, NotFound: 3}) {
			t.Errorf("replayed: %+v, %v", done, err)
		}
		if n, err := r.DropDead(ctx, []string{all[2].ID, all[2].ID, all[0].ID, "900:1-1"}); n != 1 || err != nil {
			t.Errorf("dropped %d, %v", n, err)
		}

		// Replay all dead letters that the group has now. Messages that die again stay dead.
		sum, cursor := 0, ""
		for calls := 0; calls < 20; calls++ {
			done, err := r.ReplayGroup(ctx, "crm", cursor)
			if err != nil {
				t.Fatal(err)
			}
			sum += done.Replayed
			if cursor = done.Next; cursor == "" {
				break
			}
			bury(t, ring, "crm")
		}
		if sum != 197 {
			t.Errorf("%d replayed, want 197", sum)
		}
		g, err := r.Group(ctx, "crm")
		if err != nil || g.Pending != 0 || g.Lag < 197 {
			t.Errorf("%+v, %v", g, err)
		}
	})
}

// A replayed message of a removed group would be lost in the stream, so its dead letter
// stays.
func TestReplayLeavesWhatHasNoGroup(t *testing.T) {
	ctx := context.Background()
	r, ring := newWorld(t, redistest.Embedded(t), 2)
	stream(t, r, ring, "a", 3)
	bury(t, ring, "crm")
	if err := r.RemoveGroup(ctx, "crm"); err != nil {
		t.Fatal(err)
	}
	done, err := r.ReplayGroup(ctx, "crm", "")
	if err != nil || done != (Replayed{NoGroup: 3}) || len(walkDead(t, r, DeadQuery{Limit: 10})) != 3 {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestDeadRefuses(t *testing.T) {
	ctx := context.Background()
	r, _ := newWorld(t, redistest.Embedded(t), 4)
	for _, from := range []string{"x", accounts.SealCursor(accounts.CursorList, []byte("x")), accounts.SealCursor(accounts.CursorDead, nil), deadPlace{shard: 4}.seal(4), deadPlace{}.seal(5), accounts.SealCursor(accounts.CursorDead, []byte{4, 0, 0, 0, 0, 0})} {
		if _, err := r.Dead(ctx, DeadQuery{Cursor: from}); !errors.Is(err, accounts.ErrCursor) {
			t.Errorf("%q: %v", from, err)
		}
		if _, err := r.ReplayGroup(ctx, "g", from); !errors.Is(err, accounts.ErrCursor) {
			t.Errorf("%q: %v", from, err)
		}
	}
	if _, err := r.Dead(ctx, DeadQuery{Limit: 1001}); err == nil {
		t.Error("too many at once")
	}
	for _, id := range []string{"", "1", "1:", "1:2", "1:2-x", "x:1-1", "-1:1-1", "01:1-1", "1:01-1", "1:1-1 ", "16384:1-1", "1:1-1-1", "1:-1-1"} {
		_, err := r.ReplayDead(ctx, []string{"0:1-1", id})
		_, err2 := r.DropDead(ctx, []string{id, "0:1-1"})
		if err == nil || !strings.Contains(err.Error(), "ids[1]") || err2 == nil || !strings.Contains(err2.Error(), "ids[0]") {
			t.Errorf("%q: %v, %v", id, err, err2)
		}
	}
	if _, err := r.DropDead(ctx, nil); err == nil {
		t.Error("none")
	}
	if _, err := r.DropDead(ctx, slices.Repeat([]string{"0:1-1"}, MaxDeadIDs+1)); err == nil {
		t.Error("too many ids")
	}
	for text, want := range map[string]string{
		`{}`:                                    "ids",
		`[]`:                                    strict.RecordField,
		`{"ids":["0:1-1",null]}`:                "ids",
		`{"ids":["0:1-1"],"group":"g"}`:         "ids",
		`{"group":"a b"}`:                       "group",
		`{"ids":["0:1-1"],"cursor":"x"}`:        "cursor",
		`{"group":7}`:                           "group",
		`{"ids":["0:1-1"],"all":true}`:          "all",
		`{"ids":["0:1-1"],"group":"g","all":1}`: "all",
	} {
		var faults strict.Faults
		if _, err := DecodeDeadChoice([]byte(text)); !errors.As(err, &faults) || faults[0].Field != want {
			t.Errorf("%s: %v, want a fault of %s", text, err, want)
		}
	}
}
