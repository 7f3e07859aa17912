package ringtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

func (f *fixture) putSession(kind document.SessionKind, name, owner, value string) {
	f.Helper()
	if err := document.Of(f.ring).Sessions(kind).Put(context.Background(), name, owner, []byte(value), time.Hour); err != nil {
		f.Fatal(err)
	}
}

// wantSession looks for a session; an empty want is none.
func (f *fixture) wantSession(kind document.SessionKind, name, want string) {
	f.Helper()
	value, left, err := document.Of(f.ring).Sessions(kind).Get(context.Background(), name)
	switch {
	case want == "" && !errors.Is(err, document.ErrNone):
		f.Errorf("%s: got %q, %v", name, value, err)
	case want != "" && (err != nil || string(value) != want || left <= 0 || left > time.Hour):
		f.Errorf("%s: got %q for %v, %v; want %q", name, value, left, err, want)
	}
}

func (f *fixture) sessionKey(kind, name string) string { return "{" + f.ns + ":" + kind + "}:" + name }

func sessionLives(f *fixture) {
	ctx := context.Background()
	store := document.Of(f.ring).Sessions(document.SignedIn)
	f.putSession(document.SignedIn, "a", "anna", "one|\n\x00two")
	f.putSession(document.SignedIn, "b", "bert", "three")
	f.wantSession(document.SignedIn, "a", "one|\n\x00two")
	f.wantSession(document.SignedIn, "b", "three")
	f.wantSession(document.SigningIn, "a", "") // another kind
	f.wantSession(document.SignedIn, "", "")
	f.putSession(document.SignedIn, "b", "bert", "again")
	f.wantSession(document.SignedIn, "b", "again")
	for range 2 {
		if err := store.End(ctx, "a"); err != nil {
			f.Error(err)
		}
		f.wantSession(document.SignedIn, "a", "")
	}
	f.wantSession(document.SignedIn, "b", "again")

	// Names are nowhere in Redis, and all of it goes by itself.
	f.putSession(document.SignedIn, "a-name-to-find", "an-owner-to-find", "v")
	values, ends := f.sessionKey("sessions", "values"), f.sessionKey("sessions", "ends")
	text := strings.Join(append(f.strings("HGETALL", values), f.strings("ZRANGE", ends, 0, -1)...), " ")
	for _, key := range f.strings("KEYS", "{"+f.ns+":sessions}:*") {
		text += " " + key
		if ttl, _ := f.do("PTTL", key).(int64); ttl <= 0 || ttl > time.Hour.Milliseconds() {
			f.Errorf("%s lives for %d ms", key, ttl)
		}
	}
	if strings.Contains(text, "to-find") {
		f.Errorf("Redis holds the name or the owner: %s", text)
	}
}

func sessionEnds(f *fixture) {
	lapse := func(at int64) {
		for _, name := range f.strings("ZRANGE", f.sessionKey("sessions", "ends"), 0, -1) {
			f.do("ZADD", f.sessionKey("sessions", "ends"), at, name)
		}
	}
	f.putSession(document.SignedIn, "a", "anna", "one")
	lapse(1)
	f.wantSession(document.SignedIn, "a", "")
	f.putSession(document.SignedIn, "a", "anna", "one")
	f.wantSession(document.SignedIn, "a", "one")
	// Redis' clock went back by a day: what would live longer than it was given has ended.
	lapse(time.Now().Add(25 * time.Hour).UnixMilli())
	f.wantSession(document.SignedIn, "a", "")
	// What has ended makes room at the next one.
	f.putSession(document.SignedIn, "a", "anna", "one")
	lapse(1)
	f.putSession(document.SignedIn, "b", "anna", "two")
	if n := len(f.strings("HKEYS", f.sessionKey("sessions", "values"))); n != 1 {
		f.Errorf("%d values are kept", n)
	}
	// Half a session is none.
	f.do("DEL", f.sessionKey("sessions", "ends"))
	f.wantSession(document.SignedIn, "b", "")
}

func sessionsAreBounded(f *fixture) {
	const each = 100
	f.putSession(document.SignedIn, "others", "bert", "v")
	for i := range each + 3 {
		f.putSession(document.SignedIn, fmt.Sprint("s", i), "anna", "v")
	}
	values := f.strings("HKEYS", f.sessionKey("sessions", "values"))
	if len(values) != each+1 {
		f.Errorf("%d sessions", len(values))
	}
	f.wantSession(document.SignedIn, "others", "v") // an owner takes no other's place
	f.wantSession(document.SignedIn, fmt.Sprint("s", each+2), "v")

	// There are as many as there may be: the one that would end first goes.
	args := []any{f.sessionKey("sessions", "ends")}
	for i := range 10_000 - (each + 1) {
		args = append(args, time.Now().Add(10*time.Minute).UnixMilli()+int64(i), fmt.Sprint("filler", i))
	}
	f.do("ZADD", args...)
	f.putSession(document.SignedIn, "one more", "carl", "v")
	if n, _ := f.do("ZCARD", f.sessionKey("sessions", "ends")).(int64); n != 10_000 {
		f.Errorf("%d sessions of all", n)
	}
	if f.do("ZSCORE", f.sessionKey("sessions", "ends"), "filler0") != nil {
		f.Error("the oldest one stayed")
	}
	f.wantSession(document.SignedIn, "one more", "v")
}

func sessionIsTakenOnce(f *fixture) {
	f.putSession(document.SigningIn, "state", "10.0.0.1", "nonce")
	var all sync.WaitGroup
	var took atomic.Int64
	for range 20 {
		all.Go(func() {
			value, _, err := document.Of(f.ring).Sessions(document.SigningIn).Take(context.Background(), "state")
			switch {
			case err == nil && string(value) == "nonce":
				took.Add(1)
			case !errors.Is(err, document.ErrNone):
				f.Errorf("got %q, %v", value, err)
			}
		})
	}
	all.Wait()
	if took.Load() != 1 {
		f.Errorf("%d took it", took.Load())
	}
}

func sessionIsReplaced(f *fixture) {
	ctx := context.Background()
	store := document.Of(f.ring).Sessions(document.SigningIn)
	replace := func(name, old, value string, want error) {
		f.Helper()
		if err := store.Replace(ctx, name, []byte(old), []byte(value)); !errors.Is(err, want) || want == nil && err != nil {
			f.Errorf("%s for %s: got %v, want %v", value, old, err, want)
		}
	}
	replace("a", "", "v", document.ErrNone)
	f.putSession(document.SigningIn, "a", "anna", "one|\n\x00")
	ends := f.strings("ZRANGE", f.sessionKey("signins", "ends"), 0, -1, "WITHSCORES")
	replace("a", "one|\n\x00", "two", nil)
	replace("a", "one|\n\x00", "two", nil) // once more, after a reply that was lost
	replace("a", "one|\n\x00", "three", document.ErrChanged)
	f.wantSession(document.SigningIn, "a", "two")
	if now := f.strings("ZRANGE", f.sessionKey("signins", "ends"), 0, -1, "WITHSCORES"); strings.Join(now, " ") != strings.Join(ends, " ") {
		f.Errorf("it ends at %q, not at %q", now, ends)
	}
	if err := store.Replace(ctx, "a", []byte("two"), make([]byte, document.MaxSession+1)); err == nil || circulate.Unknown(err) {
		f.Errorf("too long: %v", err)
	}
	for _, name := range f.strings("ZRANGE", f.sessionKey("signins", "ends"), 0, -1) {
		f.do("ZADD", f.sessionKey("signins", "ends"), 1, name)
	}
	replace("a", "two", "three", document.ErrNone)
	f.putSession(document.SigningIn, "a", "anna", "one")
	if err := store.End(ctx, "a"); err != nil {
		f.Error(err)
	}
	replace("a", "one", "two", document.ErrNone) // it is not there again
	f.wantSession(document.SigningIn, "a", "")
}

func sessionBadInput(f *fixture) {
	ctx := context.Background()
	store := document.Of(f.ring).Sessions(document.SignedIn)
	err := store.Put(ctx, "", "o", make([]byte, document.MaxSession+1), 0)
	for _, field := range []string{"name:", "value:", "life:"} {
		if err == nil || !strings.Contains(err.Error(), field) || circulate.Unknown(err) {
			f.Errorf("not all faults at once: %v", err)
		}
	}
	if err := store.Put(ctx, "n", "o", nil, document.MaxSessionLife+1); err == nil {
		f.Error("a session for ever")
	}
	if keys := f.strings("KEYS", "{"+f.ns+":sessions}:*"); len(keys) > 0 {
		f.Errorf("something was written: %q", keys)
	}
	// What is no session is set aside, and holds nobody up.
	f.do("SET", f.sessionKey("sessions", "values"), "x")
	f.putSession(document.SignedIn, "a", "anna", "one")
	f.wantSession(document.SignedIn, "a", "one")
	if f.ring.SetAside() != 1 {
		f.Errorf("%d set aside", f.ring.SetAside())
	}
	f.do("HSET", f.sessionKey("sessions", "values"), f.strings("HKEYS", f.sessionKey("sessions", "values"))[0], "odd")
	f.wantSession(document.SignedIn, "a", "")
}
