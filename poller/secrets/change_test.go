package secrets

import (
	"errors"
	"testing"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A stored secret is replaced only as it was seen, for the newest key, and keeps its binding. A
// secret of a file or the environment is refused.
func TestChange(t *testing.T) {
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Namespace: "change", Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	shelf, old, young := secret.Of(ring), generate(t), generate(t)
	b := secret.Binding{Hosts: []string{"a.example"}, Kinds: []string{"imap"}}
	if _, _, err := shelf.Put(t.Context(), old.Public(), "KEY", b, "ann", []byte("one")); err != nil {
		t.Fatal(err)
	}
	opener := New(shelf, Keys{young, old})
	p := newPlace(t, map[string]string{"FILE": hunter, "KEY.binding": "hosts=a.example,b.example"}, map[string]string{EnvPrefix + "ENV": hunter})
	source := p.source()
	source.Store = opener
	use := Use{Kind: "imap", Host: "a.example:443", TLS: true}
	if got, err := source.Get(t.Context(), "KEY", use); err != nil || got != "one" {
		t.Fatalf("got %q, %v", got, err)
	}
	value, seen, err := source.Latest(t.Context(), "KEY", use)
	if err != nil || value != "one" {
		t.Fatalf("got %q, %v", value, err)
	}
	if done, err := source.Change(t.Context(), seen, "two"); err != nil || !done {
		t.Fatalf("got %t, %v", done, err)
	}
	if done, err := source.Change(t.Context(), seen, "three"); err != nil || done {
		t.Errorf("as it was not seen: %t, %v", done, err)
	}
	if got, err := source.Get(t.Context(), "KEY", use); err != nil || got != "two" {
		t.Errorf("got %q, %v", got, err)
	}
	r, stored, _, err := shelf.Get(t.Context(), "KEY")
	if err != nil || r.Key != young.Public().ID() || stored.By != "ann" || stored.Binding.String() != b.String() {
		t.Errorf("got %+v, %v", stored, err)
	}
	for name, want := range map[string]error{"FILE": ErrNotStored, "ENV": ErrNotStored, "NONE": ErrNotFound, "a.b": ErrName} {
		if value, _, err := source.Latest(t.Context(), name, use); !errors.Is(err, want) || value != "" {
			t.Errorf("%s: got %q, %v", name, value, err)
		}
	}
	if value, _, err := source.Latest(t.Context(), "KEY", Use{Kind: "imap", Host: "b.example:443", TLS: true}); !errors.Is(err, ErrRefused) || value != "" {
		t.Errorf("another host: %q, %v", value, err)
	}
	opener.SetKeys(nil)
	if _, err := source.Change(t.Context(), seen, "four"); err == nil {
		t.Error("without a key it is changed")
	}
}
