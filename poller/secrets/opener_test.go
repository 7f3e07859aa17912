package secrets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/testing/faketime"
)

const openerHunter = "hunter2-hunter2-hunter2"

func generate(t testing.TB) *Key {
	t.Helper()
	k, err := Generate()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// world is a shelf with the key that opens it.
type world struct {
	*faketime.World
	shelf secret.Shelf
	key   *Key
}

func run(t *testing.T, test func(w *world)) {
	t.Helper()
	faketime.Run(t, 1, func(w *faketime.World) { test(&world{w, secret.Of(w.Ring), generate(t)}) })
}

func (w *world) put(k *Key, name, value string, hosts ...string) secret.Stored {
	w.Helper()
	stored, _, err := w.shelf.Put(w.Context(), k.Public(), name, secret.Binding{Hosts: hosts}, "ann", []byte(value))
	if err != nil {
		w.Fatal(err)
	}
	return stored
}

// record returns the stored record of a secret. The text before it holds revision and time.
func (w *world) record(name string) (before string, r map[string]any) {
	w.Helper()
	parts := strings.SplitN(w.Miniredis().HGet(w.values(), name), "|", 3)
	if len(parts) != 3 || json.Unmarshal([]byte(parts[2]), &r) != nil {
		w.Fatalf("%s: %q", name, parts)
	}
	return parts[0] + "|" + parts[1] + "|", r
}

func (w *world) values() string { return "{" + w.Ring.Namespace() + ":secrets}:values" }

func (w *world) tamper(name, before string, r map[string]any) {
	w.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		w.Fatal(err)
	}
	w.Miniredis().HSet(w.values(), name, before+string(text))
}

func (w *world) want(o *Opener, name, want string, wantErr error) {
	w.Helper()
	if got, _, err := o.Get(w.Context(), name); got != want || !errors.Is(err, wantErr) {
		w.Errorf("%s: got %q, %v; want %q, %v", name, got, err, want, wantErr)
	}
}

// A change takes effect after Fresh at the latest, and Redis is asked once in that time.
func TestASecretsLife(t *testing.T) {
	run(t, func(w *world) {
		asked := 0
		w.Server.Set(func(s faketime.Step) faketime.Fate {
			if s.Command == "HGET" {
				asked++
			}
			return faketime.Healthy
		})
		o := New(w.shelf, Keys{w.key})
		w.want(o, "A", "", ErrNotFound)
		w.put(w.key, "A", openerHunter, "a.example")
		w.want(o, "A", "", ErrNotFound)
		time.Sleep(fresh)
		if got, b, err := o.Get(w.Context(), "A"); got != openerHunter || b.String() != "hosts=a.example" || err != nil {
			t.Errorf("got %q, %v, %v", got, b, err)
		}
		before := asked
		for range 100 {
			w.want(o, "A", openerHunter, nil)
		}
		if asked != before {
			t.Errorf("asked %d times more", asked-before)
		}
		w.put(w.key, "A", "another")
		time.Sleep(fresh)
		w.want(o, "A", "another", nil)
		if _, err := w.shelf.Remove(w.Context(), "A"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(fresh)
		w.want(o, "A", "", ErrNotFound)
	})
}

// While Redis cannot be asked, known secrets remain in use for a while. After that they are
// unavailable.
func TestRedisIsAway(t *testing.T) {
	run(t, func(w *world) {
		o := New(w.shelf, Keys{w.key})
		w.put(w.key, "A", openerHunter)
		w.want(o, "A", openerHunter, nil)
		w.want(o, "NONE", "", ErrNotFound)
		w.Server.Set(func(faketime.Step) faketime.Fate { return faketime.NotDone })
		time.Sleep(fresh)
		w.want(o, "A", openerHunter, nil)
		w.want(o, "NONE", "", ErrUnavailable) // its absence was known, but no longer counts
		w.want(o, "B", "", ErrUnavailable)
		time.Sleep(stale)
		w.want(o, "A", "", ErrUnavailable)
		w.Server.Set(nil)
		w.want(o, "A", openerHunter, nil)
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		time.Sleep(fresh)
		if _, _, err := o.Get(ctx, "NONE"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a check that was given up: %v", err)
		}
	})
}

// A writer to Redis cannot give a secret another name, binding or value.
func TestTamperingIsNoticed(t *testing.T) {
	run(t, func(w *world) {
		w.put(w.key, "A", "the value of A", "a.example")
		w.put(w.key, "B", "the value of B", "b.example")
		before, a := w.record("A")
		_, b := w.record("B")
		other := generate(t)
		for what, tampered := range map[string]func(r map[string]any){
			"another secret, with its binding": func(r map[string]any) { clear(r); copyInto(r, b) },
			"another secret's value":           func(r map[string]any) { r["sealed"], r["enc"] = b["sealed"], b["enc"] },
			"another host":                     func(r map[string]any) { r["hosts"] = []string{"evil.example"} },
			"a host more":                      func(r map[string]any) { r["hosts"] = []string{"a.example", "evil.example"} },
			"no binding":                       func(r map[string]any) { delete(r, "hosts") },
			"a kind":                           func(r map[string]any) { r["kinds"] = []string{"http"} },
			"half of it":                       func(r map[string]any) { r["sealed"] = r["sealed"].(string)[:8] },
			"no point":                         func(r map[string]any) { r["enc"] = "AAAA" },
		} {
			r := make(map[string]any)
			copyInto(r, a)
			tampered(r)
			w.tamper("A", before, r)
			if got, _, err := New(w.shelf, Keys{other, w.key}).Get(w.Context(), "A"); got != "" || !errors.Is(err, errSeal) {
				t.Errorf("%s: got %q, %v", what, got, err)
			}
		}
		w.tamper("A", before, a)
		w.want(New(w.shelf, Keys{other, w.key}), "A", "the value of A", nil)
		w.want(New(w.shelf, Keys{other}), "A", "", errNoKey)
		w.want(New(w.shelf, nil), "A", "", errNoKey)
		for _, garbage := range []string{"", "x", "1|2|", "1|2|{}", "1|2|{\"key\":7}"} {
			w.Miniredis().HSet(w.values(), "A", garbage)
			if got, _, err := New(w.shelf, Keys{w.key}).Get(w.Context(), "A"); got != "" || err == nil || errors.Is(err, ErrNotFound) {
				t.Errorf("%q: %q, %v", garbage, got, err)
			}
		}
	})
}

func copyInto(to, from map[string]any) {
	for name, value := range from {
		to[name] = value
	}
}

// All secrets are sealed anew, however often the rotation is interrupted. Secrets that are set
// meanwhile keep their new values.
func TestRotate(t *testing.T) {
	run(t, func(w *world) {
		older, newer := w.key, generate(t)
		const n = 2*secret.MaxPage + 7
		for i := range n {
			w.put(older, fmt.Sprintf("S%03d", i), fmt.Sprint("value ", i), "a.example")
		}
		set := w.put(generate(t), "LOST", "whose key is lost")
		w.put(newer, "NEW", "sealed for the new key already")
		if _, err := Rotate(w.Context(), w.shelf, nil, func(Rotated) {}); err == nil {
			t.Error("without a key")
		}
		// The rotation is interrupted after a page. Besides, a secret is set between its read
		// and its write.
		ctx, cancel := context.WithCancel(w.Context())
		pages := 0
		evals := 0
		w.Server.Set(func(s faketime.Step) faketime.Fate {
			if s.At == faketime.Call && s.Command == "EVALSHA" {
				if evals++; evals == 5 {
					w.Server.Set(nil)
					w.put(newer, "S004", "set meanwhile")
				}
			}
			return faketime.Healthy
		})
		first, err := Rotate(ctx, w.shelf, Keys{newer, older}, func(Rotated) { pages++; cancel() })
		if err == nil || pages != 1 || first.Sealed != secret.MaxPage-3 || first.Changed != 1 || first.Already != 1 || !slices.Equal(first.Failed, []string{"LOST"}) {
			t.Errorf("interrupted: %+v, %d pages, %v", first, pages, err)
		}
		second, err := Rotate(w.Context(), w.shelf, Keys{newer, older}, func(Rotated) {})
		if err != nil || first.Sealed+second.Sealed != n-1 || second.Broken != 1 || second.Already != first.Sealed+2 {
			t.Errorf("resumed: %+v, %v", second, err)
		}
		o := New(w.shelf, Keys{newer})
		for i := range n {
			want := fmt.Sprint("value ", i)
			if i == 4 {
				want = "set meanwhile"
			}
			got, b, err := o.Get(w.Context(), fmt.Sprintf("S%03d", i))
			if got != want || err != nil || i != 4 && b.String() != "hosts=a.example" {
				t.Errorf("S%03d: %q, %v, %v", i, got, b, err)
			}
		}
		w.want(o, "LOST", "", errNoKey)
		if _, stored, _, err := w.shelf.Get(w.Context(), "LOST"); err != nil || stored.Revision != set.Revision {
			t.Errorf("what nobody opens was written: %+v, %v", stored, err)
		}
		if _, stored, _, err := w.shelf.Get(w.Context(), "S000"); err != nil || stored.By != "ann" || stored.Key != newer.Public().ID() {
			t.Errorf("%+v, %v", stored, err)
		}
	})
}

func TestKeys(t *testing.T) {
	a, b := generate(t), generate(t)
	text := func(k *Key) string {
		s, err := k.Text()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	keys, err := ParseKeys("\n" + text(a) + " ,\r\n" + text(b) + "\n")
	if err != nil || len(keys) != 2 || keys.Newest().ID() != a.Public().ID() || keys[1].Public().String() != b.Public().String() {
		t.Fatalf("%v, %v", keys, err)
	}
	if none, err := ParseKeys(" \n"); err != nil || none.Newest() != nil {
		t.Errorf("%v, %v", none, err)
	}
	flipped := []byte(text(b))
	flipped[len(flipped)-10] ^= 1
	for _, bad := range []string{"x", text(a)[:30], string(flipped), a.Public().String(), text(a) + "," + text(b)[:40], strings.Repeat(text(a)+",", maxKeys+1)} {
		if _, err := ParseKeys(bad); err == nil || strings.Contains(err.Error(), "rounds-private") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	public, err := secret.ParsePublicKey(" " + a.Public().String() + "\n")
	if err != nil || public.ID() != a.Public().ID() {
		t.Errorf("%v, %v", public, err)
	}
	if _, err := secret.ParsePublicKey(text(a)); !errors.Is(err, secret.ErrKey) {
		t.Errorf("a private key passes for a public one: %v", err)
	}
}

// The secrets held in memory are bounded in number and bytes.
func TestHeldIsBounded(t *testing.T) {
	o := over(nil, nil)
	held := func(prefix string, of int) (n int) {
		for i := range of {
			if _, ok := o.remembered.Get(fmt.Sprint(prefix, i)); ok {
				n++
			}
		}
		return n
	}
	const fit = mostBytes / secret.MaxValue
	large := strings.Repeat("x", secret.MaxValue)
	for i := range 3 * fit {
		o.remembered.Put(fmt.Sprint("large", i), remembered{value: large})
		if i%fit > 1 {
			continue // to count them takes time
		}
		if n := held("large", i+1); n == 0 || n > fit {
			t.Fatalf("%d are held", n)
		}
	}
	for i := range mostRemembered + 10 {
		o.remembered.Put(fmt.Sprint("small", i), remembered{})
	}
	if n := held("small", mostRemembered+10); n == 0 || n > mostRemembered {
		t.Errorf("%d are held", n)
	}
}

// A box belongs to what it was sealed about. Under another owner, or under none, it does not
// open.
func TestBoxOpensOnlyForWhatItWasSealedAbout(t *testing.T) {
	key := generate(t)
	box, err := key.Public().SealBox("owner one", []byte(openerHunter))
	if err != nil {
		t.Fatal(err)
	}
	keys := Keys{key}
	if value, err := keys.OpenBox("owner one", box); err != nil || string(value) != openerHunter {
		t.Errorf("%q, %v", value, err)
	}
	for _, about := range []string{"owner two", "owner on", ""} {
		if value, err := keys.OpenBox(about, box); !errors.Is(err, errSeal) {
			t.Errorf("about %q: %q, %v", about, value, err)
		}
	}
	bare, err := key.Public().SealBox("", []byte(openerHunter))
	if err != nil {
		t.Fatal(err)
	}
	if value, err := keys.OpenBox("owner one", bare); !errors.Is(err, errSeal) {
		t.Errorf("a box without its owner: %q, %v", value, err)
	}
}
