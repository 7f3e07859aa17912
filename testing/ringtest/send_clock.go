package ringtest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// stamp is a time in a record of a send. FOR_EVER is none.
var stamp = regexp.MustCompile(`^[0-8]\d{12}$`)

// laterRecord moves the times in a record of a send: see sends.lua.
func laterRecord(record string, by time.Duration) string {
	lengths, fields, _ := strings.Cut(record, "|")
	moved := lengths + "|"
	for length := range strings.SplitSeq(strings.TrimSuffix(lengths, ","), ",") {
		n, _ := strconv.Atoi(length)
		field := fields[:n]
		if stamp.MatchString(field) {
			field = later(field, by)
		}
		moved, fields = moved+field, fields[n:]
	}
	return moved
}

// later moves a time in milliseconds.
func later(ms string, by time.Duration) string {
	n, _ := strconv.ParseInt(ms, 10, 64)
	return fmt.Sprintf("%013d", n+by.Milliseconds())
}

// pairs calls each with the pairs of a reply.
func pairs(all []string, each func(first, second string)) {
	for i := 0; i+1 < len(all); i += 2 {
		each(all[i], all[i+1])
	}
}

// ahead moves all times of the shard's sends, as if a clock that is ahead had written them.
func (o *outbox) ahead(by time.Duration) {
	o.Helper()
	pairs(o.strings("HGETALL", o.key("sends")), func(id, record string) {
		o.do("HSET", o.key("sends"), id, laterRecord(record, by))
	})
	pairs(o.strings("HGETALL", o.key("windows")), func(line, window string) {
		w := strings.SplitN(window, "|", 4)
		o.do("HSET", o.key("windows"), line, strings.Join([]string{later(w[0], by), w[1], later(w[2], by), w[3]}, "|"))
	})
	pairs(o.strings("ZRANGE", o.key("sends:ends"), 0, -1, "WITHSCORES"), func(member, at string) {
		o.do("ZADD", o.key("sends:ends"), later(at, by), member)
	})
	move := func(key string, at func(member string) int) {
		for _, member := range o.strings("ZRANGE", o.key(key), 0, -1) {
			if i := at(member); i >= 0 && member[i] != '9' {
				o.do("ZREM", o.key(key), member)
				o.do("ZADD", o.key(key), 0, member[:i]+later(member[i:i+13], by)+member[i+13:])
			}
		}
	}
	move("sends:due", func(member string) int { return strings.IndexByte(member, '\t') + 1 })
	move("sends:index", func(member string) int {
		if member[0] == 'w' {
			return -1
		}
		return len(member) - circulate.SendIDLength - 13
	})
}

// kept returns all that a shard has of sends, but their events.
func (o *outbox) kept() []string {
	o.Helper()
	var all []string
	for _, key := range []string{"sends", "windows", "sends:names"} {
		pairs(o.strings("HGETALL", o.key(key)), func(field, value string) { all = append(all, key+" "+field+" "+value) })
	}
	for _, key := range []string{"sends:ends", "sends:due", "sends:index", "sends:line"} {
		pairs(o.strings("ZRANGE", o.key(key), 0, -1, "WITHSCORES"), func(member, score string) { all = append(all, key+" "+member+" "+score) })
	}
	slices.Sort(all)
	return all
}

// sendRewound has sends in every state when a clock that was a day ahead goes back. Nothing waits
// for the day to pass: what is due, attempts, doubts and windows end as if the clock had always been
// right. Times that were right stay as they are.
func sendRewound(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a", "b")
	rewind := func() {
		f.Helper()
		if err := f.ring.Clocks().Rewind(ctx, 0, aDay, true); err != nil {
			f.Fatal(err)
		}
	}
	o.finds("a", circulate.Answerable{Peer: "anna", For: time.Hour, Count: 3, Token: "t"})
	o.finds("a", circulate.Answerable{Peer: "emil", For: time.Hour, Count: 3})
	under := o.queue(windowed("a", "anna", "1", false))
	attempt := o.attempt(alice, under)[0]
	died := o.queue(text("a", "finn", "1"))
	o.attempt(alice, died)
	doubt := o.queue(text("a", "ben", "1"))
	o.settle(true, o.attempt(alice, doubt)[0], circulate.Settlement{Outcome: circulate.AttemptUnknown})
	off := o.queue(text("a", "cleo", "1"))
	after := time.UnixMilli(f.now().Add(10 * time.Minute).UnixMilli())
	o.settle(true, o.attempt(alice, off)[0], circulate.Settlement{Outcome: circulate.AttemptAgain, After: after})
	due, behind := o.queue(text("a", "dora", "1")), o.queue(text("a", "dora", "2"))
	window, _, err := o.sends.Window(ctx, "a", "anna")
	if err != nil {
		f.Fatal(err)
	}
	before := o.kept()
	rewind()
	if now := o.kept(); !slices.Equal(now, before) {
		f.Errorf("of a clock that was right, it makes\n%s\nof\n%s", strings.Join(now, "\n"), strings.Join(before, "\n"))
	}
	if n, err := f.ring.Park(ctx, 0, circulate.ReasonPaused, []string{"b"}); n != 1 || err != nil {
		f.Fatal(n, err)
	}
	o.queue(text("b", "anna", "1"))
	o.accept(o.attempt(alice, due)[0]) // and the paused account's send is put off

	o.ahead(aDay)
	o.attempt(bob)
	o.sweep(0, nil)
	rewind()
	once := o.kept()
	rewind()
	if twice := o.kept(); !slices.Equal(once, twice) {
		f.Errorf("the second time, it makes\n%s\nof\n%s", strings.Join(twice, "\n"), strings.Join(once, "\n"))
	}
	if s := o.is(off, circulate.SendQueued); !s.NotBefore.Equal(after) && f.now().Before(after) {
		f.Errorf("put off until %v, want %v", s.NotBefore, after)
	}
	if s := o.is(doubt, circulate.SendUnknown); s.Since.After(f.now()) {
		f.Errorf("unknown since %v, and it is %v", s.Since, f.now())
	}
	if w, _, err := o.sends.Window(ctx, "a", "anna"); err != nil || !w.Until.Equal(window.Until) || w.Left != 2 || w.Token != "t" {
		f.Errorf("the window is %+v, %v; want until %v", w, err, window.Until)
	}
	for _, id := range []string{under, died} {
		if ends := o.number("ZSCORE", f.key("sends:ends"), id); time.UnixMilli(int64(ends)).After(f.now().Add(time.Minute)) {
			f.Errorf("an attempt ends at %d", ends)
		}
	}
	o.settle(true, attempt, circulate.Settlement{Outcome: circulate.AttemptNotBegun})
	o.window("a", "anna", 3, "t")
	o.attempt(bob, under, behind)
	o.sweep(0, []string{bob}, died)
	for _, member := range o.strings("ZRANGE", f.key("sends:due"), 0, -1) {
		if at, line := member[len(chat)+1:len(chat)+14], member[len(chat)+14:]; line == "b\x00anna" && at > later("0", time.Duration(f.now().Add(time.Minute).UnixMilli())*time.Millisecond) {
			f.Errorf("the paused account's send waits until %s", at)
		}
	}
	// A send that waited because its window seemed to be over goes out.
	f.do("HSET", f.key("windows"), "a\x00emil", "0000000000001|2|0000000000001|")
	waits := o.queue(windowed("a", "emil", "1", true))
	o.attempt(bob)
	f.do("HSET", f.key("windows"), "a\x00emil", later("0", time.Duration(f.now().Add(time.Hour).UnixMilli())*time.Millisecond)+"|2|0000000000001|")
	o.attempt(bob)
	rewind()
	o.attempt(bob, waits)
}
