package ringtest

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/credential"
)

var someCredential = credential.Ref{Owner: "corp {1}", Name: "token"}

func (f *fixture) take(ref credential.Ref) credential.Known {
	f.Helper()
	c, err := credential.Of(f.ring).Take(context.Background(), ref, time.Minute)
	if err != nil {
		f.Fatal(err)
	}
	return c
}

func (f *fixture) settleCredential(want bool, ref credential.Ref, fence int64, s credential.Settlement) {
	f.Helper()
	if got, err := credential.Of(f.ring).Settle(context.Background(), ref, fence, s); err != nil || got != want {
		f.Fatalf("settle as %s: %t, %v; want %t", s.As, got, err, want)
	}
}

// credentialKey finds the one key of a credential or of its owner's pause.
func (f *fixture) credentialKey(pause bool) string {
	f.Helper()
	for _, key := range f.strings("KEYS", f.ns+":credentials:*") {
		if strings.HasSuffix(key, ":pause") == pause {
			return key
		}
	}
	f.Fatal("no such key")
	return ""
}

// lapse has the time in a field run out.
func (f *fixture) lapse(pause bool, field string) {
	f.Helper()
	f.do("HSET", f.credentialKey(pause), field, "1")
}

func fetched(value string) credential.Settlement {
	return credential.Settlement{As: credential.Fetched, Value: []byte(value), For: time.Hour, Refresh: 50 * time.Minute}
}

// credentialOnce has many ask for a credential that nobody has yet.
func credentialOnce(f *fixture) {
	var all sync.WaitGroup
	var fences atomic.Int64
	for range 20 {
		all.Go(func() {
			c, err := credential.Of(f.ring).Take(context.Background(), someCredential, time.Minute)
			switch {
			case err != nil:
				f.Error(err)
			case c.Fence != 0:
				fences.Add(1)
			case c.Wait <= 0 || c.Wait > time.Minute || c.Value != nil:
				f.Errorf("got %+v", c)
			}
		})
	}
	all.Wait()
	if fences.Load() != 1 {
		f.Errorf("%d were to fetch it", fences.Load())
	}
	if other := f.take(credential.Ref{Owner: "corp {1}", Name: "other"}); other.Fence == 0 {
		f.Errorf("another credential: %+v", other)
	}
}

func credentialLives(f *fixture) {
	first := f.take(someCredential)
	f.settleCredential(false, someCredential, first.Fence+1, fetched("forged"))
	f.settleCredential(true, someCredential, first.Fence, fetched("\x00one\xff"))
	f.settleCredential(false, someCredential, first.Fence, fetched("again"))
	c := f.take(someCredential)
	if string(c.Value) != "\x00one\xff" || c.Version == 0 || c.Fence != 0 || c.Expires <= 59*time.Minute || c.Expires > time.Hour {
		f.Fatalf("got %+v", c)
	}
	if ms := f.number("PTTL", f.credentialKey(false)); ms < 3_600_000 || ms > 7_200_000 {
		f.Errorf("forgotten after %d ms", ms)
	}

	// It is time to replace it: one does, the others use the old one meanwhile.
	f.lapse(false, "refresh")
	second, third := f.take(someCredential), f.take(someCredential)
	if second.Fence <= first.Fence || second.Value == nil || third.Fence != 0 || third.Value == nil || third.Wait == 0 {
		f.Fatalf("got %+v and %+v", second, third)
	}
	// The replica that fetches it stops, and comes back too late.
	f.lapse(false, "lease")
	fourth := f.take(someCredential)
	if fourth.Fence <= second.Fence {
		f.Fatalf("got %+v", fourth)
	}
	f.settleCredential(false, someCredential, second.Fence, fetched("late"))
	f.settleCredential(true, someCredential, fourth.Fence, fetched("two"))
	if c := f.take(someCredential); string(c.Value) != "two" {
		f.Errorf("got %+v", c)
	}
	f.lapse(false, "expires")
	if c := f.take(someCredential); c.Value != nil || c.Fence == 0 {
		f.Errorf("expired: got %+v", c)
	}
}

// credentialDrops drops exactly the credential that was refused.
func credentialDrops(f *fixture) {
	ctx := context.Background()
	drop := func(want bool, version int64) {
		f.Helper()
		if got, err := credential.Of(f.ring).Drop(ctx, someCredential, version); err != nil || got != want {
			f.Fatalf("drop: %t, %v; want %t", got, err, want)
		}
	}
	renew := func(value string) int64 {
		f.Helper()
		f.settleCredential(true, someCredential, f.take(someCredential).Fence, fetched(value))
		return f.take(someCredential).Version
	}
	one := renew("one")
	drop(true, one)
	drop(true, one)
	two := renew("two")
	drop(true, one) // a replica that still had the first one
	if c := f.take(someCredential); string(c.Value) != "two" {
		f.Fatalf("got %+v", c)
	}
	drop(false, two)
	f.lapse(false, "dropped")
	drop(true, two)
	if c := f.take(someCredential); c.Value != nil || c.Fence == 0 {
		f.Errorf("got %+v", c)
	}
}

func credentialRefused(f *fixture) {
	refused := credential.Settlement{As: credential.Refused, Reason: "40001", For: time.Hour}
	f.settleCredential(true, someCredential, f.take(someCredential).Fence, refused)
	for range 3 {
		if c := f.take(someCredential); c.Fence != 0 || c.Refused <= 59*time.Minute || c.Reason != "40001" {
			f.Fatalf("got %+v", c)
		}
	}
	f.lapse(false, "refused")
	failed := credential.Settlement{As: credential.Failed, Reason: "timeout", For: time.Minute}
	f.settleCredential(true, someCredential, f.take(someCredential).Fence, failed)
	if c := f.take(someCredential); c.Fence != 0 || c.Failed <= 59*time.Second || c.Reason != "timeout" {
		f.Fatalf("got %+v", c)
	}
	f.lapse(false, "failed")
	f.settleCredential(true, someCredential, f.take(someCredential).Fence, fetched("one"))
	if c := f.take(someCredential); c.Refused != 0 || c.Failed != 0 || c.Reason != "" || string(c.Value) != "one" {
		f.Errorf("got %+v", c)
	}
}

func ownerPauses(f *fixture) {
	pause := func(want time.Duration) {
		f.Helper()
		got, err := credential.Of(f.ring).PauseOwner(context.Background(), someCredential.Owner, "45009", 10*time.Minute, time.Minute, 5*time.Minute, time.Hour)
		if err != nil || got > want || got < want-10*time.Second {
			f.Fatalf("paused for %v, %v; want %v", got, err, want)
		}
	}
	pause(time.Minute)
	pause(time.Minute) // the same limit, hit by another check
	for _, name := range []string{"token", "other"} {
		c := f.take(credential.Ref{Owner: someCredential.Owner, Name: name})
		if c.Paused <= 50*time.Second || c.PauseReason != "45009" || c.Fence != 0 {
			f.Errorf("%s: %+v", name, c)
		}
	}
	if c := f.take(credential.Ref{Owner: "another", Name: "token"}); c.Paused != 0 || c.Fence == 0 {
		f.Errorf("another owner: %+v", c)
	}
	ended := func(ago time.Duration) {
		f.Helper()
		f.do("HSET", f.credentialKey(true), "until", time.Now().Add(-ago).UnixMilli())
	}
	for _, want := range []time.Duration{5 * time.Minute, time.Hour, time.Hour} {
		ended(time.Minute)
		pause(want)
	}
	ended(11 * time.Minute)
	pause(time.Minute)
	if ms := f.number("PTTL", f.credentialKey(true)); ms <= 600_000 || ms > 660_000 {
		f.Errorf("forgotten after %d ms", ms)
	}
}

func credentialBadInput(f *fixture) {
	ctx := context.Background()
	good := credential.Settlement{As: credential.Fetched, Value: []byte("x"), For: time.Minute, Refresh: time.Minute}
	with := func(change func(*credential.Settlement)) credential.Settlement {
		s := good
		change(&s)
		return s
	}
	for field, s := range map[string]credential.Settlement{
		"as":      with(func(s *credential.Settlement) { s.As = "odd" }),
		"value":   with(func(s *credential.Settlement) { s.Value = nil }),
		"refresh": with(func(s *credential.Settlement) { s.Refresh = time.Hour }),
		"for":     with(func(s *credential.Settlement) { s.For = 0 }),
		"reason":  {As: credential.Refused, Reason: strings.Repeat("x", 300), For: time.Minute},
	} {
		if _, err := credential.Of(f.ring).Settle(ctx, someCredential, 1, s); err == nil || !strings.Contains(err.Error(), field+":") || circulate.Unknown(err) {
			f.Errorf("%s: %v", field, err)
		}
	}
	_, err := credential.Of(f.ring).Take(ctx, credential.Ref{}, 0)
	for _, field := range []string{"owner", "name", "lease"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			f.Errorf("not all faults at once: %v", err)
		}
	}
	if _, err := credential.Of(f.ring).PauseOwner(ctx, "x", "", time.Minute); err == nil || !strings.Contains(err.Error(), "steps") {
		f.Errorf("no steps: %v", err)
	}
	if keys := f.strings("KEYS", f.ns+":credentials:*"); len(keys) > 0 {
		f.Errorf("something was written: %q", keys)
	}
	// Text that is no credential is set aside and holds nobody up.
	f.take(someCredential)
	key := f.credentialKey(false)
	f.do("DEL", key)
	f.do("SET", key, "x")
	if c := f.take(someCredential); c.Fence == 0 || f.ring.SetAside() != 1 {
		f.Errorf("got %+v, %d set aside", c, f.ring.SetAside())
	}
}

// credentialListed: what operators are shown of credentials, and never a value.
func credentialListed(f *fixture) {
	ctx := context.Background()
	store := credential.Of(f.ring)
	list := func(skip, most, want int) []credential.Listed {
		f.Helper()
		listed, passed, now, err := store.List(ctx, skip, most)
		if err != nil || len(listed) != want || passed < want || want > 0 && now.IsZero() {
			f.Fatalf("%d listed, %d passed, %v; want %d", len(listed), passed, err, want)
		}
		return listed
	}
	list(0, 10, 0)
	first, second := someCredential, credential.Ref{Owner: "another|é|\x00", Name: "another"}
	f.settleCredential(true, first, f.take(first).Fence, fetched("a value"))
	f.settleCredential(true, second, f.take(second).Fence, credential.Settlement{As: credential.Refused, Reason: "40001", For: time.Hour})
	all := list(0, 10, 2)
	refused, valid := all[0], all[1]
	if refused.Owner == first.Owner { // both were settled in one millisecond
		refused, valid = valid, refused
	}
	now, err := f.ring.Now(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	within := func(what string, at time.Time, want time.Duration) {
		f.Helper()
		if d := at.Sub(now); d > want+time.Minute || d < want-time.Minute {
			f.Errorf("%s: in %v, want %v", what, d, want)
		}
	}
	if valid.Owner != first.Owner || valid.ID == "" || valid.ID == refused.ID || !valid.Refused.IsZero() || !valid.Fetching.IsZero() || valid.Reason != "" {
		f.Errorf("valid: %+v", valid)
	}
	within("fetched", valid.Fetched, 0)
	within("refresh", valid.Refresh, 50*time.Minute)
	within("expires", valid.Expires, time.Hour)
	if refused.Owner != second.Owner || refused.Reason != "40001" || !refused.Expires.IsZero() || !refused.Fetched.IsZero() {
		f.Errorf("refused: %+v", refused)
	}
	within("refused", refused.Refused, time.Hour)
	if listed := list(1, 10, 1); listed[0] != all[1] {
		f.Errorf("the second page: %+v", listed)
	}

	// A credential that is forgotten is passed over.
	for _, key := range f.strings("KEYS", f.ns+":credentials:*") {
		if strings.Contains(key, "}:"+valid.ID) {
			f.do("DEL", key)
		}
	}
	if left := list(0, 10, 1); left[0].Owner != second.Owner {
		f.Errorf("the rest: %+v", left)
	}
	if _, _, _, err := store.List(ctx, 0, credential.MostListed+1); err == nil || circulate.Unknown(err) {
		f.Errorf("too many: %v", err)
	}
	// An index that something else has taken the place of is begun anew.
	index := "{" + f.ns + ":credentials}:settled"
	f.do("DEL", index)
	f.do("SET", index, "x")
	list(0, 10, 0)
	f.settleCredential(true, first, f.take(first).Fence, fetched("a value"))
	list(0, 10, 1)
}

// credentialsKept: those with a value are read for a backup, and one that is restored is used
// as if it had been fetched.
func credentialsKept(f *fixture) {
	ctx, store := context.Background(), credential.Of(f.ring)
	valid, refused := credential.Ref{Owner: "o|1", Name: "valid"}, credential.Ref{Owner: "o|2", Name: "refused"}
	f.settleCredential(true, valid, f.take(valid).Fence, fetched("a value"))
	f.settleCredential(true, refused, f.take(refused).Fence, credential.Settlement{As: credential.Refused, Reason: "40001", For: time.Hour})
	kept, passed, err := store.Values(ctx, 0, 10)
	if err != nil || passed != 2 || len(kept) != 1 || kept[0].Owner != "o|1" || string(kept[0].Value) != "a value" || !kept[0].Refresh.Before(kept[0].Expires) {
		f.Fatalf("%+v of %d, %v", kept, passed, err)
	}
	if none, passed, err := store.Values(ctx, 2, 10); err != nil || passed != 0 || len(none) != 0 {
		f.Errorf("behind the end: %+v of %d, %v", none, passed, err)
	}
	before := f.take(valid)
	for _, key := range f.strings("KEYS", f.ns+":credentials:*") {
		f.do("DEL", key)
	}
	for i, want := range []bool{true, true} { // it is safe to repeat
		if done, err := store.Restore(ctx, kept[0]); done != want || err != nil {
			f.Errorf("restore %d: %t, %v", i, done, err)
		}
	}
	after := f.take(valid)
	if string(after.Value) != "a value" || after.Fence != 0 || after.Expires > before.Expires || after.Expires < before.Expires-time.Minute || after.Version == 0 {
		f.Errorf("restored: %+v, was %+v", after, before)
	}
	if done, err := store.Drop(ctx, valid, after.Version); !done || err != nil {
		f.Errorf("drop: %t, %v", done, err)
	}
	if again := f.take(valid); again.Fence <= after.Version {
		f.Errorf("fence %d after version %d", again.Fence, after.Version)
	}
	kept[0].Expires = f.now()
	if done, err := store.Restore(ctx, kept[0]); done || err != nil {
		f.Errorf("one that has expired: %t, %v", done, err)
	}
	kept[0].ID = "x"
	if _, err := store.Restore(ctx, kept[0]); err == nil || circulate.Unknown(err) {
		f.Errorf("one without id: %v", err)
	}
}

// ownersListed: which owners are paused, and until when.
func ownersListed(f *fixture) {
	ctx := context.Background()
	store := credential.Of(f.ring)
	for i, owner := range []string{"a", "b", "c"} {
		if _, err := store.PauseOwner(ctx, owner, "45009", 10*time.Minute, time.Duration(i+1)*time.Minute); err != nil {
			f.Fatal(err)
		}
	}
	pauses, more, now, err := store.Paused(ctx, 2)
	if err != nil || len(pauses) != 2 || more != 1 || pauses[0].Owner != "c" || pauses[1].Owner != "b" || pauses[0].Reason != "45009" {
		f.Fatalf("%+v, %d more, %v", pauses, more, err)
	}
	if d := pauses[0].Until.Sub(now); d < 2*time.Minute || d > 3*time.Minute {
		f.Errorf("paused for %v", d)
	}
	// A pause that is over is not listed.
	for _, key := range f.strings("KEYS", f.ns+":credentials:*:pause") {
		f.do("HSET", key, "until", "1")
	}
	if pauses, _, _, err := store.Paused(ctx, 10); err != nil || len(pauses) != 0 {
		f.Errorf("%+v, %v", pauses, err)
	}
}
