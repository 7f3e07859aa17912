package secret

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/faketime"
)

func newKey(t testing.TB) *PublicKey {
	t.Helper()
	kem, _, _ := Suite()
	private, err := kem.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return NewPublicKey(private.PublicKey())
}

func TestSeal(t *testing.T) {
	k := newKey(t)
	for _, name := range []string{"", "a b", "service.", "x.binding"} {
		if _, err := k.Seal(name, Binding{}, "", []byte("x")); err == nil {
			t.Errorf("%q is sealed", name)
		}
	}
	for _, n := range []int{0, MaxValue + 1} {
		if _, err := k.Seal("A", Binding{}, "", make([]byte, n)); err == nil || !strings.Contains(err.Error(), "value: must have 1 to 65536 bytes") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	value := []byte("hunter2-hunter2-hunter2")
	one, err := k.Seal("service.A", Binding{Hosts: []string{"a.example"}}, "ann", value)
	if err != nil {
		t.Fatal(err)
	}
	two, err := k.Seal("service.A", Binding{Hosts: []string{"a.example"}}, "ann", value)
	if err != nil || bytes.Equal(one.Sealed, two.Sealed) || bytes.Equal(one.Enc, two.Enc) {
		t.Errorf("two seals are the same: %v", err)
	}
	text, err := json.Marshal(one)
	if err != nil || bytes.Contains(text, value) || one.Key != k.ID() {
		t.Errorf("%s, %v", text, err)
	}
	others := []*Record{{}, {Binding: Binding{Hosts: []string{"a.example", "b.example"}}}, {Binding: Binding{Hosts: []string{"a.example,b.example"}}}, {Binding: Binding{Kinds: []string{"a.example"}}}}
	seen := map[string]bool{string(one.AdditionalData("service.A")): true, string(one.AdditionalData("A")): true}
	for _, r := range others {
		seen[string(r.AdditionalData("service.A"))] = true
	}
	if len(seen) != len(others)+2 {
		t.Errorf("what is bound differently is sealed alike: %v", seen)
	}
}

func TestShelf(t *testing.T) {
	faketime.Run(t, 1, func(w *faketime.World) {
		ctx, s, k := w.Context(), Of(w.Ring), newKey(t)
		for i, name := range []string{"B", "service.A", "A"} {
			stored, created, err := s.Put(ctx, k, name, Binding{Hosts: []string{"a.example"}, Kinds: []string{"http"}}, strings.Repeat("é", MaxBy), []byte("value"))
			if err != nil || !created || stored.Revision != int64(i+1) || len(stored.By) > MaxBy || stored.Key != k.ID() || stored.Set.IsZero() {
				t.Errorf("%s: %+v, %t, %v", name, stored, created, err)
			}
		}
		if _, created, err := s.Put(ctx, k, "A", Binding{}, "ann", []byte("another")); err != nil || created {
			t.Errorf("%t, %v", created, err)
		}
		page, next, err := s.Page(ctx, "", 2)
		if err != nil || len(page) != 2 || next != "B" || page[0].Name != "A" || page[0].By != "ann" || !page[0].Binding.IsZero() || page[1].Binding.String() != "hosts=a.example kinds=http" {
			t.Errorf("%+v, %q, %v", page, next, err)
		}
		if page, next, err = s.Page(ctx, next, 2); err != nil || len(page) != 1 || next != "" || page[0].Name != "service.A" {
			t.Errorf("%+v, %q, %v", page, next, err)
		}
		for _, want := range []bool{true, false} {
			if gone, err := s.Remove(ctx, "A"); gone != want || err != nil {
				t.Errorf("%t, %v", gone, err)
			}
		}
		if _, err := s.Remove(ctx, "a b"); err == nil {
			t.Error("a name that is none")
		}
		if _, _, found, err := s.Get(ctx, "A"); found || err != nil {
			t.Errorf("%t, %v", found, err)
		}
	})
}
