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

func digest(n int) string { return fmt.Sprintf("%064x", n) }

func (f *fixture) addKey(want error, name string, n int, record string, expires time.Time) {
	f.Helper()
	if err := document.Of(f.ring).Keys().Add(context.Background(), name, digest(n), []byte(record), expires); !errors.Is(err, want) {
		f.Fatalf("add %s: %v, want %v", name, err, want)
	}
}

// keyAt returns what is kept under a digest; empty: nothing is.
func (f *fixture) keyAt(n int) string {
	f.Helper()
	e, found, _, err := document.Of(f.ring).Keys().Get(context.Background(), digest(n))
	if err != nil || found != (len(e.Record) > 0) || found && e.Digest != digest(n) {
		f.Fatalf("get %d: %+v, %t, %v", n, e, found, err)
	}
	return string(e.Record)
}

func (f *fixture) keysListed(want ...string) []document.Key {
	f.Helper()
	all, now, err := document.Of(f.ring).Keys().List(context.Background())
	if err != nil || now.IsZero() {
		f.Fatal(err)
	}
	slices.SortFunc(all, func(a, b document.Key) int { return strings.Compare(string(a.Record), string(b.Record)) })
	var got []string
	for _, e := range all {
		got = append(got, string(e.Record))
	}
	if !slices.Equal(got, want) {
		f.Fatalf("listed %q, want %q", got, want)
	}
	return all
}

// apiKeys: a name has one key, and what is removed is gone.
func apiKeys(f *fixture) {
	ctx, store := context.Background(), document.Of(f.ring).Keys()
	now, err := store.Now(ctx)
	if err != nil {
		f.Fatal(err)
	}
	expires := time.UnixMilli(now.UnixMilli()).Add(time.Hour)
	f.addKey(nil, "first", 1, "one 1", expires)
	f.addKey(nil, "first", 1, "one 1", expires) // after an unknown outcome
	f.addKey(document.ErrTaken, "first", 2, "two", time.Time{})
	f.addKey(nil, "second", 2, "two", time.Time{})
	if f.keyAt(1) != "one 1" || f.keyAt(2) != "two" || f.keyAt(3) != "" {
		f.Error("what is kept is not what was added")
	}
	if named, err := store.Named(ctx); err != nil || len(named) != 2 || named["first"].Digest != digest(1) || string(named["second"].Record) != "two" {
		f.Errorf("by name: %+v, %v", named, err)
	}
	all := f.keysListed("one 1", "two")
	if !all[0].Expires.Equal(expires) || !all[1].Expires.IsZero() || !all[0].Used.IsZero() {
		f.Errorf("%+v", all)
	}
	for _, n := range []int{1, 3} {
		if err := store.Note(ctx, digest(n)); err != nil {
			f.Fatal(err)
		}
	}
	all = f.keysListed("one 1", "two")
	if used := all[0].Used; used.Before(now.Add(-time.Second)) || used.After(now.Add(time.Minute)) || !all[1].Used.IsZero() {
		f.Errorf("used: %+v", all)
	}
	tag := "{" + f.ns + ":keys}:"
	if n := f.number("HLEN", tag+"used"); n != 1 {
		f.Errorf("uses of %d keys are kept", n)
	}
	removed, found, err := store.Remove(ctx, "first")
	if err != nil || !found || string(removed.Record) != "one 1" {
		f.Errorf("remove: %+v, %t, %v", removed, found, err)
	}
	if _, found, err := store.Remove(ctx, "first"); err != nil || found {
		f.Errorf("remove again: %t, %v", found, err)
	}
	if f.keyAt(1) != "" || f.number("HLEN", tag+"used") != 0 || f.number("HLEN", tag+"names") != 1 {
		f.Error("something is left of the key that was removed")
	}
	f.addKey(nil, "first", 3, "three", time.Time{})
	// A name whose record was lost is free.
	f.do("HDEL", tag+"records", digest(3))
	f.addKey(nil, "first", 4, "four", time.Time{})
	f.keysListed("four", "two")
}

// apiKeysSecret: all processes have the same secret.
func apiKeysSecret(f *fixture) {
	ctx := context.Background()
	key := "{" + f.ns + ":keys}:secret"
	secret := func() string {
		f.Helper()
		text, err := document.Of(f.ring).Keys().Secret(ctx)
		if err != nil || len(text) != 32 {
			f.Fatalf("%q, %v", text, err)
		}
		return string(text)
	}
	first := secret()
	if secret() != first {
		f.Error("it is another each time")
	}
	f.do("DEL", key)
	if secret() == first {
		f.Error("lost, it is the same again")
	}
	f.do("DEL", key)
	f.do("RPUSH", key, "text") // set aside
	second := secret()
	if secret() != second {
		f.Error("it is another each time")
	}
	f.do("SET", key, "short")
	if text, err := document.Of(f.ring).Keys().Secret(ctx); err == nil {
		f.Errorf("%q passes for a secret", text)
	}
}

// apiKeysFull: those that have expired make room, and no others.
func apiKeysFull(f *fixture) {
	tag := "{" + f.ns + ":keys}:"
	args := []any{tag + "records"}
	for n := range document.MostKeys - 2 {
		args = append(args, digest(n+100), "0 lasting")
	}
	f.do("HSET", args...)
	f.addKey(nil, "old", 1, "old", time.UnixMilli(1))
	f.addKey(nil, "new", 2, "new", time.Now().Add(100*time.Hour))
	if f.keyAt(1) != "old" {
		f.Error("it went before its room was needed")
	}
	f.addKey(nil, "next", 3, "next", time.Time{})
	if f.keyAt(1) != "" || f.keyAt(2) != "new" || f.keyAt(3) != "next" || f.number("HLEN", tag+"records") != document.MostKeys {
		f.Error("another than the expired one made room")
	}
	if f.text("HGET", tag+"names", "old") != "" {
		f.Error("its name is left")
	}
	f.addKey(document.ErrFull, "more", 4, "more", time.Time{})
	f.addKey(nil, "next", 3, "next", time.Time{}) // one that is there needs no room
}

// apiKeysMistyped: a key of a wrong type is set aside, and bad input refused.
func apiKeysMistyped(f *fixture) {
	ctx, store := context.Background(), document.Of(f.ring).Keys()
	tag := "{" + f.ns + ":keys}:"
	for _, name := range []string{"records", "names", "used"} {
		f.do("DEL", tag+name)
		f.do("SET", tag+name, "text")
		f.addKey(nil, "a", 1, "one", time.Time{})
		f.do("DEL", tag+name)
		f.do("SET", tag+name, "text")
		if name != "names" {
			if _, _, _, err := store.Get(ctx, digest(1)); err != nil {
				f.Errorf("get with a mistyped %s: %v", name, err)
			}
		}
		f.do("DEL", tag+name)
		f.do("SET", tag+name, "text")
		if _, _, err := store.Remove(ctx, "a"); err != nil {
			f.Errorf("remove with a mistyped %s: %v", name, err)
		}
		f.do("DEL", tag+"records", tag+"names", tag+"used")
	}
	bad := func(what string, err error) {
		if err == nil || !strings.Contains(err.Error(), what) {
			f.Errorf("%s: %v", what, err)
		}
	}
	bad("digest", store.Add(ctx, "a", "AB", []byte("x"), time.Time{}))
	bad("name", store.Add(ctx, "", digest(1), []byte("x"), time.Time{}))
	bad("name", store.Add(ctx, strings.Repeat("x", document.MaxName+1), digest(1), []byte("x"), time.Time{}))
	bad("record", store.Add(ctx, "a", digest(1), nil, time.Time{}))
	bad("digest", store.Note(ctx, ""))
	_, _, _, err := store.Get(ctx, strings.ToUpper(digest(10)))
	bad("digest", err)
	if f.number("EXISTS", tag+"records") != 0 {
		f.Error("bad input left something")
	}
	f.do("HSET", tag+"records", digest(1), "garbage", digest(2), "0 good")
	f.keysListed("good")
}
