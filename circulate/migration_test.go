package circulate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const (
	shards = 3
	each   = 40 // accounts
	batch  = 7
)

// markLua is the step of these tests: it adds a mark to each record that has none, a batch
// after a cursor at a time. KEYS[1] is a shard's accounts. It returns the next cursor.
var markLua = wire.NewScript("mark", `
local found = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
for i = 1, #found[2], 2 do
  if not string.find(found[2][i + 1], '"mark":1', 1, true) then
    redis.call('HSET', KEYS[1], found[2][i], string.sub(found[2][i + 1], 1, -2) .. ',"mark":1}')
    redis.call('HINCRBY', KEYS[2], found[2][i], 1)
  end
end
return found[1]`)

// place is a Redis with a namespace of its own, and what the test's step has done in it.
type place struct {
	*testing.T
	server redistest.Redis
	name   string
}

func (p place) open(eras int) (*circulate.Ring, error) {
	return circulate.Open(p.Context(), p.server, circulate.Options{Namespace: p.name, Shards: shards, Eras: eras})
}

func (p place) mustOpen(eras int) *circulate.Ring {
	p.Helper()
	ring, err := p.open(eras)
	if err != nil {
		p.Fatal(err)
	}
	return ring
}

// key returns the name of what a shard keeps.
func (p place) key(shard int, what string) string {
	return fmt.Sprintf("{%s:%d}:%s", p.name, shard, what)
}

// step is the test's step. Each call asks cut, before and after the change: an error of it
// stops the migrator there, as a crash or a cut connection would.
func (p place) step(cut func() error) circulate.Step {
	return circulate.Step{Name: "mark", Needs: "v7.1.0", Move: func(ctx context.Context, ring *circulate.Ring, shard int, cursor string) (string, error) {
		if err := cut(); err != nil {
			return "", err
		}
		if cursor == "" {
			cursor = "0"
		}
		next, err := redis.String(ring.Wire(wire.Insider{}).Eval(ctx, markLua, []string{p.key(shard, "accounts"), p.key(shard, "marked")}, []any{cursor, batch}))
		if err != nil {
			return "", err
		}
		if next == "0" {
			next = ""
		}
		return next, cut()
	}}
}

func (p place) register(ring *circulate.Ring) {
	p.Helper()
	for i := range shards * each {
		id := fmt.Sprintf("a%d", i)
		if _, err := ring.Register(p.Context(), ring.ShardOf(id), []circulate.Registration{{ID: id, Record: []byte(`{"id":"` + id + `","kind":"k"}`)}}); err != nil {
			p.Fatal(err)
		}
	}
}

// expectMarked expects that each account was converted, and once.
func (p place) expectMarked(ring *circulate.Ring) {
	p.Helper()
	found := 0
	for shard := range shards {
		replies, err := ring.Wire(wire.Insider{}).Pipeline(p.Context(), p.key(shard, "accounts"), wire.Command{"HGETALL", p.key(shard, "accounts")}, wire.Command{"HGETALL", p.key(shard, "marked")})
		if err != nil {
			p.Fatal(err)
		}
		records, err := redis.StringMap(replies[0], nil)
		if err != nil {
			p.Fatal(err)
		}
		times, err := redis.IntMap(replies[1], nil)
		if err != nil {
			p.Fatal(err)
		}
		for id, record := range records {
			if found++; strings.Count(record, `"mark":1`) != 1 || times[id] != 1 {
				p.Errorf("%s was converted %d times: %s", id, times[id], record)
			}
		}
	}
	if found != shards*each {
		p.Errorf("%d accounts", found)
	}
}

// finish takes turns until nothing is left to do.
func (p place) finish(m *circulate.Migrator) {
	p.Helper()
	for range 1000 {
		state, err := m.Turn(p.Context())
		if err != nil {
			p.Fatal(err)
		}
		if state.Over {
			return
		}
	}
	p.Fatal("the migration does not end")
}

func onBoth(t *testing.T, fn func(p place)) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) { fn(place{t, server, "moved"}) })
}

// A migration goes on while programs of the version before check accounts. A program that
// does not read the new form is refused from its beginning, and names the version it needs.
func TestMigration(t *testing.T) {
	onBoth(t, func(p place) {
		older, between, newer := p.mustOpen(0), p.mustOpen(1), p.mustOpen(1)
		p.register(older)
		never := func() error { return nil }
		m := newer.Migrator([]circulate.Step{p.step(never)})
		if _, err := m.Turn(p.Context()); err != nil {
			p.Fatal(err)
		}
		_, err := p.open(0)
		if want := `namespace "` + p.name + `" has format 4, which needs version v7.1.0 or a newer one of rounds; this program reads formats 2 to 3`; !errors.Is(err, circulate.ErrMismatch) || !strings.Contains(err.Error(), want) {
			p.Errorf("an older program opens it: %v", err)
		}
		if err := older.Check(p.Context()); !errors.Is(err, circulate.ErrMismatch) {
			p.Errorf("a running older program is ready: %v", err)
		}
		if err := between.Check(p.Context()); err != nil {
			p.Errorf("one that reads the new form is not: %v", err)
		}
		if _, err := newer.Mover().Begin(p.Context(), shards+1); !errors.Is(err, circulate.ErrReshardingOther) {
			p.Errorf("resharding begins meanwhile: %v", err)
		}
		for shard := range shards { // accounts circulate meanwhile
			claim, err := between.Claim(p.Context(), shard, circulate.NewReplica(), 10, 0)
			if err != nil || len(claim.Claims) == 0 {
				p.Fatalf("claimed %d: %v", len(claim.Claims), err)
			}
			var held []*circulate.Claim
			for i := range claim.Claims {
				held = append(held, &claim.Claims[i])
			}
			if _, err := between.Release(p.Context(), shard, held); err != nil {
				p.Fatal(err)
			}
		}
		p.finish(m)
		p.expectMarked(newer)
		p.finish(m) // there is nothing to do
		p.expectMarked(newer)
		era, name, _, err := newer.Migration().State(p.Context())
		if err != nil || era != 1 || name != "" {
			p.Errorf("era %d, %q, %v", era, name, err)
		}
		if _, err := newer.Mover().Begin(p.Context(), shards+1); err != nil {
			p.Errorf("resharding is refused afterwards: %v", err)
		}
		if era, _, resharding, err := newer.Migration().State(p.Context()); era != 1 || !resharding || err != nil {
			p.Errorf("resharding loses the format: era %d, %v, %v", era, resharding, err)
		}
		if _, err := p.open(0); !errors.Is(err, circulate.ErrMismatch) || !strings.Contains(err.Error(), "format 5, which needs version v7.1.0") {
			p.Errorf("while it is resharded an older program says %v", err)
		}
	})
}

// A migrator is stopped before and after each of its moves, and another one goes on: each
// account is converted once.
func TestMigrationIsInterrupted(t *testing.T) {
	onBoth(t, func(p place) {
		ring := p.mustOpen(1)
		p.register(ring)
		stops, crash := 0, errors.New("the connection was cut")
		for at := 0; ; at++ {
			calls := 0
			m := ring.Migrator([]circulate.Step{p.step(func() error {
				if calls++; calls == 1+at%4 { // anywhere in its first moves
					return crash
				}
				return nil
			})})
			var state circulate.State
			var err error
			for err == nil && !state.Over {
				state, err = m.Turn(p.Context())
			}
			if state.Over {
				break
			}
			if !errors.Is(err, crash) {
				p.Fatal(err)
			}
			if stops++; stops > 1000 {
				p.Fatal("it makes no progress")
			}
		}
		if stops < 4 {
			p.Errorf("it was only stopped %d times", stops)
		}
		p.expectMarked(ring)
	})
}

// Many migrators work at once, and one is late by a whole migration.
func TestMigratorsAtOnce(t *testing.T) {
	onBoth(t, func(p place) {
		ring := p.mustOpen(1)
		p.register(ring)
		late := p.mustOpen(1).Migrator([]circulate.Step{p.step(func() error { return nil })})
		if _, err := late.Turn(p.Context()); err != nil {
			p.Fatal(err)
		}
		var all sync.WaitGroup
		for range 4 {
			m := p.mustOpen(1).Migrator([]circulate.Step{p.step(func() error { return nil })})
			all.Go(func() {
				for range 1000 {
					if state, err := m.Turn(p.Context()); err != nil || state.Over {
						if err != nil {
							p.Error(err)
						}
						return
					}
				}
				p.Error("the migration does not end")
			})
		}
		all.Wait()
		p.expectMarked(ring)
		p.finish(late)
		step := p.step(func() error { return nil })
		for shard := range shards { // a move that comes too late
			if _, err := step.Move(p.Context(), ring, shard, ""); err != nil {
				p.Error(err)
			}
		}
		p.expectMarked(ring)
		// A migrator that knows fewer steps leaves the others alone.
		if state, err := ring.Migrator(nil).Turn(p.Context()); err != nil || !state.Over || state.Era != 1 {
			p.Errorf("%+v, %v", state, err)
		}
	})
}

// Every step of this version has a name of its own and names a version.
func TestSteps(t *testing.T) {
	if n := len(circulate.Steps()); n > circulate.KnownEras {
		t.Errorf("%d steps, and the program reads only the form after %d", n, circulate.KnownEras)
	}
	known := make(map[string]bool)
	for _, step := range circulate.Steps() {
		if step.Name == "" || known[step.Name] || !strings.HasPrefix(step.Needs, "v") || step.Move == nil {
			t.Errorf("%+v", step)
		}
		known[step.Name] = true
	}
}
