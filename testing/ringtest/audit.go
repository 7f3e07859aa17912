package ringtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// audit audits and expects the findings, as "kind id".
func (f *fixture) audit(repair bool, want ...string) {
	f.Helper()
	found, err := f.ring.AuditShard(context.Background(), 0, circulate.AuditOptions{Repair: repair})
	if err != nil {
		f.Fatal(err)
	}
	var got []string
	for _, v := range found.Findings {
		got = append(got, string(v.Kind)+" "+v.ID)
		if v.Repaired != (repair && v.Kind != circulate.Garbage) {
			f.Errorf("%s %q: repaired %v", v.Kind, v.ID, v.Repaired)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		f.Fatalf("found %q, want %q", got, want)
	}
	if found.Unjudged != 0 {
		f.Errorf("%d unjudged", found.Unjudged)
	}
}

// claimAll claims everything and expects the ids, in any order.
func (f *fixture) claimAll(want ...string) {
	f.Helper()
	var got []string
	for _, c := range f.batch(bob, 100).Claims {
		got = append(got, c.ID)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		f.Fatalf("claimed %q, want %q", got, want)
	}
}

// auditHealthy has accounts in every place, void entries, and a copy that a monitor left.
// None of that is a violation.
func auditHealthy(f *fixture) {
	f.register("a", "b", "c", "d", "e")
	c := f.claim(alice, "a", "b", "c")
	f.ret(circulate.Written, circulate.Return{Claim: c[0], Due: soon(c[0])})
	f.ret(circulate.Written, circulate.Return{Claim: c[1], Park: "gone"})
	h := f.oldest()[0]
	f.first(h)
	f.first(h) // another one, which dies before it compensates
	if _, err := f.ring.Park(context.Background(), 0, circulate.ReasonPaused, []string{"d"}); err != nil {
		f.Fatal(err)
	}
	f.audit(true)
}

func auditFindsLost(f *fixture) {
	f.register("s", "q", "p", "k")
	f.do("ZREM", f.key("schedule"), "s")
	f.audit(false, "lost s")
	f.claim(alice, "k", "p", "q")
	f.do("DEL", f.key("processing_list"))
	want := []string{"lost k", "lost p", "lost q", "lost s"}
	f.audit(false, want...)
	f.audit(true, want...)
	f.audit(false)
	f.conserved()
	f.claimAll("k", "p", "q", "s")
}

func auditFindsDoubled(f *fixture) {
	f.register("a", "b", "c", "d")
	c := f.claim(alice, "a", "b", "c")
	// a: claimed and scheduled; b: claimed and parked; c: claimed, and waiting
	// under another stamp; d: scheduled and parked.
	f.do("ZADD", f.key("schedule"), soon(c[0]).UnixMilli(), "a")
	f.do("ZADD", f.key("parked"), 1, "b")
	f.do("HSET", f.key("park_reasons"), "b", "gone")
	f.do("LPUSH", f.key("message_queue:low"), c[2].Ticket()+"|0000000000001|----------|c")
	f.do("LPUSH", f.key("message_queue"), "00000000000001|0000000000001|----------|d") // void: d's is another
	f.do("ZADD", f.key("parked"), 1, "d")
	f.do("HSET", f.key("park_reasons"), "d", "gone")
	want := []string{"doubled a", "doubled b", "doubled c", "doubled d"}
	f.audit(false, want...)
	f.audit(true, want...)
	f.audit(false)
	f.conserved()
	for i, want := range []circulate.Place{circulate.Scheduled, circulate.Parked, circulate.Scheduled, circulate.Parked} {
		f.placed(string(rune('a'+i)), want)
	}
	for _, claim := range c {
		f.ret(circulate.Fenced, circulate.Return{Claim: claim})
	}
}

func auditFindsTheRest(f *fixture) {
	f.register("a", "b")
	f.do("ZADD", f.key("schedule"), 1, "ghost")
	f.do("ZADD", f.key("parked"), 1, "spook")
	f.do("HDEL", f.key("accounts"), "b")
	f.do("LPUSH", f.key("message_queue"), "garbage")
	f.audit(true, "orphan ghost", "orphan spook", "no_record b", "garbage garbage")
	if v := f.look("b"); v.Place != circulate.Parked || !strings.HasPrefix(v.Reason, "no record") {
		f.Errorf("%s, %q", v.Place, v.Reason)
	}
	if aside := f.strings("LRANGE", f.key("set_aside"), 0, -1); len(aside) != 2 {
		f.Errorf("set aside are %q", aside)
	}
	f.claimAll("a")
}

// auditLeavesChanged loses an account and restores it between the moment at which an
// audit judges it lost and its repair. Whoever claimed it meanwhile keeps it.
func auditLeavesChanged(f *fixture) {
	ctx := context.Background()
	f.register("a")
	f.claim(alice, "a")
	f.do("DEL", f.key("processing_list"))
	var mine *circulate.Claim
	steps := 0
	found, err := f.ring.AuditShard(ctx, 0, circulate.AuditOptions{Repair: true, Pause: func(context.Context) error {
		// The first step reads which accounts are registered, the second one judges.
		if steps++; steps == 2 {
			f.upsert(circulate.Updated, circulate.Registration{ID: "a", Record: []byte("new")})
			mine = f.claim(bob, "a")[0]
		}
		return nil
	}})
	if err != nil || len(found.Findings) != 1 || found.Findings[0] != (circulate.Finding{Kind: circulate.Lost, ID: "a"}) {
		f.Fatalf("found %+v, %v; want one that is lost and not repaired", found, err)
	}
	f.placed("a", circulate.Claimed)
	f.ret(circulate.Written, circulate.Return{Claim: mine, Due: soon(mine)})
	f.conserved()
}

// auditRebuilds flushes everything except the records.
func auditRebuilds(f *fixture) {
	ids := []string{"a", "b", "c", "d"}
	f.register(ids...)
	c := f.claim(alice, "a", "b")
	if _, err := f.ring.Park(context.Background(), 0, "gone", []string{"d"}); err != nil {
		f.Fatal(err)
	}
	f.do("DEL", f.key("tickets"), f.key("ticket_seq"), f.key("schedule"), f.key("message_queue"))
	f.audit(true, "lost a", "lost b", "lost c", "lost d")
	f.audit(false)
	f.placed("d", circulate.Parked)
	f.ret(circulate.Fenced, circulate.Return{Claim: c[0]})
	f.claimAll("a", "b", "c")
}

// auditLongLists has more in its lists than is read in one step.
func auditLongLists(f *fixture) {
	for from := 0; from < 5000; from += 1000 {
		var ids []string
		for i := range 1000 {
			ids = append(ids, fmt.Sprintf("%05d", from+i))
		}
		f.register(ids...)
	}
	for range 3 {
		f.batch(alice, 1000)
	}
	claims := f.batch(bob, 1)
	f.audit(false)
	f.do("LREM", f.key("processing_list"), 1, f.oldest()[7].Entry.String())
	f.do("ZADD", f.key("schedule"), 1, claims.Claims[0].ID)
	lost := "lost 00007"
	if got := f.count().Accounts["00007"].Places; len(got) != 0 {
		f.Fatalf("00007 is in %v", got)
	}
	f.audit(false, lost, "doubled "+claims.Claims[0].ID)
	f.audit(true, lost, "doubled "+claims.Claims[0].ID)
	f.audit(false)
}

// auditUnderLoad audits, and repairs, while others claim, return, requeue, pause and
// nudge. The audit must find nothing.
func auditUnderLoad(f *fixture) {
	ctx := context.Background()
	var ids []string
	for i := range 300 {
		ids = append(ids, fmt.Sprint("a", i))
	}
	f.register(ids...)
	var load sync.WaitGroup
	stop := make(chan struct{})
	for worker, replica := range []string{alice, bob} {
		load.Go(func() {
			for i := worker; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := auditTurn(ctx, f, replica, ids, i); err != nil {
					f.Error(err)
					return
				}
			}
		})
	}
	for range 40 {
		found, err := f.ring.AuditShard(ctx, 0, circulate.AuditOptions{Repair: true})
		if err != nil || len(found.Findings) > 0 || found.Accounts < 300 {
			f.Errorf("found %+v, %v", found, err)
			break
		}
	}
	close(stop)
	load.Wait()
	f.conservedOnceClaimed()
	f.audit(false)
}

func auditTurn(ctx context.Context, f *fixture, replica string, ids []string, i int) error {
	b, err := f.ring.Claim(ctx, 0, replica, 20, 0)
	if err != nil {
		return err
	}
	held, _, err := f.ring.Oldest(ctx, 0, 0, 3)
	if err != nil {
		return err
	}
	for _, h := range held {
		if _, _, err := f.ring.Requeue(ctx, 0, h); err != nil {
			return err
		}
	}
	id := ids[i*7%len(ids)]
	if i%5 == 0 {
		if _, err := f.ring.Park(ctx, 0, circulate.ReasonPaused, []string{id}); err != nil {
			return err
		}
	} else if err := f.ring.Account(ids[i*11%len(ids)]).Resume(ctx, circulate.Resumption{}); err != nil {
		return err
	}
	if err := f.ring.Account(id).Nudge(ctx, circulate.Nudge{}); err != nil && !errors.Is(err, circulate.ErrParked) {
		return err
	}
	items := make([]circulate.Return, 0, len(b.Claims))
	for j := range b.Claims {
		item := circulate.Return{Claim: &b.Claims[j]}
		if j%3 == 0 {
			item.Due = b.Now.Add(time.Duration(j) * time.Millisecond)
		}
		items = append(items, item)
	}
	if len(items) > 0 {
		_, err = f.ring.Return(ctx, 0, items)
	}
	return err
}
