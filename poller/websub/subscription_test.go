package websub

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // hubs sign with it
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// Only what the hub signed with the secret is accepted, by each method of section 7.1.
func TestVerify(t *testing.T) {
	s := Subscription{Secret: "0123456789abcdef"}
	sign := func(made func() hash.Hash, secret, body string) string {
		mac := hmac.New(made, []byte(secret))
		mac.Write([]byte(body))
		return hex.EncodeToString(mac.Sum(nil))
	}
	const body = "<feed/>"
	full := strings.Repeat("x", maxPush)
	for name, test := range map[string]struct {
		signature, body string
		want            bool
	}{
		"sha1":              {"sha1=" + sign(sha1.New, s.Secret, body), body, true},
		"sha256":            {"sha256=" + sign(sha256.New, s.Secret, body), body, true},
		"sha384":            {"sha384=" + sign(sha512.New384, s.Secret, body), body, true},
		"sha512":            {"sha512=" + sign(sha512.New, s.Secret, body), body, true},
		"in capitals":       {"SHA256=" + strings.ToUpper(sign(sha256.New, s.Secret, body)), body, true},
		"as much as may be": {"sha256=" + sign(sha256.New, s.Secret, full), full, true},
		"a byte more":       {"sha256=" + sign(sha256.New, s.Secret, full+"x"), full + "x", false},
		"cut":               {"sha256=" + sign(sha256.New, s.Secret, full), full + "x", false},
		"another body":      {"sha256=" + sign(sha256.New, s.Secret, body), body + " ", false},
		"another secret":    {"sha256=" + sign(sha256.New, "another", body), body, false},
		"another method":    {"sha512=" + sign(sha256.New, s.Secret, body), body, false},
		"unknown method":    {"md5=" + sign(sha256.New, s.Secret, body), body, false},
		"half a sum":        {"sha256=" + sign(sha256.New, s.Secret, body)[:32], body, false},
		"no sum":            {"sha256=", body, false},
		"none":              {"", body, false},
	} {
		if err := s.Verify(test.signature, strings.NewReader(test.body)); (err == nil) != test.want {
			t.Errorf("%s: %v, want accepted %t", name, err, test.want)
		}
	}
	if err := s.Verify("sha256="+sign(sha256.New, s.Secret, body), io.MultiReader(strings.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF))); err == nil {
		t.Error("a push that broke off was accepted")
	}
}

// What may be in a hint counts only if it is for this subscription, and within bounds.
func TestHeed(t *testing.T) {
	const token = "0123456789abcdefghijkl"
	hear := func(h Heard) json.RawMessage { return h.Hint() }
	for name, test := range map[string]struct {
		hint   json.RawMessage
		pushed bool
		until  time.Duration
		denied bool
	}{
		"nothing":               {nil, false, 0, false},
		"a hint of somebody":    {json.RawMessage(`{"page":2}`), false, 0, false},
		"no JSON":               {json.RawMessage(`{`), false, 0, false},
		"a push":                {hear(Heard{What: HeardPush, Token: token}), true, 0, false},
		"a push of the last":    {hear(Heard{What: HeardPush, Token: token + "x"}), false, 0, false},
		"a lease":               {hear(Heard{What: HeardLease, Lease: 86400, Token: token}), false, 24 * time.Hour, false},
		"no length":             {hear(Heard{What: HeardLease, Token: token}), false, leaseUntold, false},
		"a lease of a second":   {hear(Heard{What: HeardLease, Lease: 1, Token: token}), false, leaseLeast, false},
		"a lease of a century":  {hear(Heard{What: HeardLease, Lease: 1 << 62, Token: token}), false, leaseMost, false},
		"a lease that is ended": {hear(Heard{What: HeardLease, Lease: -1, Token: token}), false, leaseUntold, false},
		"a refusal":             {hear(Heard{What: HeardDenied, Token: token}), false, 0, true},
	} {
		s := &Subscription{Token: token}
		pushed := s.heed(test.hint, noon)
		until := time.Duration(0)
		if !s.Until.IsZero() {
			until = s.Until.Sub(noon)
		}
		if pushed != test.pushed || until != test.until || s.Denied != test.denied {
			t.Errorf("%s: pushed %t, lease %v, denied %t", name, pushed, until, s.Denied)
		}
	}
	if bytes.Contains(hear(Heard{What: HeardPush, Token: token}), []byte(token)) {
		t.Error("the token is in the hint")
	}
}

// An account rests while pushes announce what is found, and keeps its cadence otherwise.
func TestTrust(t *testing.T) {
	type step struct {
		after                time.Duration
		push, found, resting bool
	}
	for name, steps := range map[string][]step{
		"pushes come":                    {{time.Hour, false, true, false}, {time.Hour, true, true, true}, {time.Hour, true, true, true}, {6 * time.Hour, false, false, true}},
		"a push was missed":              {{time.Hour, true, true, true}, {6 * time.Hour, false, true, false}, {time.Hour, true, true, true}},
		"a cache shows it later":         {{time.Hour, true, true, true}, {time.Hour, true, false, false}, {5 * time.Minute, false, true, false}},
		"another page of the push":       {{time.Hour, true, true, true}, {time.Second, true, false, true}, {time.Second, false, true, true}},
		"the lease ends":                 {{time.Hour, true, true, true}, {10 * 24 * time.Hour, false, false, false}},
		"it was never pushed, but found": {{time.Hour, false, true, false}, {time.Hour, false, true, false}},
	} {
		s := &Subscription{Token: "t", Until: noon.Add(9 * 24 * time.Hour), Lease: 9 * 24 * 3600, Asked: noon}
		now := noon
		for i, step := range steps {
			now = now.Add(step.after)
			recent := s.recent(now)
			if step.push {
				s.heed(Heard{What: HeardPush, Token: "t"}.Hint(), now)
			}
			s.learn(step.push, recent, step.found)
			if got := s.rests(now) > 0; got != step.resting {
				t.Errorf("%s: resting is %t after step %d", name, got, i)
			}
			if s.rests(now) > backstop {
				t.Errorf("%s: it rests for %v", name, s.rests(now))
			}
		}
	}
}

// A hub is asked at once, then ever more rarely, and again in the last third of a lease. A year of a
// check a minute makes few calls.
func TestAHubIsAskedRarely(t *testing.T) {
	year := func(answers func(s *Subscription, now time.Time)) (asked int) {
		s := &Subscription{Token: "t"}
		for now := noon; now.Before(noon.Add(365 * 24 * time.Hour)); now = now.Add(time.Minute) {
			if s.due(now) {
				asked++
				s.Asked, s.Denied = now, false
				s.Asks++
				answers(s, now)
			}
		}
		return asked
	}
	lease := func(seconds int) func(*Subscription, time.Time) {
		return func(s *Subscription, now time.Time) {
			s.heed(Heard{What: HeardLease, Lease: seconds, Token: "t"}.Hint(), now)
		}
	}
	if n := year(func(*Subscription, time.Time) {}); n < 360 || n > 372 {
		t.Errorf("a hub that never answers was asked %d times", n)
	}
	if n := year(func(s *Subscription, now time.Time) { s.heed(Heard{What: HeardDenied, Token: "t"}.Hint(), now) }); n < 360 || n > 372 {
		t.Errorf("a hub that refuses was asked %d times", n)
	}
	if n := year(lease(10 * 24 * 3600)); n < 54 || n > 56 { // after two thirds of ten days
		t.Errorf("a hub with leases of ten days was asked %d times", n)
	}
	// A lease is not renewed before its end if the hub does not answer.
	s := &Subscription{Token: "t", Asked: noon, Until: noon.Add(24 * time.Hour), Lease: 24 * 3600}
	if s.due(noon.Add(15*time.Hour)) || !s.due(noon.Add(17*time.Hour)) {
		t.Error("a lease of a day is not renewed after 16 hours")
	}
	s.Asked, s.Asks = noon.Add(17*time.Hour), 1
	if s.due(noon.Add(17*time.Hour+30*time.Minute)) || !s.due(noon.Add(18*time.Hour)) {
		t.Error("the hub is not asked again an hour later")
	}
}

// A document may name anything, and at most what can be stored and called is taken.
func TestValid(t *testing.T) {
	long := strings.Repeat("x", maxAddress+1)
	good := Subscription{Hub: "https://h", Topic: "https://t", Token: random(), Secret: random()}
	if !good.Valid() {
		t.Error("a subscription cannot be used")
	}
	for _, change := range []func(*Subscription){
		func(s *Subscription) { s.Hub = "" }, func(s *Subscription) { s.Hub = long }, func(s *Subscription) { s.Topic = long },
		func(s *Subscription) { s.Token = "" }, func(s *Subscription) { s.Secret = "" },
	} {
		bad := good
		if change(&bad); bad.Valid() {
			t.Errorf("%+v is valid", bad)
		}
	}
	if good.Is("") || good.Is(good.Token+"x") || !good.Is(good.Token) {
		t.Error("another token is the subscription's")
	}
}

// A feed with an item about every three hours for a month, at a cadence of five minutes: what pushes save.
func TestCallsSaved(t *testing.T) {
	const every, days = 5 * time.Minute, 30
	random := rand.New(rand.NewPCG(1, 2))
	s := &Subscription{Token: "t", Until: noon.Add(days * 24 * time.Hour), Lease: days * 24 * 3600, Asked: noon}
	end := noon.Add(days * 24 * time.Hour * 2 / 3) // then the lease is renewed
	item := noon
	next := func() { item = item.Add(time.Duration(random.ExpFloat64() * float64(3*time.Hour))) }
	next()
	calls, items, late := 0, 0, time.Duration(0)
	for due := noon; due.Before(end); {
		now, pushed := due, false
		if !item.After(due) {
			now, pushed = item, true
		}
		found := !item.After(now)
		recent := s.recent(now)
		if pushed {
			s.heed(Heard{What: HeardPush, Token: "t"}.Hint(), now)
		}
		if found {
			items++
			late += now.Sub(item)
			next()
		}
		s.learn(pushed, recent, found)
		calls++
		due = now.Add(max(every, s.rests(now)))
	}
	polls := int(end.Sub(noon) / every)
	t.Logf("%d calls in place of %d for %d items", calls, polls, items)
	if calls > polls/20 || items < 100 || late > 0 {
		t.Errorf("%d calls in place of %d; items were %v late in all", calls, polls, late)
	}
}
