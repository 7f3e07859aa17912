package ringtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate/document"
)

func (f *fixture) putValue(name, value string) document.Sealed {
	f.Helper()
	e, _, err := document.Of(f.ring).Vault().Put(context.Background(), name, []byte(value))
	if err != nil {
		f.Fatal(err)
	}
	return e
}

func (f *fixture) valueAt(name string) string {
	f.Helper()
	e, found, err := document.Of(f.ring).Vault().Get(context.Background(), name)
	if err != nil || found != (e.Name == name) {
		f.Fatalf("get %s: %+v, %t, %v", name, e, found, err)
	}
	return string(e.Value)
}

// vaultKeeps: a value is replaced as a whole, and what is removed is gone.
func vaultKeeps(f *fixture) {
	ctx, store := context.Background(), document.Of(f.ring).Vault()
	now := f.now()
	first, created, err := store.Put(ctx, "A", []byte("one|with|marks"))
	if err != nil || !created || first.Set.Before(now.Truncate(time.Millisecond)) || f.valueAt("A") != "one|with|marks" {
		f.Errorf("%+v, %t, %v", first, created, err)
	}
	second, created, err := store.Put(ctx, "A", []byte("two"))
	if err != nil || created || second.Revision <= first.Revision || f.valueAt("A") != "two" {
		f.Errorf("%+v, %t, %v", second, created, err)
	}
	// A replacement is for the revision that was seen, and keeps when it was set.
	for revision, want := range map[int64]bool{first.Revision: false, second.Revision + 1: false} {
		if done, err := store.Replace(ctx, "A", revision, []byte("no")); done != want || err != nil {
			f.Errorf("replace %d: %t, %v", revision, done, err)
		}
	}
	if done, err := store.Replace(ctx, "A", second.Revision, []byte("three")); !done || err != nil {
		f.Errorf("%t, %v", done, err)
	}
	third, _, err := store.Get(ctx, "A")
	if err != nil || string(third.Value) != "three" || !third.Set.Equal(second.Set) || third.Revision <= second.Revision {
		f.Errorf("%+v, %v, set %v", third, err, second.Set)
	}
	if done, err := store.Replace(ctx, "B", 1, []byte("no")); done || err != nil || f.valueAt("B") != "" {
		f.Errorf("what is not there was replaced: %t, %v", done, err)
	}
	for _, want := range []bool{true, false} {
		if gone, err := store.Remove(ctx, "A"); gone != want || err != nil {
			f.Errorf("%t, %v", gone, err)
		}
	}
	if done, err := store.Replace(ctx, "A", third.Revision, []byte("no")); done || err != nil || f.valueAt("A") != "" {
		f.Errorf("what was removed came back: %t, %v", done, err)
	}
	// What a backup has keeps when it was set, and is a change like any other.
	set := time.UnixMilli(1_700_000_000_000)
	if err := store.Restore(ctx, document.Sealed{Name: "C", Set: set, Value: []byte("kept")}); err != nil {
		f.Error(err)
	}
	if kept, found, err := store.Get(ctx, "C"); err != nil || !found || string(kept.Value) != "kept" || !kept.Set.Equal(set) || kept.Revision <= third.Revision {
		f.Errorf("restored: %+v, %t, %v", kept, found, err)
	}
	if again := f.putValue("A", "four"); again.Revision <= third.Revision {
		f.Errorf("revision %d after %d", again.Revision, third.Revision)
	}
	tag := "{" + f.ns + ":secrets}:"
	f.do("DEL", tag+"state")
	if again := f.putValue("A", "five"); again.Revision <= third.Revision {
		f.Errorf("the state was lost, and a revision is given twice: %d", again.Revision)
	}
	for _, bad := range []string{"", strings.Repeat("x", document.MaxName+1)} {
		if _, _, err := store.Put(ctx, bad, []byte("x")); err == nil {
			f.Errorf("a name of %d bytes", len(bad))
		}
	}
	for _, bad := range []int{0, document.MaxSealed + 1} {
		if _, _, err := store.Put(ctx, "B", make([]byte, bad)); err == nil {
			f.Errorf("a value of %d bytes", bad)
		}
	}
}

// vaultPages: names come in order, each once.
func vaultPages(f *fixture) {
	ctx, store := context.Background(), document.Of(f.ring).Vault()
	var want []string
	for i := range 25 {
		want = append(want, fmt.Sprintf("n%02d", i))
		f.putValue(want[i], fmt.Sprint("v", i))
	}
	var got []string
	for after := ""; ; {
		page, err := store.Page(ctx, after, 10)
		if err != nil {
			f.Fatal(err)
		}
		for _, e := range page {
			if string(e.Value) != "v"+fmt.Sprint(len(got)) || e.Revision == 0 || e.Set.IsZero() {
				f.Errorf("%+v", e)
			}
			got = append(got, e.Name)
		}
		if len(page) < 10 {
			break
		}
		after = page[len(page)-1].Name
	}
	if !slices.Equal(got, want) {
		f.Errorf("got %v", got)
	}
	tag := "{" + f.ns + ":secrets}:"
	f.do("HSET", tag+"values", "n03", "not as it must be")
	f.do("HDEL", tag+"values", "n04")
	page, err := store.Page(ctx, "n02", 3)
	if err != nil || len(page) != 3 || page[0].Value != nil || page[1].Value != nil || string(page[2].Value) != "v5" {
		f.Errorf("%+v, %v", page, err)
	}
	for _, bad := range []int{0, document.MaxPage + 1} {
		if _, err := store.Page(ctx, "", bad); err == nil {
			f.Errorf("a page of %d", bad)
		}
	}
}

// vaultIsBounded: what is full takes nothing more, but what is there may change.
func vaultIsBounded(f *fixture) {
	ctx, store := context.Background(), document.Of(f.ring).Vault()
	tag := "{" + f.ns + ":secrets}:"
	f.putValue("A", "one")
	args := []any{tag + "values"}
	for n := range document.MostSealed - 1 {
		args = append(args, fmt.Sprint("n", n), "1|1|x")
	}
	f.do("HSET", args...)
	if _, _, err := store.Put(ctx, "B", []byte("x")); !errors.Is(err, document.ErrFull) {
		f.Errorf("one too many: %v", err)
	}
	f.putValue("A", "two")
	f.do("HDEL", tag+"values", "n1", "n2")
	f.do("HSET", tag+"state", "bytes", document.MostSealedBytes)
	if _, _, err := store.Put(ctx, "B", []byte("x")); !errors.Is(err, document.ErrFull) || f.valueAt("B") != "" {
		f.Errorf("too many bytes: %v", err)
	}
	f.putValue("A", "2") // it is no longer than before
	if _, err := store.Remove(ctx, "A"); err != nil {
		f.Error(err)
	}
	// Keys of a wrong type are out of the way, and nothing is destroyed.
	f.do("DEL", tag+"names")
	f.do("SET", tag+"names", "strange")
	f.putValue("C", "x")
	if f.valueAt("C") != "x" || len(f.strings("KEYS", tag+"names:set_aside:*")) != 1 {
		f.Error("the strange key is in the way, or gone")
	}
}
