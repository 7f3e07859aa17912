package ringtest

import (
	"context"
	"errors"

	"github.com/rounds-dev/rounds/circulate"
)

// sendRepeated: a send is found again by its key and by what the caller asked for, whatever the
// kind made of that, and its key outlives it.
func sendRepeated(f *fixture) {
	o := f.outbox("a", "b")
	ctx := context.Background()
	s := text("a", "anna", "hello")
	s.Request = "say hello"
	if _, isNew, err := o.sends.Queue(ctx, s, "k", circulate.SendBounds{}); err != nil || !isNew {
		f.Fatal(isNew, err)
	}
	repeated := func(account, key, request string) (circulate.Send, bool, error) {
		return o.sends.Repeated(ctx, account, key, request)
	}
	if got, known, err := repeated("a", "k", "say hello"); err != nil || !known || got.ID != s.ID || got.State != circulate.SendQueued || got.Peer != "anna" {
		f.Errorf("repeated: %+v, %v, %v", got, known, err)
	}
	if _, known, err := repeated("a", "k", "say bye"); !errors.Is(err, circulate.ErrSendConflict) || known {
		f.Errorf("another request: %v, %v", known, err)
	}
	for _, other := range [][2]string{{"a", "l"}, {"b", "k"}} {
		if _, known, err := repeated(other[0], other[1], "say hello"); err != nil || known {
			f.Errorf("%v: %v, %v", other, known, err)
		}
	}
	// Queue compares the same.
	again := text("a", "anna", "Hello!")
	again.Request = "say hello"
	if got, isNew, err := o.sends.Queue(ctx, again, "k", circulate.SendBounds{}); err != nil || isNew || got.ID != s.ID {
		f.Errorf("queued again: %+v, %v, %v", got, isNew, err)
	}
	again.Request = "say bye"
	if _, _, err := o.sends.Queue(ctx, again, "k", circulate.SendBounds{}); !errors.Is(err, circulate.ErrSendConflict) {
		f.Errorf("queued with another request: %v", err)
	}
	// A send that has ended may be forgotten before its key is.
	if _, err := o.sends.Cancel(ctx, s.ID); err != nil {
		f.Fatal(err)
	}
	f.tick() // so that it is the one that ended first
	for range circulate.MostEndedSends {
		if _, err := o.sends.Cancel(ctx, o.queue(text("a", "ben", "later"))); err != nil {
			f.Fatal(err)
		}
	}
	if _, err := o.sends.Look(ctx, s.ID); !errors.Is(err, circulate.ErrNoSend) {
		f.Fatalf("it is still stored: %v", err)
	}
	if got, known, err := repeated("a", "k", "say hello"); err != nil || !known || got.ID != s.ID || got.State != 0 {
		f.Errorf("long after its end: %+v, %v, %v", got, known, err)
	}
}
