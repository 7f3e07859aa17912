package message

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestMessages(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newWorld(t, server, 4)
		want := 0
		for i := range 10 {
			id := fmt.Sprint("id-", i)
			if _, err := r.Create(ctx, accounts.Account{ID: id, Kind: "plain", Cadence: "every 0"}); err != nil {
				t.Fatal(err)
			}
			var found []circulate.Message
			for j := range 30 + i {
				found = append(found, circulate.Message{ID: fmt.Sprint(j), Time: time.UnixMilli(int64(j))})
			}
			find(t, ring, id, found...)
			if _, err := r.Pause(ctx, id); err != nil {
				t.Fatal(err)
			}
			want += len(found)
		}
		for _, limit := range []int{1, 7, 100, 1000} {
			p, err := r.Position(ctx, FromStart)
			if err != nil {
				t.Fatal(err)
			}
			next := make(map[string]int)
			var before circulate.StreamID
			total := 0
			for {
				found, err := r.Messages(ctx, p, limit)
				if err != nil || len(found) > limit {
					t.Fatalf("%d messages, limit %d: %v", len(found), limit, err)
				}
				if len(found) == 0 {
					break
				}
				for i := range found {
					f := &found[i]
					if f.Message.ID != fmt.Sprint(next[f.Account]) {
						t.Fatalf("%s: %s after %d", f.Account, f.Message.ID, next[f.Account]-1)
					}
					next[f.Account]++
					total++
					at, err := circulate.ParseStreamID(f.Position)
					if err != nil || at.Ms < before.Ms {
						t.Fatalf("position %s after %s, %v", at, before, err)
					}
					before = at
					if err := p.Pass(f); err != nil {
						t.Fatal(err)
					}
				}
				// A position that is read from its text continues at the same place.
				if p, err = r.Position(ctx, p.String()); err != nil {
					t.Fatal(err)
				}
			}
			if total != want {
				t.Errorf("limit %d: %d of %d messages", limit, total, want)
			}
		}

		now, err := r.Position(ctx, FromNow)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := r.Messages(ctx, now, 10); err != nil || len(found) != 0 {
			t.Fatalf("from now: %d messages, %v", len(found), err)
		}
		if _, err := r.Resume(ctx, "id-3"); err != nil {
			t.Fatal(err)
		}
		find(t, ring, "id-3", circulate.Message{ID: "new"})
		if found, err := r.Messages(ctx, now, 10); err != nil || len(found) != 1 || found[0].Message.ID != "new" {
			t.Fatalf("after now: %+v, %v", found, err)
		}
	})
}

func TestPositionOfAnotherRing(t *testing.T) {
	r, _ := newWorld(t, redistest.Embedded(t), 4)
	other := Position{at: make([]circulate.StreamID, 5)}
	list := accounts.SealCursor(accounts.CursorList, []byte{4, 0})
	sealed := other.String()
	for _, text := range []string{sealed, sealed[1:], sealed[:len(sealed)-1], sealed + "\n", list, "0-0", "START"} {
		if _, err := r.Position(context.Background(), text); !errors.Is(err, accounts.ErrCursor) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPositionText(t *testing.T) {
	p := Position{at: make([]circulate.StreamID, 64)}
	for i := range p.at {
		if i%3 > 0 {
			p.at[i] = circulate.StreamID{Ms: uint64(1_700_000_000_000 + i*3_600_000), Seq: uint64(i)}
		}
	}
	p.at[5] = circulate.StreamID{Seq: 1}
	p.at[6] = circulate.StreamID{Ms: math.MaxInt64, Seq: math.MaxInt64}
	text := p.String()
	q, err := parsePosition(text)
	if err != nil || q.String() != text {
		t.Fatalf("%q, %v", text, err)
	}
	for i := range p.at {
		if p.at[i] != q.at[i] {
			t.Errorf("shard %d: %v became %v", i, p.at[i], q.at[i])
		}
	}
	if _, err := circulate.ParseStreamID("1-x"); err == nil {
		t.Error("1-x was accepted as a place in a stream")
	}
}

// String returns exactly the texts that parsePosition accepts, for arbitrary texts and for
// contents with a valid checksum.
func FuzzParsePosition(f *testing.F) {
	p := Position{at: []circulate.StreamID{{Ms: 1, Seq: 2}, {}, {Ms: 1_700_000_000_000}}}
	f.Add(p.String(), []byte{3, 5, 1, 0, 0})
	f.Add("AAAA", []byte{1, 0, 0})
	f.Fuzz(func(t *testing.T, text string, content []byte) {
		for _, text := range []string{text, accounts.SealCursor(accounts.CursorPosition, content)} {
			p, err := parsePosition(text)
			if err == nil && p.String() != text {
				t.Fatalf("%q became %q", text, p.String())
			}
			if err != nil && !errors.Is(err, accounts.ErrCursor) {
				t.Fatal(err)
			}
			for _, m := range p.at {
				if again, err := circulate.ParseStreamID(m.String()); err != nil || again != m {
					t.Fatalf("%v is no place in a stream: %v", m, err)
				}
			}
		}
	})
}
