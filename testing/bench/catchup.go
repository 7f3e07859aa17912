package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/mutants"
)

// catchUpBench measures how late checks are, in intervals of their accounts, after a standstill,
// until all accounts are in time again: in the order of claims, and in that of due times. It runs
// on an embedded Redis with a clock of its own, so its figures are the same on any machine.
type catchUpBench struct {
	report   reporter
	accounts int
	stood    time.Duration
	capacity float64
}

// flags adds the bench's own settings.
func (b *catchUpBench) flags(set *flag.FlagSet) {
	set.DurationVar(&b.stood, "for", 4*time.Hour, "how long nothing was checked")
	set.Float64Var(&b.capacity, "capacity", 1.3, "how many checks are made for each that is asked for")
}

func (b *catchUpBench) run(ctx context.Context) error {
	if b.accounts < 1 || b.capacity <= 1 {
		return errors.New("accounts must be at least 1, and capacity more than 1")
	}
	byDue := mutants.Mutant{Rule: "by due times", Script: "claim", Old: "if #due > 2 * want then", New: "if false then"}
	for _, order := range []struct {
		name string
		rule mutants.Mutant
	}{{"by_due", byDue}, {"relative", mutants.Mutant{}}} {
		if err := b.measure(ctx, order.name, order.rule); err != nil {
			return fmt.Errorf("%s: %w", order.name, err)
		}
	}
	return nil
}

func (b *catchUpBench) measure(ctx context.Context, name string, rule mutants.Mutant) error {
	const least, most, shards, tick = 10 * time.Second, 24 * time.Hour, 16, 500 * time.Millisecond
	now := time.UnixMilli(1_800_000_000_000)
	server := connect.NewEmbedded()
	defer server.Close()
	server.SetClock(func() time.Time { return now })
	broken := rule.On(server)
	ring, err := circulate.Open(ctx, broken, circulate.Options{Shards: shards})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 2))
	interval := make(map[string]time.Duration, b.accounts)
	perSecond := 0.0
	m := server.Miniredis()
	for i := range b.accounts {
		id := fmt.Sprintf("account%06d", i)
		each := time.Duration(float64(least) * math.Pow(float64(most)/float64(least), random.Float64()))
		interval[id] = each
		perSecond += b.capacity / each.Seconds()
		shard := ring.ShardOf(id)
		if _, err := ring.Register(ctx, shard, []circulate.Registration{{ID: id, Record: []byte("{}")}}); err != nil {
			return err
		}
		due := now.Add(-b.stood + time.Duration(random.Float64()*float64(each)))
		field := m.HGet(ring.Tag(shard)+":tickets", id)
		m.HSet(ring.Tag(shard)+":tickets", id, field[:16]+fmt.Sprintf("%08x", due.Add(-each).Unix())+"+"+field[25:])
		if _, err := m.ZAdd(ring.Tag(shard)+":schedule", float64(due.UnixMilli()), id); err != nil {
			return err
		}
	}
	began := now
	var again []float64 // how late checks were of accounts that had been checked since
	checked := make(map[string]bool, b.accounts)
	may, sum, checks := 0.0, 0.0, 0
	for first := 0; ; first++ {
		may = min(may+perSecond*tick.Seconds(), perSecond)
		for i := range shards {
			shard, want := (first+i)%shards, min(1000, int(may)/(shards-i))
			if want == 0 {
				continue
			}
			batch, err := ring.Claim(ctx, shard, "replica000", want, 0)
			if err != nil {
				return err
			}
			items := make([]circulate.Return, len(batch.Claims))
			for i := range batch.Claims {
				c := &batch.Claims[i]
				each := interval[c.ID]
				relative := func(t time.Time) float64 { return t.Sub(c.Due).Seconds() / each.Seconds() }
				from := max(0, relative(began)) // what it was late by then, no order can help
				sum += (relative(now)*relative(now) - from*from) / 2 * each.Seconds()
				if checks++; checked[c.ID] {
					again = append(again, relative(now))
				}
				checked[c.ID] = true
				items[i] = circulate.Return{Claim: c, Mark: circulate.MarkOK, Rule: 'd', Due: now.Add(each)}
			}
			if may -= float64(len(items)); len(items) > 0 {
				if _, err := ring.Return(ctx, shard, items); err != nil {
					return err
				}
			}
		}
		now = now.Add(tick)
		counts, err := ring.CountAll(ctx)
		if err != nil {
			return err
		}
		var all circulate.Count
		for _, c := range counts {
			all.Add(c)
		}
		if all.Overdue < circulate.Late {
			break
		}
	}
	if err := broken.Err(); err != nil {
		return err
	}
	if len(again) == 0 {
		return errors.New("all were in time after one check each: more accounts, or less capacity")
	}
	b.report.figure("catch_up_"+name+"_s", now.Sub(began).Seconds(), "s until no account is 10 s late")
	b.report.figure("catch_up_"+name+"_checks", float64(checks), "checks until then")
	b.report.figure("catch_up_"+name+"_sum", sum/float64(b.accounts), "intervals late × seconds, an account, in all that time")
	for _, share := range []float64{0.5, 0.9, 0.99} {
		b.report.quantile("catch_up_"+name+"_again_p%.0f", again, share, "intervals late, of accounts checked again")
	}
	return nil
}
