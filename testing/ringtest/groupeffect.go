package ringtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// count is an effect that counts what it applied, and fails if it is told to.
var count = group.NewEffect("count", `
	if redis.call('SISMEMBER', KEYS[2], message.account .. '/' .. message.id) == 1 then error('told to fail') end
	redis.call('HINCRBY', KEYS[1], message.account .. '/' .. message.id, 1)
	redis.call('HSET', KEYS[1], ARGV[1], message.data .. message.type .. message.kind .. message.time)`)

func (f *fixture) apply(remember time.Duration, found []circulate.Found, want string, errs ...string) {
	f.Helper()
	a := group.Applying{Group: crew, Keys: []string{f.key("counts"), f.key("failing")}, Args: []any{"last"}, Remember: remember}
	if a.Keys[0] != f.ring.Tag(0)+":counts" {
		f.Errorf("tag %q", f.ring.Tag(0))
	}
	applied, failed, err := group.Of(f.ring).Apply(context.Background(), 0, count, a, found)
	if err != nil || string(applied) != want || len(failed) != len(errs) {
		f.Fatalf("applied %s, %q, %v; want %s", applied, failed, err, want)
	}
	for i, e := range errs {
		if !strings.Contains(failed[i], e) {
			f.Errorf("error %q, want %q", failed[i], e)
		}
	}
}

func effectOnce(f *fixture) {
	f.group(circulate.StreamStart)
	l := f.lease(alice)
	f.add("a/1", "b/1", "a/2", "c/1")
	found := f.read(l, "a/1", "b/1", "a/2", "c/1")
	f.do("SADD", f.key("failing"), "a/1")
	f.apply(0, found, "e1h1", "effect:2: told to fail") // a line of its own, not of the script around it
	f.pending(l, 1, 1)
	f.apply(0, found, "e0h0", "told to fail") // as after a lost reply
	f.do("DEL", f.key("failing"))
	f.apply(0, found, "1010")
	f.apply(0, found, "0000")
	f.pending(l)
	for _, name := range []string{"a/1", "b/1", "a/2", "c/1"} {
		if got := f.text("HGET", f.key("counts"), name); got != "1" {
			f.Errorf("%s was applied %s times", name, got)
		}
	}
	if got := f.text("HGET", f.key("counts"), "last"); got != `{"n":1}textfeed2026-11-20T09:30:00.5Z` {
		f.Errorf("the effect was given %q", got)
	}
	// An error of Redis is an error of the effect; nothing is acknowledged.
	f.do("DEL", f.key("counts"))
	f.do("SET", f.key("counts"), "spoilt")
	f.add("a/3")
	f.apply(0, f.read(l, "a/3"), "e", "WRONGTYPE")
	f.pending(l, 1)
}

// effectAmongMany applies few of very many that are pending.
func effectAmongMany(f *fixture) {
	f.group(circulate.StreamStart)
	l := f.lease(alice)
	f.add("a/1")
	for i := range 99 {
		f.add(fmt.Sprintf("b/%d", i))
	}
	batch, err := group.Of(f.ring).Read(context.Background(), l, 1000, 1<<20, false)
	if err != nil || len(batch.Messages) != 100 {
		f.Fatal(len(batch.Messages), err)
	}
	both := []circulate.Found{batch.Messages[0], batch.Messages[99]}
	f.apply(0, both, "11")
	f.apply(0, both, "00")
	f.apply(0, batch.Messages[:2], "01")
}

func effectRemembers(f *fixture) {
	f.group(circulate.StreamStart)
	l := f.lease(alice)
	f.add("a/1", "b/1")
	f.apply(time.Hour, f.read(l, "a/1", "b/1"), "11")
	// The group is rewound, and a/1 was found again after Redis forgot it.
	f.do("XGROUP", "DESTROY", f.key("messages"), crew)
	f.group(circulate.StreamStart)
	f.add("a/1", "a/2")
	found := f.read(l, "a/1", "b/1", "a/1", "a/2")
	f.apply(time.Hour, found, "2221")
	f.apply(time.Hour, found, "0000")
	f.pending(l)
	// Old entries are forgotten, and such a message is then applied again.
	key := f.key("messages") + ":applied:" + crew
	f.do("ZADD", key, 1, "b\x001", 1, "x\x001")
	f.add("b/1")
	f.apply(time.Hour, f.read(l, "b/1"), "1")
	if left := f.strings("ZRANGE", key, 0, -1); len(left) != 3 {
		f.Errorf("remembered are %q", left)
	}
	if ttl := f.number("PTTL", key); ttl <= 0 || ttl > 3_600_000 {
		f.Errorf("what is remembered lives for %d ms", ttl)
	}
}
