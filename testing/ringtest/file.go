package ringtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// album is a fixture with files.
type album struct {
	*fixture
	files   circulate.Files
	objects int // names given out
}

func (f *fixture) album() *album { return &album{fixture: f, files: f.ring.Files()} }

// hashOf is what stands for the digest of some bytes.
func hashOf(bytes string) string { return fmt.Sprintf("%064x", bytes) }

// picture is a file of a message, stored under a name that no other has.
func (a *album) picture(account, message string, place int, bytes string) circulate.File {
	a.objects++
	return circulate.File{
		ID: circulate.NewFileID(account, circulate.FileOfMessage, message, place), Account: account, Kind: chat,
		Holder: circulate.FileOfMessage, Of: message, Place: place, Name: "a|b \"c\".png", Type: "image/png",
		Hash: hashOf(bytes), Size: int64(len(bytes)), Object: fmt.Sprintf("%s-%d", hashOf(bytes), a.objects), Found: time.UnixMilli(1_700_000_000_000),
	}
}

// keep keeps a file, and expects that the row has that object.
func (a *album) keep(f circulate.File, want string) {
	a.Helper()
	object, err := a.files.Keep(context.Background(), f, circulate.Keeping{Began: a.now()})
	if err != nil || object != want {
		a.Fatalf("kept as %q, %v; want %q", object, err, want)
	}
}

func (a *album) look(id string) circulate.File {
	a.Helper()
	files, err := a.files.Look(context.Background(), false, id)
	if err != nil || len(files) != 1 {
		a.Fatalf("look: %v, %v", files, err)
	}
	return files[0]
}

// end ends rows as they are now, and expects which objects are condemned by that.
func (a *album) end(want []string, ids ...string) {
	a.Helper()
	rows := make([]circulate.File, len(ids))
	for i, id := range ids {
		rows[i] = a.look(id)
	}
	n, names, err := a.files.End(context.Background(), "", rows...)
	if err != nil || n != len(ids) || !slices.Equal(names, want) {
		a.Errorf("%d ended, %q condemned, %v; want %q", n, names, err, want)
	}
}

// condemned expects what the store is to remove.
func (a *album) condemned(want ...string) {
	a.Helper()
	var names []string
	err := a.files.Condemned(context.Background(), 0, func(some []string) error {
		names = append(names, some...)
		return nil
	})
	slices.Sort(names)
	slices.Sort(want)
	if err != nil || !slices.Equal(names, want) {
		a.Errorf("condemned %q, %v; want %q", names, err, want)
	}
}

// totals expects the sums: kept files and bytes, lost ones, and what the store has of objects and condemned names.
func (a *album) totals(want string) {
	a.Helper()
	t, err := a.files.Totals(context.Background())
	got := fmt.Sprintf("kept %d/%d lost %d objects %d/%d condemned %d/%d", t.Kept.Files, t.Kept.Bytes, t.Lost, t.Objects.Files, t.Objects.Bytes, t.Condemned.Files, t.Condemned.Bytes)
	if err != nil || got != want {
		a.Errorf("%s, %v; want %s", got, err, want)
	}
}

// fileLife: equal bytes are stored once, and go with the last row that has them.
func fileLife(f *fixture) {
	ctx, a := context.Background(), f.album()
	first, second := a.picture("a", "1", 0, "cat"), a.picture("b", "1", 0, "cat")
	a.keep(first, first.Object)
	a.keep(first, first.Object) // safe to repeat
	a.keep(second, first.Object)
	other := a.picture("a", "1", 1, "dog")
	a.keep(other, other.Object)
	a.condemned(second.Object)
	a.totals("kept 3/9 lost 0 objects 2/6 condemned 1/3")
	row := a.look(second.ID)
	want := second
	want.Object, want.State, want.Kept, want.Judged = first.Object, circulate.FileKept, row.Kept, second.Found
	if !reflect.DeepEqual(row, want) || row.Kept.Before(a.now().Add(-time.Minute)) {
		a.Errorf("row %+v\nwant %+v", row, want)
	}
	if err := a.files.Clear(ctx, second.Object, "nothing"); err != nil {
		a.Error(err)
	}
	// A file that is fetched once more is known, whatever its bytes are now.
	again := a.picture("a", "1", 0, "bird")
	a.keep(again, first.Object)
	a.condemned(again.Object)
	if err := a.files.Clear(ctx, again.Object); err != nil {
		a.Error(err)
	}
	if sum, err := a.files.OfAccount(ctx, "a"); err != nil || sum != (circulate.FileSum{Files: 2, Bytes: 6}) {
		a.Errorf("%+v, %v", sum, err)
	}
	a.end(nil, first.ID)
	a.end([]string{first.Object, other.Object}, second.ID, other.ID)
	a.condemned(first.Object, other.Object)
	a.totals("kept 0/0 lost 0 objects 0/0 condemned 2/6")
	if row := a.look(first.ID); row.ID != "" {
		a.Errorf("%+v", row)
	}
	if err := a.files.Clear(ctx, first.Object, other.Object); err != nil {
		a.Error(err)
	}
	if left := a.strings("KEYS", "{"+a.ns+":files}:*"); len(left) > 0 {
		a.Errorf("left: %q", left)
	}
	// A later file with the bytes has a name of its own.
	last := a.picture("c", "1", 0, "cat")
	a.keep(last, last.Object)
}

// fileShared: a send's row has the bytes of another row, and keeps them. It is due apart from the files
// of messages, like an upload.
func fileShared(f *fixture) {
	ctx, a := context.Background(), f.album()
	carried := a.picture("a", "1", 0, "cat")
	a.keep(carried, carried.Object)
	uploaded := carried
	uploaded.Holder, uploaded.Of, uploaded.ID, uploaded.Found = circulate.FileOfUpload, "u", circulate.NewFileID("a", circulate.FileOfUpload, "u", 0), carried.Found.Add(time.Hour)
	uploaded.Object = carried.Object + "2"
	a.keep(uploaded, carried.Object)
	sent := circulate.File{
		ID: circulate.NewFileID("a", circulate.FileOfSend, "s", 0), Account: "a", Kind: chat, Holder: circulate.FileOfSend, Of: "s",
		Name: "c.png", Type: "image/png", Found: carried.Found.Add(2 * time.Hour),
	}
	share := func(want bool, wantErr error, from string, b circulate.FileBounds) {
		f.Helper()
		if done, err := a.files.Share(ctx, sent, from, b); done != want || !errors.Is(err, wantErr) {
			f.Errorf("shared: %t, %v", done, err)
		}
	}
	share(false, nil, "nothing", circulate.FileBounds{})
	share(false, circulate.ErrAccountFilesFull, uploaded.ID, circulate.FileBounds{Account: 8})
	share(true, nil, uploaded.ID, circulate.FileBounds{Account: 9, All: 1}) // the store gets nothing new
	share(true, nil, uploaded.ID, circulate.FileBounds{Account: 1})         // safe to repeat
	row := a.look(sent.ID)
	if row.Hash != carried.Hash || row.Size != 3 || row.Object != carried.Object || row.State != circulate.FileKept || row.Of != "s" || !row.Found.Equal(sent.Found) {
		a.Errorf("%+v", row)
	}
	a.totals("kept 3/9 lost 0 objects 1/3 condemned 1/3")

	ids := func(rows []circulate.File, err error) (ids []string) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
		return ids
	}
	if got := ids(a.files.Due(ctx, sent.Found.Add(time.Hour), 10)); !slices.Equal(got, []string{carried.ID}) {
		a.Errorf("due: %q", got)
	}
	if got := ids(a.files.DueSent(ctx, sent.Found, 10)); !slices.Equal(got, []string{uploaded.ID}) {
		a.Errorf("due of sends: %q", got)
	}
	if n, err := a.files.RaiseSent(ctx, sent.Found, uploaded.ID); err != nil || n != 1 {
		a.Error(n, err)
	}
	if got := ids(a.files.DueSent(ctx, sent.Found, 10)); len(got) > 0 {
		a.Errorf("due of sends after they were raised: %q", got)
	}
	// An upload that comes again counts as kept now.
	before := a.look(uploaded.ID).Kept
	for !a.now().After(before) { // in ms
	}
	uploaded.Object += "3"
	a.keep(uploaded, carried.Object)
	if after := a.look(uploaded.ID).Kept; !after.After(before) {
		a.Errorf("kept at %v, and then at %v", before, after)
	}
	a.end(nil, carried.ID, uploaded.ID)
	a.end([]string{carried.Object}, sent.ID)
	share(false, nil, uploaded.ID, circulate.FileBounds{})
}

// fileLost: a lost file may still be kept, and a kept one is not lost.
func fileLost(f *fixture) {
	ctx, a := context.Background(), f.album()
	p := a.picture("a", "1", 0, "cat")
	lost := p
	lost.Reason, lost.Hash, lost.Object = "410: gone", "", ""
	for range 2 {
		if done, err := a.files.Lose(ctx, lost); err != nil || !done {
			a.Error(done, err)
		}
	}
	if row := a.look(p.ID); row.State != circulate.FileLost || row.Reason != "410: gone" || row.Name != p.Name || row.Object != "" {
		a.Errorf("%+v", row)
	}
	a.totals("kept 0/0 lost 1 objects 0/0 condemned 0/0")
	a.keep(p, p.Object)
	if done, err := a.files.Lose(ctx, lost); err != nil || done {
		a.Error(done, err)
	}
	a.totals("kept 1/3 lost 0 objects 1/3 condemned 0/0")
	// A row that ends for a reason stays as lost, without its bytes.
	n, names, err := a.files.End(ctx, "there was no room", a.look(p.ID))
	if row := a.look(p.ID); err != nil || n != 1 || !slices.Equal(names, []string{p.Object}) || row.State != circulate.FileLost || row.Reason != "there was no room" || row.Name != p.Name {
		a.Errorf("%+v, %d, %q, %v", row, n, names, err)
	}
	if n, _, err := a.files.End(ctx, "again", a.look(p.ID)); err != nil || n != 0 {
		a.Errorf("%d lost rows were lost again: %v", n, err)
	}
	a.totals("kept 0/0 lost 1 objects 0/0 condemned 1/3")
	a.end(nil, p.ID)
	a.totals("kept 0/0 lost 0 objects 0/0 condemned 1/3")
}

// fileJudged: rows come up by their time, and one that is named again is not ended by a caller who saw it before.
func fileJudged(f *fixture) {
	ctx, a := context.Background(), f.album()
	early, late := a.picture("a", "1", 0, "cat"), a.picture("a", "2", 0, "dog")
	late.Found = early.Found.Add(time.Hour)
	a.keep(early, early.Object)
	a.keep(late, late.Object)
	due := func(before time.Time, want ...string) []circulate.File {
		f.Helper()
		rows, err := a.files.Due(ctx, before, 10)
		if err != nil || len(rows) != len(want) {
			f.Fatalf("due: %v, %v", rows, err)
		}
		for i := range rows {
			if rows[i].ID != want[i] {
				f.Errorf("due %v, want %v", rows[i], want[i])
			}
		}
		return rows
	}
	due(early.Found)
	seen := due(late.Found, early.ID)
	if n, err := a.files.RaiseBy(ctx, time.Minute, early.ID, "none"); err != nil || n != 1 {
		a.Error(n, err)
	}
	if n, _, err := a.files.End(ctx, "", seen...); err != nil || n != 0 {
		a.Errorf("%d rows ended that are named again: %v", n, err)
	}
	if row := a.look(early.ID); row.Judged.Before(a.now().Add(50*time.Second)) || !row.Found.Equal(early.Found) {
		a.Errorf("%+v", row)
	}
	if _, err := a.files.Raise(ctx, early.Found, early.ID); err != nil { // never earlier
		a.Error(err)
	}
	due(late.Found.Add(time.Millisecond), late.ID)
	// A message that is found again has its files from then on.
	again := late
	again.Found = late.Found.Add(time.Hour)
	a.keep(again, late.Object)
	due(again.Found)
	// What is left of a row that was lost is ended like a row.
	a.do("HDEL", "{"+a.ns+":files}:rows", late.ID)
	if n, _, err := a.files.End(ctx, "", due(again.Found.Add(time.Millisecond), late.ID)...); err != nil || n != 1 {
		a.Error(n, err)
	}
	due(again.Found.Add(time.Millisecond))
}

// fileBounds: a quota refuses what would exceed it, and condemns the caller's object.
func fileBounds(f *fixture) {
	ctx, a := context.Background(), f.album()
	b := circulate.FileBounds{All: 10, Account: 7}
	try := func(want error, p circulate.File) {
		f.Helper()
		if _, err := a.files.Keep(ctx, p, circulate.Keeping{Began: a.now(), Bounds: b}); !errors.Is(err, want) {
			f.Errorf("%v, want %v", err, want)
		}
	}
	try(nil, a.picture("a", "1", 0, "12345"))
	try(circulate.ErrAccountFilesFull, a.picture("a", "2", 0, "123"))
	try(circulate.ErrFilesFull, a.picture("b", "1", 0, "678")) // what is condemned counts until it is removed
	cleared := 0
	if err := a.files.Condemned(ctx, 0, func(names []string) error {
		cleared += len(names)
		return a.files.Clear(ctx, names...)
	}); err != nil || cleared != 2 {
		a.Error(cleared, err)
	}
	try(nil, a.picture("b", "1", 0, "67890"))
	try(nil, a.picture("c", "1", 0, "67890")) // its bytes are there
	try(circulate.ErrFilesFull, a.picture("c", "2", 0, "x"))
}

// fileVoid: a condemned name is never kept, and no name that is kept is condemned.
func fileVoid(f *fixture) {
	ctx, a := context.Background(), f.album()
	p, slow := a.picture("a", "1", 0, "cat"), a.picture("b", "1", 0, "dog")
	a.keep(p, p.Object)
	names, err := a.files.Orphans(ctx, circulate.StoredFile{Name: p.Object, Hash: p.Hash, Size: 3}, circulate.StoredFile{Name: slow.Object, Hash: slow.Hash, Size: 3})
	if err != nil || !slices.Equal(names, []string{slow.Object}) {
		a.Errorf("orphans %q, %v", names, err)
	}
	if _, err := a.files.Keep(ctx, slow, circulate.Keeping{Began: a.now()}); !errors.Is(err, circulate.ErrFileVoid) {
		a.Errorf("a condemned object was kept: %v", err)
	}
	a.condemned(slow.Object)
	if err := a.files.Condemned(ctx, time.Minute, func(names []string) error { return errors.New(names[0]) }); err != nil {
		a.Errorf("condemned for a minute: %v", err)
	}
	// So does one that was stored long ago, which may have been condemned and removed since.
	late := a.picture("b", "3", 0, "late")
	if _, err := a.files.Keep(ctx, late, circulate.Keeping{Began: a.now().Add(-circulate.KeepWithin - time.Second)}); !errors.Is(err, circulate.ErrFileVoid) {
		a.Errorf("an object was kept that was stored long ago: %v", err)
	}
	a.condemned(slow.Object, late.Object)
	// What the store has lost is replaced for all rows that have it.
	second, third := a.picture("b", "2", 0, "cat"), a.picture("a", "1", 0, "cat")
	if object, err := a.files.Keep(ctx, second, circulate.Keeping{Began: a.now(), Missing: p.Object}); err != nil || object != second.Object {
		a.Errorf("%q, %v", object, err)
	}
	for _, id := range []string{p.ID, second.ID} {
		if row := a.look(id); row.Object != second.Object || row.State != circulate.FileKept {
			a.Errorf("%+v", row)
		}
	}
	if object, err := a.files.Keep(ctx, third, circulate.Keeping{Began: a.now(), Missing: second.Object}); err != nil || object != third.Object {
		a.Errorf("%q, %v", object, err)
	}
	a.totals("kept 2/6 lost 0 objects 1/3 condemned 4/7")
	a.end([]string{third.Object}, p.ID, second.ID)
}

// fileRead: files that somebody has read are found by when they were found, in all and by account.
func fileRead(f *fixture) {
	ctx, a := context.Background(), f.album()
	var ids []string
	for i, account := range []string{"a", "b", "a"} {
		p := a.picture(account, fmt.Sprint(i), 0, fmt.Sprint("file ", i))
		p.Found = p.Found.Add(-time.Duration(i) * time.Hour)
		a.keep(p, p.Object)
		ids = append(ids, p.ID)
	}
	is := func(account string, want ...string) {
		f.Helper()
		rows, err := a.files.Read(ctx, account, 10)
		var got []string
		for _, r := range rows {
			got = append(got, r.ID)
		}
		if err != nil || !slices.Equal(got, want) {
			f.Errorf("read of %q: %q, %v; want %q", account, got, err, want)
		}
	}
	is("")
	is("a")
	if _, err := a.files.Look(ctx, true, append(ids[:2:2], "none")...); err != nil {
		a.Error(err)
	}
	is("", ids[1], ids[0])
	is("a", ids[0])
	a.end([]string{a.look(ids[0]).Object}, ids[0])
	is("a")
	is("", ids[1])
}

// fileLoaded: a backup's rows are as they were, and loading them again changes nothing.
func fileLoaded(f *fixture) {
	ctx, a := context.Background(), f.album()
	p, q := a.picture("a", "1", 0, "cat"), a.picture("b", "1", 0, "cat")
	a.keep(p, p.Object)
	a.keep(q, p.Object)
	lost := a.picture("a", "2", 1, "dog")
	lost.Hash, lost.Object, lost.Reason = "", "", "it was too late"
	if _, err := a.files.Lose(ctx, lost); err != nil {
		a.Fatal(err)
	}
	var rows []circulate.File
	if err := a.files.Walk(ctx, func(some []circulate.File) error {
		rows = append(rows, some...)
		return nil
	}); err != nil || len(rows) != 3 {
		a.Fatalf("%v, %v", rows, err)
	}
	a.do("DEL", a.strings("KEYS", "{"+a.ns+":files}:*")[0])
	for _, key := range a.strings("KEYS", "{"+a.ns+":files}:*") {
		a.do("DEL", key)
	}
	for _, want := range []bool{true, false} {
		for _, r := range rows {
			if done, err := a.files.Load(ctx, r); err != nil || done != want {
				a.Errorf("%t, %v", done, err)
			}
		}
	}
	for _, r := range rows {
		if got := a.look(r.ID); !reflect.DeepEqual(got, r) {
			a.Errorf("loaded %+v\nwant %+v", got, r)
		}
	}
	a.totals("kept 2/6 lost 1 objects 1/3 condemned 0/0")
}

// fileSpoilt: keys of a wrong type are set aside, and bad input is refused.
func fileSpoilt(f *fixture) {
	ctx, a := context.Background(), f.album()
	p := a.picture("a", "1", 0, "cat")
	for _, name := range []string{"rows", "objects", "due", "index", "read", "condemned", "totals", "accounts"} {
		key := "{" + a.ns + ":files}:" + name
		a.do("DEL", key)
		a.do("SET", key, "x")
	}
	a.keep(p, p.Object)
	for name, spoil := range map[string]func(*circulate.File){
		"id":      func(f *circulate.File) { f.ID = "x" },
		"account": func(f *circulate.File) { f.Account = "" },
		"kind":    func(f *circulate.File) { f.Kind = "" },
		"hash":    func(f *circulate.File) { f.Hash = "1" },
		"object":  func(f *circulate.File) { f.Object = "a|b" },
		"size":    func(f *circulate.File) { f.Size = -1 },
		"reason":  func(f *circulate.File) { f.Reason = "a\x00b" },
	} {
		bad := p
		spoil(&bad)
		if _, err := a.files.Keep(ctx, bad, circulate.Keeping{Began: a.now()}); err == nil || circulate.Unknown(err) {
			a.Errorf("%s: %v", name, err)
		}
	}
	a.do("HSET", "{"+a.ns+":files}:rows", p.ID, "garbage")
	if _, err := a.files.Look(ctx, false, p.ID); err == nil || !strings.Contains(err.Error(), p.ID) {
		a.Error(err)
	}
}

// fullFiles: what frees memory goes on where Redis is full, and what adds is refused as a whole.
func fullFiles(f *fullFixture) {
	ctx, a := context.Background(), f.album()
	p, q := a.picture("a", "1", 0, "cat"), a.picture("a", "2", 0, "dog")
	a.keep(p, p.Object)
	f.full()
	if _, err := a.files.Keep(ctx, q, circulate.Keeping{Began: a.now()}); !circulate.Full(err) {
		f.Errorf("keep: %v", err)
	}
	if _, err := a.files.RaiseBy(ctx, time.Second, p.ID); err != nil {
		f.Errorf("raise: %v", err)
	}
	a.end([]string{p.Object}, p.ID)
	if err := a.files.Clear(ctx, p.Object); err != nil {
		f.Errorf("clear: %v", err)
	}
	f.limit(false)
	a.totals("kept 0/0 lost 0 objects 0/0 condemned 0/0")
	a.keep(q, q.Object)
}
