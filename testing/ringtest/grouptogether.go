package ringtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// groupTogether does for several groups at once what consumers do from time to time: take
// leases, renew them, and look how far they have read.
func groupTogether(f *fixture) {
	ctx := context.Background()
	begin := func(name, consumer string) group.Begun {
		f.Helper()
		b, err := group.Of(f.ring).Member(name, consumer, time.Minute).Begin(ctx, 0)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	if b := begin(crew, alice); b.Lease == nil || b.End != "" {
		f.Errorf("of a group that is not there: %+v", b)
	} else if _, err := group.Of(f.ring).Release(ctx, b.Lease); err != nil && !errors.Is(err, circulate.ErrNoGroup) {
		f.Error(err)
	}
	names := []string{crew, "second", "third"}
	for _, name := range names {
		if _, err := f.ring.Streams().EnsureGroup(ctx, 0, name, circulate.StreamStart); err != nil {
			f.Fatal(err)
		}
	}
	last := f.add("a/1", "a/2")[1]

	begun := make([]group.Begun, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() { begun[i] = begin(name, alice) })
	}
	asking.Wait()
	tokens := make(map[string]bool)
	for _, b := range begun {
		if b.Lease == nil || b.End != "" {
			f.Fatalf("of a group that has something to read: %+v", b)
		}
		tokens[b.Lease.Token()] = true
	}
	if len(tokens) != len(names) {
		f.Errorf("tokens %v", tokens)
	}
	if b := begin(crew, bob); b.Lease != nil || b.After <= 0 || b.After > time.Minute {
		f.Errorf("while another has it: %+v", b)
	}

	renew := func(l *group.Lease, want group.Renewed) {
		f.Helper()
		if got, err := group.Of(f.ring).Renew(ctx, l); err != nil || got != want {
			f.Errorf("renewed: %+v, %v; want %+v", got, err, want)
		}
	}
	l := begun[0].Lease
	renew(l, group.Renewed{Behind: true})
	found := f.read(l, "a/1", "a/2")
	renew(l, group.Renewed{Pending: 2})
	renew(begun[1].Lease, group.Renewed{Behind: true})
	for _, name := range append(names, "none") {
		want, wantErr := f.ring.Streams().GroupState(ctx, 0, name)
		got, err := group.Of(f.ring).Survey(ctx, 0, name)
		if errors.Is(err, circulate.ErrNoGroup) && errors.Is(wantErr, circulate.ErrNoGroup) {
			continue
		}
		shards, allErr := group.Of(f.ring).States(ctx, nil)
		if allErr != nil || len(shards) != 1 {
			f.Fatalf("states %v, %v", shards, allErr)
		}
		all := shards[0][name]
		for _, s := range []*circulate.GroupState{&want, &got, &all} {
			s.Now, s.OldestUnread, s.OldestPending = time.Time{}, s.OldestUnread.Round(time.Minute), s.OldestPending.Round(time.Minute)
		}
		if wantErr != nil || all != want {
			f.Errorf("%s: states %+v; state %+v, %v", name, all, want, wantErr)
		}
		want.Holder = ""
		if err != nil || got != want {
			f.Errorf("%s: survey %+v, %v; state %+v", name, got, err, want)
		}
	}
	if _, err := group.Of(f.ring).Acknowledge(ctx, 0, crew, []string{found[0].Position, found[1].Position}); err != nil {
		f.Fatal(err)
	}
	if held, err := group.Of(f.ring).Release(ctx, l); !held || err != nil {
		f.Errorf("released: %v, %v", held, err)
	}
	if _, err := group.Of(f.ring).Renew(ctx, l); !errors.Is(err, group.ErrLeaseLost) {
		f.Errorf("a lease that was given back is renewed: %v", err)
	}
	b := begin(crew, bob)
	if b.Lease == nil || b.End != last {
		f.Errorf("of a group that has nothing to do: %+v, want the end %s", b, last)
	}
	if _, err := group.Of(f.ring).Renew(ctx, &group.Lease{Group: crew, Consumer: bob, TTL: time.Minute}); !errors.Is(err, group.ErrLeaseLost) {
		f.Errorf("renewed without a token: %v", err)
	}

	f.add("a/3")
	woken := make(chan struct{})
	w := group.Of(f.ring).Watch(0)
	defer w.Close()
	defer w.Expect(last, func() { close(woken) })()
	select {
	case <-woken:
	case <-time.After(30 * time.Second):
		f.Error("nobody is woken for a message that is there")
	}
}
