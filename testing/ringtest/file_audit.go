package ringtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/circulate"
)

// fileAudited spoils the list of files in one way after the other. Its audit finds each, and mends it, and
// so does the audit of the first shard. What two rows share, and what is lost or condemned, is no fault.
func fileAudited(f *fixture) {
	ctx, a := context.Background(), f.album()
	cat, same, dog, bird := a.picture("a", "1", 0, "cat"), a.picture("b", "1", 0, "cat"), a.picture("a", "2", 0, "bulldog"), a.picture("b", "2", 0, "bird")
	a.keep(cat, cat.Object)
	a.keep(same, cat.Object)
	a.keep(dog, dog.Object)
	a.keep(bird, bird.Object)
	lost := a.picture("c", "1", 0, "fish")
	lost.Hash, lost.Object, lost.Reason = "", "", "it was too late"
	if _, err := a.files.Lose(ctx, lost); err != nil {
		a.Fatal(err)
	}
	key := func(name string) string { return "{" + a.ns + ":files}:" + name }
	all := func() (texts []string) {
		for _, name := range []string{"rows", "objects", "condemned", "totals", "accounts"} {
			texts = append(texts, a.strings("HGETALL", key(name))...)
		}
		for _, name := range []string{"due", "index"} {
			texts = append(texts, a.strings("ZRANGE", key(name), 0, -1, "WITHSCORES")...)
		}
		slices.Sort(texts)
		return texts
	}
	audit := func(mend bool, want ...string) {
		f.Helper()
		found, err := a.files.Audit(ctx, mend)
		var got []string
		for _, one := range found {
			got = append(got, one.Of)
			if one.Mended != mend {
				f.Errorf("%s: mended %t", one.Of, one.Mended)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			f.Errorf("found %q, %v; want %q", got, err, want)
		}
	}
	audit(true)
	f.audit(true)
	well := all()
	spoil := func(what func(), want ...string) {
		f.Helper()
		what()
		audit(false, want...)
		audit(true, want...)
		if now := all(); !slices.Equal(now, well) {
			f.Errorf("after %q was mended:\n%q\nbefore:\n%q", want, now, well)
		}
	}
	do := func(command string, key string, args ...any) func() {
		return func() { a.do(command, append([]any{key}, args...)...) }
	}
	spoil(do("HSET", key("objects"), cat.Hash, cat.Object+"|3|1"), "object "+cat.Hash)
	spoil(do("HSET", key("objects"), cat.Hash, cat.Object+"|3|5"), "object "+cat.Hash)
	spoil(do("HSET", key("accounts"), "a", "2|11"), "account a")
	spoil(do("HDEL", key("accounts"), "b"), "account b")
	spoil(do("HSET", key("accounts"), "gone", "1|1"), "account gone")
	spoil(do("HSET", key("totals"), "kept", "4|18"), "total kept")
	spoil(do("HSET", key("totals"), "lost", "3|0"), "total lost")
	spoil(do("HDEL", key("totals"), "kind:"+chat), "total kind:"+chat)
	spoil(do("HSET", key("totals"), "kind:other", "1|2"), "total kind:other")
	spoil(do("HSET", key("totals"), "objects", "3|13"), "total objects")
	spoil(do("HSET", key("totals"), "condemned", "9|9"), "total condemned")
	spoil(do("ZREM", key("due"), dog.ID), "file "+dog.ID)
	member := a.strings("ZRANGE", key("index"), 0, 0)[0]
	spoil(do("ZREM", key("index"), member), "file "+member[len(member)-circulate.FileIDLength:])
	stray := "a\x000000000000001" + dog.ID
	spoil(do("ZADD", key("index"), 0, stray), "file "+dog.ID)

	// An object without rows is condemned, and a row without an object is lost.
	a.do("HSET", key("objects"), hashOf("old"), "old-1|3|2")
	a.do("HSET", key("totals"), "objects", "4|17")
	audit(true, "object "+hashOf("old"))
	a.condemned(same.Object, "old-1")
	a.do("HDEL", key("objects"), bird.Hash)
	a.do("HSET", key("totals"), "objects", "2|10")
	f.audit(false, "misfiled file "+bird.ID)
	f.audit(true, "misfiled file "+bird.ID)
	if row := a.look(bird.ID); row.State != circulate.FileLost || row.Reason != "the list had lost its object" || row.Name != bird.Name || !row.Judged.Equal(bird.Found) {
		a.Errorf("%+v", row)
	}
	a.totals("kept 3/13 lost 2 objects 2/10 condemned 2/6")
	f.audit(true)
}

// fileAuditedUnderWay: files come and go between the steps of an audit, which accuses nobody. An account that
// has too many files for a step is counted twice, and judged if it stays the same.
func fileAuditedUnderWay(f *fixture) {
	ctx, a := context.Background(), f.album()
	const n = 520
	key := func(name string) string { return "{" + a.ns + ":files}:" + name }
	p := a.picture("a", "0", 0, "cat")
	a.keep(p, p.Object)
	text := a.strings("HMGET", key("rows"), p.ID)[0]
	rows, due, index := []any{key("rows")}, []any{key("due")}, []any{key("index")}
	for i := 1; i < n; i++ {
		id := circulate.NewFileID("a", circulate.FileOfMessage, fmt.Sprint(i), 0)
		rows = append(rows, id, strings.Replace(text, `"of":"0"`, fmt.Sprintf(`"of":"%d"`, i), 1))
		due = append(due, p.Found.UnixMilli(), id)
		index = append(index, 0, fmt.Sprintf("a\x00%013d%s", p.Found.UnixMilli(), id))
	}
	a.do("HSET", rows...)
	a.do("ZADD", due...)
	a.do("ZADD", index...)
	sum := fmt.Sprintf("%d|%d", n, 3*n)
	a.do("HSET", key("objects"), p.Hash, fmt.Sprintf("%s|3|%d", p.Object, n))
	a.do("HSET", key("totals"), "kept", sum, "kind:"+chat, sum)
	a.do("HSET", key("accounts"), "a", sum)
	a.do("HSET", key("accounts"), "a", fmt.Sprintf("%d|%d", n, 3*n+7))
	f.audit(true, "misfiled account a")
	f.audit(true)

	// Between two steps a row comes behind or before the audit, and another one goes.
	steps := 0
	move := func(context.Context) error {
		steps++
		next := a.picture([]string{"0", "b"}[steps%2], fmt.Sprint(steps), 0, "cat")
		a.keep(next, p.Object)
		a.end(nil, circulate.NewFileID("a", circulate.FileOfMessage, fmt.Sprint(steps), 0))
		return nil
	}
	for _, repair := range []bool{false, true} {
		found, err := f.ring.AuditShard(ctx, 0, circulate.AuditOptions{Repair: repair, Pause: move})
		if err != nil || len(found.Findings) > 0 {
			f.Errorf("found %v, %v", found.Findings, err)
		}
	}
	if steps < 12 {
		f.Errorf("%d steps", steps)
	}
	a.do("HSET", key("totals"), "kept", fmt.Sprintf("%d|%d", n+1, 3*n))
	found, err := f.ring.AuditShard(ctx, 0, circulate.AuditOptions{Pause: move})
	if err != nil || len(found.Findings) != 1 || found.Findings[0].ID != "total kept" {
		f.Errorf("found %v, %v", found.Findings, err)
	}
}
