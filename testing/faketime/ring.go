package faketime

import (
	"github.com/rounds-dev/rounds/circulate"
)

// Register registers accounts that are not registered yet.
func (w *World) Register(items ...circulate.Registration) {
	w.Helper()
	for _, item := range items {
		outcomes, err := w.Ring.Register(w.Context(), w.Ring.ShardOf(item.ID), []circulate.Registration{item})
		if err != nil || outcomes[0] != circulate.Created {
			w.Fatalf("register %q: %q, %v", item.ID, outcomes, err)
		}
	}
}

// Look returns what the ring knows about an account.
func (w *World) Look(id string) circulate.View {
	w.Helper()
	views, err := w.Ring.Look(w.Context(), w.Ring.ShardOf(id), []string{id})
	if err != nil || len(views) != 1 {
		w.Fatalf("look at %q: %v, %v", id, views, err)
	}
	return views[0]
}

// Placed expects accounts in a place.
func (w *World) Placed(want circulate.Place, ids ...string) {
	w.Helper()
	for _, id := range ids {
		if got := w.Look(id).Place; got != want {
			w.Errorf("%q is %s, want %s", id, got, want)
		}
	}
}

// Found returns the messages of an account in the stream, in order.
func (w *World) Found(account string) (messages []circulate.Found) {
	w.Helper()
	after := circulate.StreamStart
	for {
		page, err := w.Ring.Streams().Messages(w.Context(), w.Ring.ShardOf(account), after, circulate.MaxBatch)
		if err != nil {
			w.Fatal(err)
		}
		if len(page) == 0 {
			return messages
		}
		for _, found := range page {
			if found.Account == account {
				messages = append(messages, found)
			}
			after = found.Position
		}
	}
}

// Key is the name of a shard's key.
func (w *World) Key(shard int, name string) string { return w.Ring.Tag(shard) + ":" + name }

// Do does a command directly on the server, without faults.
func (w *World) Do(name string, args ...any) any {
	w.Helper()
	conn, err := w.Redis.Conn(w.Context(), "")
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	reply, err := conn.Do(name, args...)
	if err != nil {
		w.Fatalf("%s %v: %v", name, args, err)
	}
	return reply
}
