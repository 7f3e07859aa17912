package backup

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func open(t *testing.T, server circulate.Server, namespace string, shards int) *circulate.Ring {
	t.Helper()
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Namespace: namespace, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// register registers an account that is due at once.
func register(t *testing.T, ring *circulate.Ring, id string, begin *circulate.Begin) {
	t.Helper()
	item := circulate.Registration{ID: id, Record: fmt.Appendf(nil, `{"id":%q,"kind":"plain"}`, id), Due: time.UnixMilli(1)}
	if begin != nil {
		item.Begin = begin
	}
	_, err := ring.Account(id).Register(t.Context(), item)
	must(t, err)
}

// checkDue claims what is due in a shard and returns it with what each finds.
func checkDue(ctx context.Context, ring *circulate.Ring, shard, most int, found func(*circulate.Claim) circulate.Return) error {
	batch, err := ring.Claim(ctx, shard, "replica001", most, 0)
	if err != nil {
		return err
	}
	items := make([]circulate.Return, len(batch.Claims))
	for i := range batch.Claims {
		items[i] = found(&batch.Claims[i])
	}
	if len(items) == 0 {
		return nil
	}
	_, err = ring.Return(ctx, shard, items)
	return err
}

// contents are all accounts of a ring by id, without what a restore changes, and the messages
// of each account in their order.
func contents(t *testing.T, ring *circulate.Ring) (map[string]circulate.Archived, map[string][]string, []string) {
	t.Helper()
	accounts, messages := make(map[string]circulate.Archived), make(map[string][]string)
	var dead []string
	for shard := range ring.Shards() {
		for cursor := ""; cursor != circulate.ScanDone; {
			all, next, err := ring.Archive().Accounts(t.Context(), shard, cursor, 10)
			must(t, err)
			for _, a := range all {
				if a.Standing == circulate.StandsWaiting {
					a.Standing = circulate.StandsScheduled
				}
				accounts[a.ID] = a
			}
			cursor = next
		}
		found, err := ring.Streams().Messages(t.Context(), shard, circulate.StreamStart, 10_000)
		must(t, err)
		for _, m := range found {
			messages[m.Account] = append(messages[m.Account], fmt.Sprintf("%s%s %s %s %s %s %q", m.Only, m.First, m.Kind, m.Message.ID, m.Message.Type, m.Message.Time.Format(time.RFC3339Nano), m.Message.Data))
		}
		letters, err := ring.Archive().Letters(t.Context(), shard, circulate.StreamStart, 1000)
		must(t, err)
		for _, l := range letters {
			dead = append(dead, strings.Join(l.Fields, "\x00"))
		}
	}
	slices.Sort(dead)
	return accounts, messages, dead
}

// fill makes accounts of all sorts: due, waiting, claimed, parked, with cursors of any bytes,
// and messages that a group has read in part.
func fill(t *testing.T, ring *circulate.Ring) {
	t.Helper()
	ctx := t.Context()
	for i := range 300 {
		register(t, ring, fmt.Sprintf("account/%d é", i), nil)
	}
	since := time.UnixMilli(1_600_000_000_000)
	register(t, ring, "parked", &circulate.Begin{Park: "gone: \xff", Since: since, Failures: 16, Cursor: []byte("\x00\xfe")})
	n := 0
	for shard := range ring.Shards() {
		must(t, checkDue(ctx, ring, shard, 1000, func(c *circulate.Claim) circulate.Return {
			n++
			back := circulate.Return{Claim: c, Kind: "plain", Rule: 'e', Mark: '+', Due: time.UnixMilli(int64(2_000_000_000_000 + n))}
			back.Cursor = []byte(strings.Repeat(fmt.Sprint("\xf0", n), 1+n%40))
			for m := range n % 3 {
				data := []string{`{"html":"<b>&\u2028"}`, ` { "spaced" : 1e400 } `, ``}[m%3]
				back.Messages = append(back.Messages, circulate.Message{ID: fmt.Sprintf("%d-%d", n, m), Type: "text", Data: []byte(data)})
			}
			return back
		}))
	}
	for i := range 20 {
		must(t, ring.Account(fmt.Sprintf("account/%d é", i)).Nudge(ctx, circulate.Nudge{}))
	}
	_, err := ring.Claim(ctx, ring.ShardOf("account/1 é"), "replica001", 2, 0)
	must(t, err)
	must(t, ring.Archive().LoadLetters(ctx, ring.ShardOf("parked"), []circulate.Letter{{Fields: []string{"account", "parked", "data", "\xff\x00"}}}))
	shard, position := bury(t, ring, "account/7 é", "replayed")
	replay(t, ring, shard, position)
}

// bury puts a letter that the group crm could not handle among an account's dead letters.
func bury(t *testing.T, ring *circulate.Ring, account, id string) (shard int, position string) {
	t.Helper()
	shard = ring.ShardOf(account)
	must(t, ring.Archive().LoadLetters(t.Context(), shard, []circulate.Letter{{Fields: []string{
		"for", "crm", "error", "bad", "deliveries", "8", "position", "5-1", "account", account, "kind", "plain", "id", id, "type", "", "time", "", "data", "{}",
	}}}))
	letters, err := group.Of(ring).DeadLetters(t.Context(), shard, circulate.StreamStart, 1000)
	must(t, err)
	return shard, letters[len(letters)-1].Position
}

func replay(t *testing.T, ring *circulate.Ring, shard int, position string) {
	t.Helper()
	if at, err := group.Of(ring).ReplayDead(t.Context(), shard, position); err != nil || at == "" {
		t.Fatalf("replayed to %q, %v", at, err)
	}
}

// unread returns the messages of each account that a group has not acknowledged, in their
// order. Those that it had read are marked.
func unread(t *testing.T, ring *circulate.Ring, group string) map[string][]string {
	t.Helper()
	left := make(map[string][]string)
	for shard := range ring.Shards() {
		positions, err := ring.Archive().Groups(t.Context(), shard)
		must(t, err)
		for _, p := range positions {
			if p.Group != group {
				continue
			}
			pending := make(map[string]int)
			for _, m := range p.Pending {
				pending[m.Position.String()] = m.Deliveries
			}
			found, err := ring.Streams().Messages(t.Context(), shard, circulate.StreamStart, 10_000)
			must(t, err)
			for _, m := range found {
				at, err := circulate.ParseStreamID(m.Position)
				must(t, err)
				if n := pending[m.Position]; n > 0 {
					left[m.Account] = append(left[m.Account], fmt.Sprintf("%s, delivered %d times", m.Message.ID, n))
				} else if p.After.Before(at) {
					left[m.Account] = append(left[m.Account], m.Message.ID)
				}
			}
		}
	}
	return left
}

// bare returns the ids of messages without their marks.
func bare(marked []string) []string {
	ids := slices.Clone(marked)
	for i := range ids {
		ids[i], _, _ = strings.Cut(ids[i], ",")
	}
	return ids
}

// readHalf has a group read and acknowledge half of each shard's messages, and get one more
// for the third time.
func readHalf(t *testing.T, ring *circulate.Ring, server circulate.Server, group string) {
	t.Helper()
	for shard := range ring.Shards() {
		_, err := ring.Streams().EnsureGroup(t.Context(), shard, group, circulate.StreamStart)
		must(t, err)
		key := ring.Tag(shard) + ":messages"
		conn, err := server.Conn(t.Context(), key)
		must(t, err)
		all, err := redis.Int(conn.Do("XLEN", key))
		must(t, err)
		if all > 1 {
			_, err = conn.Do("XREADGROUP", "GROUP", group, "c", "COUNT", all/2+1, "STREAMS", key, ">")
			must(t, err)
			found, err := ring.Streams().Messages(t.Context(), shard, circulate.StreamStart, all/2+1)
			must(t, err)
			for _, m := range found[:all/2] {
				_, err = conn.Do("XACK", key, group, m.Position)
				must(t, err)
			}
			_, err = conn.Do("XCLAIM", key, group, "c", 0, found[all/2].Position, "RETRYCOUNT", 3, "JUSTID")
			must(t, err)
		}
		must(t, conn.Close())
	}
}

func TestRestoreIsWhatWasThere(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		from := open(t, server, "from", 6)
		fill(t, from)
		readHalf(t, from, server, "crm")
		var file bytes.Buffer
		written, err := Write(t.Context(), from, &file, Options{Program: "v1"})
		must(t, err)
		counts := written.Counts
		found, err := Verify(bytes.NewReader(file.Bytes()), nil)
		header, verified := found.Header, found.Counts
		if err != nil || verified != counts || header.Shards != 6 || header.Namespace != "from" || counts.Accounts < 301 || counts.Messages < 100 || counts.Groups != 6 || counts.Dead != 1 {
			t.Fatalf("verified %+v of %+v, wrote %+v, %v", verified, header, counts, err)
		}
		if written.SHA256 == "" || written.SHA256 != found.SHA256 || written.Bytes != int64(file.Len()) || !written.Began.Equal(header.Time) {
			t.Errorf("wrote %+v, and it has %s, %v, %d bytes", written, found.SHA256, header.Time, file.Len())
		}
		wantAccounts, wantMessages, wantDead := contents(t, from)
		for _, shards := range []int{6, 4, 1} {
			to := open(t, server, fmt.Sprintf("to%d", shards), shards)
			restored, err := Restore(t.Context(), to, bytes.NewReader(file.Bytes()), Restoring{})
			if err != nil || restored.Counts != counts {
				t.Fatalf("%d shards: restored %+v, %v", shards, restored, err)
			}
			accounts, messages, dead := contents(t, to)
			if len(accounts) != len(wantAccounts) {
				t.Errorf("%d shards: %d accounts, want %d", shards, len(accounts), len(wantAccounts))
			}
			for id, want := range wantAccounts {
				got := accounts[id]
				if want.At.Before(time.UnixMilli(2_000_000_000_000)) && want.Standing == circulate.StandsScheduled {
					got.At, want.At = time.Time{}, time.Time{} // due at once
				}
				if got != want {
					t.Errorf("%d shards: %q is\n%+v, want\n%+v", shards, id, got, want)
				}
			}
			if !maps.EqualFunc(messages, wantMessages, slices.Equal) {
				t.Errorf("%d shards: messages differ", shards)
			}
			if !slices.Equal(dead, wantDead) {
				t.Errorf("%d shards: dead letters %q, want %q", shards, dead, wantDead)
			}
			left := unread(t, to, "crm")
			for account, ids := range unread(t, from, "crm") {
				if all := left[account]; len(all) < len(ids) || !slices.Equal(bare(all[len(all)-len(ids):]), bare(ids)) {
					t.Errorf("%d shards: of %q are left %v, want %v at the end", shards, account, all, ids)
				}
			}
			if shards == 6 && !maps.EqualFunc(left, unread(t, from, "crm"), slices.Equal) {
				t.Error("in as many shards a group is exactly where it was")
			}
			for shard := range to.Shards() {
				if found, err := to.AuditShard(t.Context(), shard, circulate.AuditOptions{}); err != nil || len(found.Findings) > 0 {
					t.Errorf("%d shards: audit of shard %d: %+v, %v", shards, shard, found, err)
				}
			}
		}
	})
}

// A dead letter that is replayed while a backup is taken is in it, for the group that it was
// replayed for. It may be replayed before any command of the backup.
func TestALetterThatIsReplayedIsInTheBackup(t *testing.T) {
	server := redistest.Embedded(t)
	most := 0 // commands of a backup
	for moment := 0; moment <= most; moment++ {
		ring := open(t, server, fmt.Sprint("letters", moment), 2)
		register(t, ring, "a", nil)
		for shard := range ring.Shards() {
			_, err := ring.Streams().EnsureGroup(t.Context(), shard, "crm", circulate.StreamStart)
			must(t, err)
		}
		shard, position := bury(t, ring, "a", "m1")
		commands := 0
		observed, err := circulate.Open(t.Context(), disturbed{server, func() {
			if commands++; commands == moment {
				replay(t, ring, shard, position)
			}
		}}, circulate.Options{Namespace: ring.Namespace()})
		must(t, err)
		var file bytes.Buffer
		counts, err := Write(t.Context(), observed, &file, Options{})
		must(t, err)
		most = max(most, commands)
		if counts.Dead+counts.Messages == 0 {
			t.Errorf("replayed before command %d: it is in neither:\n%s", moment, file.String())
			continue
		}
		to := open(t, server, fmt.Sprint("to", moment), 3)
		_, err = Restore(t.Context(), to, &file, Restoring{})
		must(t, err)
		found, err := to.Streams().Messages(t.Context(), to.ShardOf("a"), circulate.StreamStart, 10)
		must(t, err)
		if len(found) != counts.Messages || len(found) == 1 && (found[0].Only != "crm" || found[0].First != "5-1") {
			t.Errorf("replayed before command %d: restored %+v", moment, found)
		}
	}
	if most < 10 {
		t.Errorf("a backup has %d commands: the test shows nothing", most)
	}
}

// A file of format 1 has the dead letters after the messages.
func TestFilesOfFormat1AreRestored(t *testing.T) {
	server := redistest.Embedded(t)
	var out bytes.Buffer
	w := newWriter(&out, Options{})
	must(t, w.write(line{Header: &Header{Is: magic, Format: 1, Shards: 1}}))
	must(t, w.write(line{Message: &messageLine{At: "5-1", Account: "a", ID: "1"}}))
	must(t, w.write(line{Dead: &deadLine{Fields: []text{"account", "a", "id", "2"}}}))
	sum := hex.EncodeToString(w.sum.Sum(nil))
	must(t, w.write(line{End: &trailer{Counts{Messages: 1, Dead: 1}, sum}}))
	must(t, w.out.Flush())
	_, err := Restore(t.Context(), open(t, server, "one", 2), bytes.NewReader(out.Bytes()), Restoring{})
	must(t, err)
	if _, err := Verify(strings.NewReader(strings.Replace(out.String(), `"format":1`, `"format":2`, 1)), nil); err == nil || !strings.Contains(err.Error(), "order") {
		t.Errorf("as format 2: %v", err)
	}
}

func TestFilesThatCannotBeRestoredAreRefusedWithTheirLine(t *testing.T) {
	server := redistest.Embedded(t)
	from := open(t, server, "from", 2)
	for i := range 3 {
		register(t, from, fmt.Sprint(i), nil)
	}
	var file bytes.Buffer
	_, err := Write(t.Context(), from, &file, Options{})
	must(t, err)
	lines := strings.SplitAfter(file.String(), "\n")
	lines = lines[:len(lines)-1]
	if len(lines) != 5 {
		t.Fatalf("%d lines:\n%s", len(lines), file.String())
	}
	whole := file.String()
	account := lines[1]
	for _, c := range []struct {
		name, content string
		line          int
		says          string
	}{
		{"nothing", "", 1, "cut off"},
		{"another file", "PK\x03\x04", 1, "cut off"},
		{"another JSON", "{\"id\":\"x\"}\n", 1, "not a backup of rounds"},
		{"no trailer", strings.Join(lines[:4], ""), 5, "cut off"},
		{"within a line", whole[:len(whole)-3], 5, "cut off"},
		{"a later format", strings.Replace(whole, `"format":2`, `"format":7`, 1), 1, "format is 7"},
		{"one account less", strings.Replace(whole, account, "", 1), 4, "altered"},
		{"a record altered", strings.Replace(whole, "plain", "Plain", 1), 5, "altered"},
		{"something after it", whole + "{}\n", 6, "follows"},
		{"out of order", strings.Replace(whole, account, `{"dead":{"fields":["account","a"]}}`+"\n"+account, 1), 3, "order"},
		{"an unknown line", strings.Replace(whole, account, `{"thing":1}`+"\n", 1), 2, "thing"},
		{"two in one", strings.Replace(whole, account, `{"group":{"name":"a","shard":0,"after":"0-0"},"dead":{"fields":[]}}`+"\n", 1), 2, "exactly one"},
		{"no place", strings.Replace(whole, `"place":"`, `"place":"x`, 1), 2, "place"},
		{"a group without name", strings.Replace(whole, account, `{"group":{"name":"","shard":0,"after":"0-0"}}`+"\n"+account, 1), 2, "group"},
		{"a pending message nowhere", strings.Replace(whole, account, `{"group":{"name":"g","shard":0,"after":"5-0","pending":[{"at":"x","n":1}]}}`+"\n"+account, 1), 2, "position"},
		{"a shard that cannot be", strings.Replace(whole, account, `{"group":{"name":"g","shard":99999,"after":"5-0"}}`+"\n"+account, 1), 2, "no such shard"},
		{"a dead letter without fields", strings.Replace(whole, lines[4], `{"dead":{"fields":["account"]}}`+"\n"+lines[4], 1), 5, "names and values"},
		{"a key without digest", strings.Replace(whole, lines[4], `{"key":{"name":"k","digest":"","record":"{}"}}`+"\n"+lines[4], 1), 5, "digest"},
		{"a webhook without name", strings.Replace(whole, lines[4], `{"webhook":{"name":"","disabled":1}}`+"\n"+lines[4], 1), 5, "no name"},
		{"a secret in clear", strings.Replace(whole, lines[4], `{"secret":{"name":"KF","set":1,"record":{"value":"x"}}}`+"\n"+lines[4], 1), 5, "value"},
		{"a secret that is not sealed", strings.Replace(whole, lines[4], `{"secret":{"name":"KF","set":1,"record":{"key":"k"}}}`+"\n"+lines[4], 1), 5, "not sealed"},
		{"a secret's name", strings.Replace(whole, lines[4], `{"secret":{"name":"a b","set":1}}`+"\n"+lines[4], 1), 5, "is not a name"},
		{"a credential in clear", strings.Replace(whole, lines[4], `{"credential":{"owner":"o","name":"n","expires":1,"refresh":1}}`+"\n"+lines[4], 1), 5, "sealed"},
		{"a message nowhere", strings.Replace(whole, lines[4], `{"message":{"at":"x","account":"a","id":"1"}}`+"\n"+lines[4], 1), 5, "position"},
	} {
		_, err := Verify(strings.NewReader(c.content), nil)
		var wrong *FileError
		if !errors.As(err, &wrong) || wrong.Line != c.line || !strings.Contains(wrong.Reason, c.says) {
			t.Errorf("%s: %v, want line %d: …%s…", c.name, err, c.line, c.says)
		}
	}
	// A compressed file that was cut off ends like this, wherever.
	for _, end := range []string{lines[0], lines[0][:20]} {
		var wrong *FileError
		if _, err := Verify(io.MultiReader(strings.NewReader(end), iotest.ErrReader(io.ErrUnexpectedEOF)), nil); !errors.As(err, &wrong) || !strings.Contains(wrong.Reason, "cut off") {
			t.Errorf("a compressed file that was cut off: %v", err)
		}
	}
	if _, err := Verify(strings.NewReader(whole), nil); err != nil {
		t.Errorf("the whole file: %v", err)
	}
	if _, err := Verify(io.MultiReader(strings.NewReader(whole[:20]), strings.NewReader(strings.Repeat("x", 2*maxLine))), nil); err == nil {
		t.Error("an endless line is accepted")
	}
}

// disturbed is a Redis where something happens before each command of one ring.
type disturbed struct {
	redistest.Redis
	before func()
}

// Conn lends a connection after something has happened.
func (d disturbed) Conn(ctx context.Context, key string) (redis.Conn, error) {
	d.before()
	return d.Redis.Conn(ctx, key)
}

// TestNoMessageIsMissedAtAnyMoment takes backups while accounts are checked, in between any
// two commands. A message that the cursor of an account is behind must be in the backup.
func TestNoMessageIsMissedAtAnyMoment(t *testing.T) {
	const moments = 1000
	rng := rand.New(rand.NewPCG(1, 2))
	server := redistest.Embedded(t)
	ring := open(t, server, "busy", 2)
	for i := range 6 {
		register(t, ring, fmt.Sprint("a", i), nil)
	}
	happened := 0
	observed, err := circulate.Open(t.Context(), disturbed{server, func() {
		happened++
		must(t, checkDue(t.Context(), ring, rng.IntN(2), 1+rng.IntN(2), func(c *circulate.Claim) circulate.Return {
			n := len(c.Cursor) + 1
			return circulate.Return{Claim: c, Kind: "plain", Cursor: bytes.Repeat([]byte("x"), n), Messages: []circulate.Message{{ID: fmt.Sprint(n)}}}
		}))
	}}, circulate.Options{Namespace: "busy"})
	must(t, err)
	backups, ahead := 0, 0
	for ; happened < moments; backups++ {
		var file bytes.Buffer
		_, err := Write(t.Context(), observed, &file, Options{})
		must(t, err)
		cursors, last := make(map[string]int), make(map[string]string)
		r := newReader(&file)
		must(t, r.read(func(l *line) error {
			switch {
			case l.Account != nil:
				cursors[l.Account.ID] = len(strings.TrimLeft(string(l.Account.Cursor), "\x00")) + strings.Count(string(l.Account.Line), "x")
			case l.Message != nil:
				last[l.Message.Account] = l.Message.ID
			}
			return nil
		}))
		if len(cursors) != 6 {
			t.Fatalf("%d accounts", len(cursors))
		}
		for id, n := range cursors {
			var found int
			_, _ = fmt.Sscan(last[id], &found)
			if found < n {
				t.Fatalf("moment %d: %s has read up to %d, and the last message is %d", happened, id, n, found)
			}
			if found > n {
				ahead++
			}
		}
		for shard := range ring.Shards() {
			_, _, err := ring.Streams().TrimTo(t.Context(), shard, 20)
			must(t, err)
		}
	}
	if ahead == 0 {
		t.Error("nothing was found between the accounts and the messages of a backup: the test shows nothing")
	}
	t.Logf("%d backups, %d moments, %d accounts whose messages are ahead of their cursor", backups, happened, ahead)
}
