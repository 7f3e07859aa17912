package circulate

import (
	"context"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var auditFileScript = wire.NewScript("audit file", lua("files"), lua("file_audit"))

const (
	auditFileRows     = 200   // rows in a step, with four look-ups each
	auditFilePage     = 1000  // objects or condemned names in a step, which only reads them
	auditFileAccount  = 500   // rows of accounts whose sums are counted again in a step
	auditFileObjects  = 20000 // objects whose rows are counted in an audit, which takes some 5 MiB
	auditFileAccounts = 100   // accounts that a step may count again
)

// FileFinding is something in the list of files that contradicts the rest of it.
type FileFinding struct {
	Of     string // file ID, object HASH, account ID, or total and the name of a sum
	Mended bool
}

// Audit checks the list of files against itself, in short atomic steps, and mends what it finds if it is
// told to: that each row is in the index, is judged from some time and, if it is kept, has an object;
// that each object has as many rows as it says, and each account and each total as many files and bytes.
// A row without an object is lost; an object without rows is condemned. [Ring.AuditShard] of the first
// shard does it too.
//
// Rows and accounts are judged within a step. What takes many steps to count may change meanwhile, so it
// is counted twice, and judged only if it stayed the same all the time. Of very many objects, each audit
// judges some, chosen at random.
func (l Files) Audit(ctx context.Context, mend bool) (found []FileFinding, err error) {
	err = l.audit(ctx, mend, func(_ context.Context, page []FileFinding) error {
		found = append(found, page...)
		return nil
	})
	return found, err
}

// audit calls looked after each step, with what that step has found. Its error ends the audit.
func (l Files) audit(ctx context.Context, mend bool, looked func(context.Context, []FileFinding) error) error {
	a := &fileAudit{list: l, mend: mend, looked: looked, seed: maphash.MakeSeed(), parts: 1, reported: make(map[string]bool)}
	if whole, err := a.listed(ctx); err != nil || !whole && !mend {
		return err // what the index lacks would be missing in all sums
	}
	if err := a.accounts(ctx); err != nil {
		return err
	}
	before, err := a.count(ctx)
	// What a step has mended changes the sums, so they are counted anew.
	for try := 0; err == nil && try < 3 && before.suspicious(); try++ {
		var after *fileCount
		if after, err = a.count(ctx); err != nil {
			return err
		}
		if !before.mended {
			if err := a.judge(ctx, before, after); err != nil {
				return err
			}
			break
		}
		before = after
	}
	if err != nil {
		return err
	}
	for what := range a.reported {
		if strings.HasPrefix(what, "total ") {
			return nil
		}
	}
	// The numbers alone take a single step, however much changes.
	_, _, err = a.step(ctx, "numbers")
	return err
}

type fileAudit struct {
	list     Files
	mend     bool
	looked   func(context.Context, []FileFinding) error
	seed     maphash.Seed
	large    []string // accounts that have too many rows for a step
	parts    int      // of the objects
	part     int      // that is counted
	reported map[string]bool
}

// step does a step, and returns the rest of its reply.
func (a *fileAudit) step(ctx context.Context, what string, args ...any) (rest []any, mended bool, err error) {
	reply, err := redis.Values(a.list.run(ctx, auditFileScript, append([]any{what, wire.Flag(a.mend)}, args...)...))
	if err != nil {
		return nil, false, err
	}
	var pairs []string
	if rest, err = redis.Scan(reply, &pairs); err != nil {
		return nil, false, fmt.Errorf("audit files: %w: %w", wire.ErrReply, err)
	}
	var page []FileFinding
	for i := 0; i+1 < len(pairs); i += 2 {
		if f := (FileFinding{pairs[i], pairs[i+1] == "1"}); !a.reported[f.Of] {
			a.reported[f.Of] = true
			page = append(page, f)
			mended = mended || f.Mended
		}
	}
	return rest, mended, a.looked(ctx, page)
}

// scan calls fn with pages of a HASH: fields and values.
func (a *fileAudit) scan(ctx context.Context, key, n int, fn func(pairs []string) error) error {
	for cursor := ScanDone; ; {
		replies, err := a.list.do(ctx, "audit files", wire.Command{"HSCAN", a.list.keys[key][0], cursor, "COUNT", n})
		if err != nil {
			return err
		}
		pairs, next, err := readPairs(replies[0])
		if err != nil {
			return fmt.Errorf("audit files: %w", err)
		}
		if err := fn(pairs); err != nil {
			return err
		}
		if cursor = next; cursor == ScanDone {
			return nil
		}
	}
}

// accounts counts the files of each account again.
func (a *fileAudit) accounts(ctx context.Context) error {
	return a.scan(ctx, fileAccounts, auditFileAccounts, func(pairs []string) error {
		some := make([]any, 0, len(pairs)/2)
		for i := 0; i+1 < len(pairs); i += 2 {
			some = append(some, pairs[i])
		}
		for len(some) > 0 {
			rest, _, err := a.step(ctx, "accounts", append([]any{auditFileAccount}, some[:min(len(some), auditFileAccounts)]...)...)
			if err != nil {
				return err
			}
			var n int
			var large []string
			if _, err := redis.Scan(rest, &n, &large); err != nil || n < 1 {
				return fmt.Errorf("audit files: %w", wire.ErrReply)
			}
			a.large, some = append(a.large, large...), some[n:]
		}
		return nil
	})
}

// fileCount is what the list has, as it was counted in many steps.
type fileCount struct {
	said    [2]map[string]string // the sums of the list, before and after
	sums    map[string]FileSum
	objects map[string]*fileObject // by their hash
	mended  bool
}

// fileObject is an object and the rows that have it.
type fileObject struct {
	text string // as the list has it
	says int    // how many rows that is
	rows int
	ids  uint64 // of these rows
}

// byAccount begins the names of the sums of accounts, among those of totals.
const byAccount = "account\x00"

// says reads the list's sums: its totals, and those of large accounts.
func (a *fileAudit) says(ctx context.Context) (map[string]string, error) {
	commands := []wire.Command{{"HGETALL", a.list.keys[fileTotals][0]}}
	for _, account := range a.large {
		commands = append(commands, wire.Command{"HGET", a.list.keys[fileAccounts][0], account})
	}
	replies, err := a.list.do(ctx, "audit files", commands...)
	if err != nil {
		return nil, err
	}
	said, err := redis.StringMap(replies[0], nil)
	for i, account := range a.large {
		if text, ok := replies[i+1].([]byte); ok {
			said[byAccount+account] = string(text)
		}
	}
	return said, err
}

// count counts everything once.
func (a *fileAudit) count(ctx context.Context) (*fileCount, error) {
	c := &fileCount{sums: make(map[string]FileSum), objects: make(map[string]*fileObject)}
	replies, err := a.list.do(ctx, "audit files", wire.Command{"HLEN", a.list.keys[fileObjects][0]})
	if err != nil {
		return nil, err
	}
	if n, _ := replies[0].(int64); a.parts == 1 && n > auditFileObjects {
		a.parts = int(n/auditFileObjects) + 1
		a.part = rand.IntN(a.parts)
	}
	if c.said[0], err = a.says(ctx); err != nil {
		return nil, err
	}
	err = a.scan(ctx, fileObjects, auditFilePage, func(pairs []string) error {
		for i := 0; i+1 < len(pairs); i += 2 {
			parts := append(strings.Split(pairs[i+1], "|"), "", "", "")
			size, _ := strconv.ParseInt(parts[1], 10, 64)
			c.add("objects", size)
			if a.counts(pairs[i]) {
				n, _ := strconv.Atoi(parts[2])
				c.objects[pairs[i]] = &fileObject{text: pairs[i+1], says: n}
			}
		}
		return a.looked(ctx, nil)
	})
	if err != nil {
		return nil, err
	}
	err = a.scan(ctx, fileCondemned, auditFilePage, func(pairs []string) error {
		for i := 0; i+1 < len(pairs); i += 2 {
			_, text, _ := strings.Cut(pairs[i+1], "|")
			size, _ := strconv.ParseInt(text, 10, 64)
			c.add("condemned", size)
		}
		return a.looked(ctx, nil)
	})
	if err != nil {
		return nil, err
	}
	if err := a.rows(ctx, c); err != nil {
		return nil, err
	}
	c.said[1], err = a.says(ctx)
	return c, err
}

// counts reports whether this audit counts the rows of an object.
func (a *fileAudit) counts(hash string) bool {
	return int(crc32.ChecksumIEEE([]byte(hash))%uint32(a.parts)) == a.part
}

func (c *fileCount) add(name string, bytes int64) {
	sum := c.sums[name]
	c.sums[name] = FileSum{sum.Files + 1, sum.Bytes + bytes}
}

// rows looks at all rows, by account, and counts them.
func (a *fileAudit) rows(ctx context.Context, c *fileCount) error {
	large := make(map[string]bool)
	for _, account := range a.large {
		large[account] = true
	}
	for at := "-"; at != ""; {
		rest, mended, err := a.step(ctx, "rows", at, auditFileRows)
		if err != nil {
			return err
		}
		c.mended = c.mended || mended
		var rows []string
		if _, err := redis.Scan(rest, &at, &rows); err != nil || len(rows)%6 != 0 {
			return fmt.Errorf("audit files: %w", wire.ErrReply)
		}
		for i := 0; i < len(rows); i += 6 {
			id, state, hash, kind, account := rows[i], rows[i+1], rows[i+3], rows[i+4], rows[i+5]
			size, _ := strconv.ParseInt(rows[i+2], 10, 64)
			if FileState(state[0]) != FileKept {
				c.add("lost", 0)
				continue
			}
			c.add("kept", size)
			c.add("kind:"+kind, size)
			if large[account] {
				c.add(byAccount+account, size)
			}
			if o := c.objects[hash]; o != nil {
				o.rows++
				o.ids ^= maphash.String(a.seed, id)
			}
		}
	}
	return nil
}

// more returns by how much a sum of the list is more than what was counted. It reports false if the sum
// changed meanwhile.
func (c *fileCount) more(name string) (sum FileSum, ok bool) {
	said, counted := readSum(c.said[0][name]), c.sums[name]
	return FileSum{said.Files - counted.Files, said.Bytes - counted.Bytes}, c.said[0][name] == c.said[1][name]
}

// names returns the names of all sums.
func (c *fileCount) names() map[string]bool {
	names := make(map[string]bool)
	for name := range c.said[0] {
		names[name] = true
	}
	for name := range c.sums {
		names[name] = true
	}
	return names
}

// suspicious reports whether something does not add up.
func (c *fileCount) suspicious() bool {
	for name := range c.names() {
		if more, ok := c.more(name); ok && more != (FileSum{}) {
			return true
		}
	}
	for _, o := range c.objects {
		if o.says != o.rows || o.rows == 0 {
			return true
		}
	}
	return c.mended
}

// judge judges what two counts agree on.
func (a *fileAudit) judge(ctx context.Context, before, after *fileCount) error {
	for hash, o := range after.objects {
		was := before.objects[hash]
		if o.says == o.rows && o.rows > 0 || was == nil || *was != *o {
			continue
		}
		if _, _, err := a.step(ctx, "object", hash, o.text, o.rows); err != nil {
			return err
		}
	}
	for name := range maps.Keys(after.names()) {
		was, stayed := before.more(name)
		is, stays := after.more(name)
		if !stayed || !stays || before.said[1][name] != after.said[0][name] || is != was || is == (FileSum{}) {
			continue
		}
		where, field := "totals", name
		if account, ok := strings.CutPrefix(name, byAccount); ok {
			where, field = "accounts", account
		}
		if _, _, err := a.step(ctx, "sum", where, field, is.Files, is.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// listed looks for rows that the index lacks, if it has another number of them. It reports whether it
// lacks none.
func (a *fileAudit) listed(ctx context.Context) (whole bool, err error) {
	rest, _, err := a.step(ctx, "listed")
	if err != nil {
		return false, err
	}
	var rows, indexed int
	if _, err := redis.Scan(rest, &rows, &indexed); err != nil {
		return false, fmt.Errorf("audit files: %w", wire.ErrReply)
	}
	if rows == indexed {
		return true, nil
	}
	err = a.scan(ctx, fileRows, auditFileRows, func(pairs []string) error {
		ids := make([]any, 0, len(pairs)/2)
		for i := 0; i+1 < len(pairs); i += 2 {
			ids = append(ids, pairs[i])
		}
		_, _, err := a.step(ctx, "unlisted", ids...)
		return err
	})
	return len(a.reported) == 0, err
}

// files finds what contradicts itself in the list of files. It belongs to no shard, so the audit of the
// first one does it. A namespace without files costs one command.
func (a *audit) files(ctx context.Context) error {
	if a.shard != 0 {
		return nil
	}
	list := a.ring.Files()
	exist := wire.Command{"EXISTS"}
	for _, key := range list.keys {
		exist = append(exist, key[0])
	}
	replies, err := list.do(ctx, "audit files", exist)
	if err != nil || replies[0] == int64(0) {
		return err
	}
	return list.audit(ctx, a.o.Repair, func(ctx context.Context, page []FileFinding) error {
		for _, f := range page {
			a.report(Misfiled, f.Of, f.Mended)
		}
		if a.o.Repair && len(page) > 0 {
			return nil
		}
		return a.pause(ctx)
	})
}
