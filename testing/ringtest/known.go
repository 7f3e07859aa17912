package ringtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// remembering is how the accounts of these tests remember.
var remembering = circulate.Remember{Messages: 64, For: time.Hour}

// withContent returns a message that its content identifies too.
func withContent(id, content string) circulate.Message {
	m := message(id)
	m.Content = content
	return m
}

// withoutID returns a message to which the third party gave no id.
func withoutID(content string) circulate.Message {
	m := withContent("of "+content, content)
	m.NoID = true
	return m
}

// resting registers accounts that are due in an hour.
func (f *fixture) resting(ids ...string) {
	f.Helper()
	for _, id := range ids {
		item := circulate.Registration{ID: id, Record: []byte(`{"id":"` + id + `"}`), Due: f.now().Add(time.Hour)}
		if _, err := f.ring.Register(context.Background(), 0, []circulate.Registration{item}); err != nil {
			f.Fatal(err)
		}
	}
}

// pages writes pages for an account that remembers, each by a step of its own, and returns
// what memory said.
func (f *fixture) pages(step string, r circulate.Remember, id string, pages ...[]circulate.Message) (judged []circulate.Judged) {
	f.Helper()
	f.do("ZADD", f.key("schedule"), "XX", 1, id)
	c := f.claim(alice, id)[0]
	for _, page := range pages {
		if step == "return" {
			items := []circulate.Return{{Claim: c, Kind: "feed", Messages: page, Remember: r}}
			outcomes, err := f.ring.Return(context.Background(), 0, items)
			if err != nil || outcomes[0] != circulate.Written {
				f.Fatalf("return: %v, %v", outcomes, err)
			}
			judged = append(judged, items[0].Judged)
			c = f.claim(alice, id)[0]
			continue
		}
		if err := f.ring.Progress(context.Background(), c, circulate.Page{Kind: "feed", Messages: page, Remember: r}); err != nil {
			f.Fatal(err)
		}
		judged = append(judged, c.Judged)
	}
	f.ret(circulate.Written, circulate.Return{Claim: c, Due: f.now().Add(time.Hour), Mark: circulate.MarkOK})
	return judged
}

// known returns all marks that an account remembers. Shorter numbers in the SETs are no
// marks.
func (f *fixture) known(id string) []string {
	f.Helper()
	all := append(f.strings("SMEMBERS", f.key("known:"+id)), f.strings("SMEMBERS", f.key("known_before:"+id))...)
	return slices.DeleteFunc(all, func(mark string) bool { return len(mark) < 19 })
}

// knownRules writes pages and compares what is in the stream with what should be.
func knownRules(f *fixture) {
	type page = []circulate.Message
	for name, tt := range map[string]struct {
		pages []page
		want  []string
	}{
		"a known id":                 {[]page{{message("1")}, {message("2"), message("1")}, {message("1")}}, []string{"1", "2"}},
		"twice in one page":          {[]page{{message("1"), message("1"), message("2")}}, []string{"1", "2"}},
		"an id whose content is new": {[]page{{withContent("1", "a")}, {withContent("1", "b")}}, []string{"1"}},
		// A person may write "ok" twice within a millisecond.
		"one content, two ids":                {[]page{{withContent("1", "ok")}, {withContent("2", "ok"), withContent("1", "ok")}}, []string{"1", "2"}},
		"one content, two ids, in one page":   {[]page{{withContent("1", "ok"), withContent("2", "ok")}}, []string{"1", "2"}},
		"first with its id, then without":     {[]page{{withContent("1", "a")}, {withoutID("a"), withoutID("b")}}, []string{"1", "of b"}},
		"the same in one page":                {[]page{{withContent("1", "a"), withoutID("a")}}, []string{"1"}},
		"never with an id":                    {[]page{{withoutID("a"), withoutID("a")}, {withoutID("b"), withoutID("a")}}, []string{"of a", "of b"}},
		"first without its id, then with":     {[]page{{withoutID("a")}, {withContent("1", "a")}, {withContent("1", "a"), withoutID("a")}}, []string{"of a"}},
		"that in one page":                    {[]page{{withoutID("a"), withContent("1", "a"), withoutID("a")}}, []string{"of a"}},
		"without its id, then two with":       {[]page{{withoutID("ok")}, {withContent("1", "ok")}, {withContent("2", "ok")}, {withContent("2", "ok"), withoutID("ok")}}, []string{"of ok", "2"}},
		"without its id, two with, in a page": {[]page{{withoutID("ok"), withContent("1", "ok"), withContent("2", "ok"), withoutID("ok")}, {withContent("1", "ok"), withContent("3", "ok")}}, []string{"of ok", "2", "3"}},
		"a content like an id":                {[]page{{message("a")}, {withoutID("a")}, {withContent("c", "a")}}, []string{"a", "of a"}},
	} {
		for _, step := range []string{"return", "progress"} {
			id := strings.NewReplacer(" ", "-", ",", "").Replace(step + "-" + name)
			f.resting(id)
			all := 0
			for _, p := range tt.pages {
				all += len(p)
			}
			repeated := 0
			for _, j := range f.pages(step, remembering, id, tt.pages...) {
				repeated += j.Repeated
			}
			var got []string
			for _, m := range f.found() {
				if m.Account == id {
					got = append(got, m.Message.ID)
				}
			}
			if !slices.Equal(got, tt.want) || repeated != all-len(tt.want) {
				f.Errorf("%s: %s: found %q and %d repetitions, want %q", step, name, got, repeated, tt.want)
			}
			if ms := f.number("PTTL", f.key("known:"+id)); ms <= 3_600_000 || ms > 7_200_000 {
				f.Errorf("%s: %s is forgotten in %d ms", step, name, ms)
			}
		}
	}
	f.conserved()
}

// knownApart expects that accounts do not know each other's messages, and that an account
// that remembers nothing has no key and gets every message.
func knownApart(f *fixture) {
	f.register("a", "b", "c")
	c := f.claim(alice, "a", "b", "c")
	items := []circulate.Return{
		{Claim: c[0], Kind: "feed", Messages: []circulate.Message{message("1"), message("1")}, Remember: remembering, Cursor: []byte("next"), Failures: 1, Error: "e"},
		{Claim: c[1], Kind: "feed", Messages: []circulate.Message{message("1"), message("1")}},
		{Claim: c[2], Kind: "other", Messages: []circulate.Message{withContent("1", "x"), message("2"), withoutID("x")}, Remember: remembering},
	}
	if outcomes, err := f.ring.Return(context.Background(), 0, items); err != nil || slices.Contains(outcomes, circulate.Fenced) {
		f.Fatalf("got %v, %v", outcomes, err)
	}
	if got, want := f.messages(), []string{"a/1", "b/1", "b/1", "c/1", "c/2"}; !slices.Equal(got, want) {
		f.Errorf("found %q, want %q", got, want)
	}
	if found := f.found(); found[3].Kind != "other" || found[0].Kind != "feed" {
		f.Errorf("kinds of %+v", found)
	}
	if items[0].Judged != (circulate.Judged{Repeated: 1}) || items[1].Judged != (circulate.Judged{}) || items[2].Judged != (circulate.Judged{Repeated: 1}) {
		f.Errorf("got %+v, %+v, %+v", items[0].Judged, items[1].Judged, items[2].Judged)
	}
	if len(f.known("a")) != 1 || len(f.known("b")) != 0 || len(f.known("c")) != 3 {
		f.Errorf("remembered: %q, %q, %q", f.known("a"), f.known("b"), f.known("c"))
	}
	if c := f.claim(bob, "a")[0]; string(c.Cursor) != "next" || c.Failures != 1 {
		f.Errorf("got %+v", c)
	}
}

// knownOfLostClaim expects that nothing is judged or remembered under a lost claim.
func knownOfLostClaim(f *fixture) {
	f.register("a", "b")
	claims := f.claim(alice, "a", "b")
	lost := claims[0]
	for _, h := range f.oldest() {
		if h.Entry.ID == "a" {
			f.requeue(circulate.Moved, h)
		}
	}
	mine := f.claim(bob, "a")[0]
	page := []circulate.Message{message("1")}
	outcomes, err := f.ring.Return(context.Background(), 0, []circulate.Return{
		{Claim: lost, Messages: page, Remember: remembering}, {Claim: claims[1], Due: soon(claims[1]), Messages: page, Remember: remembering},
	})
	if want := []circulate.Outcome{circulate.Fenced, circulate.Written}; err != nil || !slices.Equal(outcomes, want) {
		f.Fatalf("got %v, %v", outcomes, err)
	}
	if err := f.ring.Progress(context.Background(), lost, circulate.Page{Messages: []circulate.Message{message("1")}, Remember: remembering}); err == nil {
		f.Error("a lost claim was written")
	}
	if known := f.known("a"); len(known) != 0 {
		f.Errorf("remembered %q", known)
	}
	f.ret(circulate.Written, circulate.Return{Claim: mine, Messages: []circulate.Message{message("1")}, Remember: remembering})
	if got := f.messages(); !slices.Equal(got, []string{"b/1", "a/1"}) {
		f.Errorf("found %q", got)
	}
}

// knownIfRefused fills the stream up, so that it refuses messages. What it refused must
// not be remembered: the check finds it again.
func knownIfRefused(f *fixture) {
	ctx := context.Background()
	f.register("a")
	full := f.key("messages")
	f.do("XADD", full, "18446744073709551615-18446744073709551615", "account", "z")
	ids := []circulate.Message{message("1"), message("2"), message("3")}
	contents := []circulate.Message{withContent("1", "x"), withContent("2", "y"), withContent("3", "z")}
	mixed := []circulate.Message{message("1"), withContent("2", "x"), withoutID("y")}
	c := f.claim(alice, "a")[0]
	for _, page := range [][]circulate.Message{ids, contents, mixed} {
		if err := f.ring.Progress(ctx, c, circulate.Page{Messages: page, Remember: remembering}); err == nil {
			f.Error("a full stream took a page")
		}
		if _, err := f.ring.Return(ctx, 0, []circulate.Return{{Claim: c, Messages: page, Remember: remembering}}); err == nil {
			f.Error("a full stream took a return")
		}
		if known := f.known("a"); len(known) != 0 {
			f.Errorf("remembered %q", known)
		}
	}
	f.do("DEL", full)
	f.ret(circulate.Written, circulate.Return{Claim: c, Due: f.now().Add(time.Hour), Messages: mixed, Remember: remembering})
	if got := f.messages(); len(got) != 3 {
		f.Errorf("found %q", got)
	}
	// The stream takes only the first message of a page, which is known from then on.
	for i, page := range [][]circulate.Message{ids, contents, mixed} {
		for _, step := range []string{"progress", "return"} {
			id := fmt.Sprint(step, i)
			f.resting(id)
			f.do("ZADD", f.key("schedule"), "XX", 1, id)
			c := f.claim(alice, id)[0]
			f.do("DEL", full)
			f.do("XADD", full, "18446744073709551615-18446744073709551614", "account", "z")
			var err error
			if step == "progress" {
				err = f.ring.Progress(ctx, c, circulate.Page{Messages: page, Remember: remembering})
			} else {
				_, err = f.ring.Return(ctx, 0, []circulate.Return{{Claim: c, Messages: page, Remember: remembering}})
			}
			if err == nil {
				f.Errorf("%s: a full stream took a page", id)
			}
			f.do("DEL", full)
			items := []circulate.Return{{Claim: c, Due: f.now().Add(time.Hour), Messages: page, Remember: remembering}}
			if outcomes, err := f.ring.Return(ctx, 0, items); err != nil || outcomes[0] != circulate.Written {
				f.Fatalf("%s: %v, %v", id, outcomes, err)
			}
			if got := f.messages(); len(got) != 2 || items[0].Judged.Repeated != 1 {
				f.Errorf("%s: found %q after one of three, %+v", id, got, items[0].Judged)
			}
		}
	}
}

// knownUpToABound expects that the last messages are known, and the first ones not for
// ever. What is dropped before its time is counted.
func knownUpToABound(f *fixture) {
	f.resting("a")
	page := func(n int) (all []circulate.Message) {
		for i := range 16 {
			all = append(all, message(fmt.Sprint(16*n+i)))
		}
		return all
	}
	overruns := 0
	for n := range 8 {
		for _, j := range f.pages("progress", remembering, "a", page(n)) {
			if j.Overrun {
				overruns++
			}
		}
		if known := f.known("a"); len(known) > 64 || n >= 4 && len(known) < 32 {
			f.Errorf("after page %d: %d marks", n, len(known))
		}
	}
	if overruns != 2 && overruns != 3 {
		f.Errorf("%d overruns", overruns)
	}
	if j := f.pages("return", remembering, "a", page(7), page(6), page(5), page(4)); j[0].Repeated != 16 || j[1].Repeated != 16 || j[2].Repeated != 16 || j[3].Repeated != 16 {
		f.Errorf("the last 64 messages: got %+v", j)
	}
	// Marks of both sorts count.
	f.resting("b")
	for n := range 8 {
		var all []circulate.Message
		for i := range 16 {
			all = append(all, withContent(fmt.Sprint(n, i), fmt.Sprint(n, i)))
		}
		f.pages("return", remembering, "b", all)
		if known := f.known("b"); len(known) > 128 || n >= 4 && len(known) < 64 {
			f.Errorf("after page %d: %d marks", n, len(known))
		}
	}
	// A page may have more marks than any bound.
	f.resting("c")
	var all []circulate.Message
	for i := range 1500 {
		all = append(all, withContent(fmt.Sprint(i), fmt.Sprint(i)))
	}
	if j := f.pages("return", remembering, "c", all, all); j[1].Repeated != 1500 {
		f.Errorf("a long page: got %+v", j)
	}
}

// knownForATime expects that marks live as long as they should: at least For, and not for
// ever.
func knownForATime(f *fixture) {
	f.resting("a", "b")
	newer, older := f.key("known:a"), f.key("known_before:a")
	// passes has some periods pass, as long as For, for the newer marks.
	passes := func(periods int) {
		f.Helper()
		for _, mark := range f.strings("SMEMBERS", newer) {
			if period, err := strconv.Atoi(mark); err == nil && len(mark) < 19 && mark != "2" {
				f.do("SREM", newer, mark)
				f.do("SADD", newer, period-periods)
			}
		}
	}
	lives := func(key string, least, most time.Duration) {
		f.Helper()
		if left := time.Duration(f.number("PTTL", key)) * time.Millisecond; left < least || left > most {
			f.Errorf("%s is forgotten in %v, want %v to %v", key, left, least, most)
		}
	}
	page := func(want int, id string, messages ...circulate.Message) {
		f.Helper()
		if n := f.pages("return", remembering, id, messages)[0].Repeated; n != want {
			f.Errorf("%d repetitions, want %d", n, want)
		}
	}
	halves := func(inNewer, inOlder int) {
		f.Helper()
		marks := func(key string) (n int) {
			for _, mark := range f.strings("SMEMBERS", key) {
				if len(mark) == 19 {
					n++
				}
			}
			return n
		}
		if a, b := marks(newer), marks(older); a != inNewer || b != inOlder {
			f.Errorf("%d newer and %d older marks, want %d and %d", a, b, inNewer, inOlder)
		}
	}
	page(0, "a", message("1"))
	lives(newer, time.Hour+1, 2*time.Hour)
	f.do("PEXPIRE", newer, 1_800_000)
	passes(1)
	page(1, "a", message("1"))
	lives(newer, 0, 30*time.Minute) // a repetition prolongs nothing
	page(1, "a", message("1"), message("2"))
	lives(newer, time.Hour+1, 2*time.Hour)
	halves(2, 0)
	f.do("PEXPIRE", newer, 3_700_000)
	passes(1)
	page(0, "a", message("3"))
	halves(1, 2)
	lives(newer, time.Hour+1, 2*time.Hour)
	lives(older, time.Hour, 3_700_000*time.Millisecond)
	// The period ends, but the older marks may be young. They must not go.
	passes(1)
	page(1, "a", message("1"), message("4"))
	halves(2, 2)
	page(4, "a", message("1"), message("2"), message("3"), message("4"))
	passes(1)
	page(2, "a", message("3"), message("5"), message("4"))
	halves(1, 2)
	page(0, "a", message("1"))
	// Keys without an end get one.
	f.do("PERSIST", newer)
	passes(5)
	page(0, "a", message("6"))
	lives(newer, time.Hour+1, 2*time.Hour)
	lives(older, time.Hour+1, 2*time.Hour)
	halves(1, 2)

	// The marks of a page without ids are found in either SET.
	newer, older = f.key("known:b"), f.key("known_before:b")
	page(0, "b", withoutID("x"))
	passes(2)
	page(0, "b", withoutID("y"))
	halves(1, 1)
	page(3, "b", withContent("1", "x"), withContent("2", "y"), withContent("3", "x"), withoutID("x"))
	halves(5, 0)
}

// knownDeregistered expects that an account's memory goes with it.
func knownDeregistered(f *fixture) {
	ctx := context.Background()
	f.resting("a", "b")
	f.pages("return", remembering, "a", []circulate.Message{message("1")})
	f.pages("return", remembering, "b", []circulate.Message{message("1")})
	if n, err := f.ring.Deregister(ctx, 0, []string{"a", "absent"}); n != 1 || err != nil {
		f.Fatalf("got %d, %v", n, err)
	}
	if len(f.known("a")) != 0 || len(f.known("b")) != 1 {
		f.Errorf("remembered %q and %q", f.known("a"), f.known("b"))
	}
	b := f.ring.Account("b")
	if err := b.DeregisterIf(ctx, []byte("other")); !errors.Is(err, circulate.ErrNotRegistered) || len(f.known("b")) != 1 {
		f.Errorf("got %v, %q", err, f.known("b"))
	}
	if err := b.DeregisterIf(ctx, []byte(`{"id":"b"}`)); err != nil || len(f.known("b")) != 0 {
		f.Errorf("got %v, %q", err, f.known("b"))
	}
	f.resting("a")
	if j := f.pages("return", remembering, "a", []circulate.Message{message("1")}); j[0].Repeated != 0 {
		f.Error("the next account with the id knows the messages of the one before")
	}
}

// knownMistyped spoils the keys. The steps must go on.
func knownMistyped(f *fixture) {
	for _, name := range []string{"known:", "known_before:"} {
		for _, step := range []string{"return", "progress"} {
			id := step + "." + strings.TrimSuffix(name, ":")
			f.resting(id)
			f.do("SET", f.key(name+id), "spoilt")
			f.pages(step, remembering, id, []circulate.Message{message("1")})
			if j := f.pages(step, remembering, id, []circulate.Message{message("1"), message("2")}); j[0].Repeated != 1 {
				f.Errorf("%s: got %+v", id, j)
			}
			if aside := f.strings("KEYS", strings.NewReplacer("[", "?", "]", "?").Replace(f.key(name+id))+":set_aside:*"); len(aside) != 1 {
				f.Errorf("%s: set aside as %v, want one key", id, aside)
			}
		}
	}
	f.conserved()
}

// knownInTimeline expects a line for repetitions, and none for messages that were not
// written.
func knownInTimeline(f *fixture) {
	ctx := context.Background()
	f.tells(1000)
	f.register("a", "b")
	one := func(n int) []circulate.Message { return []circulate.Message{message(fmt.Sprint(n))} }
	next := func(pages ...[]circulate.Message) {
		f.Helper()
		f.tick()
		c := f.claim(alice, "a")[0]
		for i, page := range pages {
			if i < len(pages)-1 {
				if err := f.ring.Progress(ctx, c, circulate.Page{Messages: page, Remember: remembering}); err != nil {
					f.Fatal(err)
				}
				continue
			}
			f.ret(circulate.Written, circulate.Return{Claim: c, Mark: circulate.MarkOK, Messages: page, Remember: remembering})
		}
	}
	b := f.claim(alice, "a", "b")
	f.ret(circulate.Written, circulate.Return{Claim: b[0]})
	f.ret(circulate.Written, circulate.Return{Claim: b[1], Due: soon(b[1])})
	next(one(1))
	next(one(1))
	next(one(2), one(1), append(one(3), one(2)...))
	next(one(3), nil)
	next(one(4), nil)
	page, err := f.ring.Timeline().Before(ctx, "a", circulate.LinePlace{}, circulate.MaxLines)
	if err != nil {
		f.Fatal(err)
	}
	var lines []string
	for _, l := range page.Lines {
		lines = append(lines, fmt.Sprintf("%s %d", l.Event, l.N))
	}
	slices.Sort(lines)
	if want := []string{"found 1", "found 1", "found 2", "repeated 1", "repeated 1", "repeated 2"}; !slices.Equal(lines, want) {
		f.Errorf("got %q, want %q", lines, want)
	}
}
