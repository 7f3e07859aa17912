package circulate

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// FileIDLength is how many bytes the id of a file has.
const FileIDLength = 22

// FileHolder is what names a file.
type FileHolder byte

// The holders.
const (
	FileOfMessage FileHolder = 'm' // a message that was found
	FileOfSend    FileHolder = 's' // a send
	FileOfUpload  FileHolder = 'u' // somebody uploaded it, for sends
)

// FileState says whether a file is there.
type FileState byte

// The states.
const (
	FileKept FileState = 'k' // the store has it
	FileLost FileState = 'l' // it was not kept, or is kept no more
)

// String returns the state's name.
func (s FileState) String() string {
	switch s {
	case FileKept:
		return "kept"
	case FileLost:
		return "lost"
	}
	return ""
}

// File is a row of the list: a file that a message or a send names.
type File struct {
	ID      string // of NewFileID
	Account string
	Kind    string // the account's
	Holder  FileHolder
	Of      string // the message's id, the send's, or the upload's
	Place   int    // among the files of its holder

	Name string // for people; what strangers say
	Type string // the media type; what strangers say
	Hash string // SHA-256 of the bytes, in hex; empty: lost
	Size int64  // bytes

	Found time.Time // when its holder was written: of a message, the time of its position

	// The rest is the list's.
	State  FileState
	Kept   time.Time // when the row was written, by Redis' clock
	Reason string    // why it is lost
	Object string    // the name under which the store has the bytes
	// Judged is from when on the file is judged, in terms of the list alone: End ends a row only if
	// this is what the caller saw.
	Judged time.Time
}

// NewFileID returns the id of a file of a holder. It depends on nothing else, so a replayed,
// moved or restored message has the files that it had.
func NewFileID(account string, holder FileHolder, of string, place int) string {
	h := sha256.New()
	for _, text := range []string{account, string(rune(holder)), of, strconv.Itoa(place)} {
		h.Write(fmt.Appendf(nil, "%d:%s", len(text), text))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// Files is the list of the files of a namespace: see *Files* in the package comment. It says
// what the store has, and nothing else does.
type Files struct {
	wire *wire.Wire
	keys []wire.Key
}

// The keys of Files.
const (
	fileRows      = iota // HASH  id -> the row; see files.lua
	fileObjects          // HASH  SHA-256 -> name|size|number of rows
	fileDue              // ZSET  id -> from when the row is judged, unix ms
	fileIndex            // ZSET  account NUL found, id; score 0
	fileRead             // ZSET  id of a kept file that somebody has read -> when it was found
	fileCondemned        // HASH  name -> since when, unix ms|size: for the store to remove
	fileTotals           // HASH  kept, lost, objects, condemned, kind:KIND -> files|bytes
	fileAccounts         // HASH  account -> kept files|bytes
)

// Files returns the list of files.
func (r *Ring) Files() Files {
	tag := "{" + r.namespace + ":files}:"
	return Files{r.wire, []wire.Key{
		{tag + "rows", "hash"}, {tag + "objects", "hash"}, {tag + "due", "zset"}, {tag + "index", "zset"}, {tag + "read", "zset"},
		{tag + "condemned", "hash"}, {tag + "totals", "hash"}, {tag + "accounts", "hash"},
	}}
}

var (
	keepFileScript   = wire.NewScript("keep file", lua("files"), lua("file_keep"))
	shareFileScript  = wire.NewScript("share file", lua("files"), lua("file_share"))
	loseFileScript   = wire.NewScript("lose file", lua("files"), lua("file_lose"))
	endFileScript    = wire.NewScript("end file", lua("files"), lua("file_end"))
	raiseFileScript  = wire.NewScript("raise file", lua("files"), lua("file_raise"))
	clearFileScript  = wire.NewScript("clear file", lua("files"), lua("file_clear"))
	orphanFileScript = wire.NewScript("orphan file", lua("files"), lua("file_orphan"))
	lookFileScript   = wire.NewScript("look file", lua("files"), lua("file_look"))
	loadFileScript   = wire.NewScript("load file", lua("files"), lua("file_load"))
)

var (
	// ErrFileVoid reports that the name under which the caller stored a file is condemned, because
	// it was not kept in time. The caller stores the bytes again.
	ErrFileVoid = wire.Finding("circulate: the stored object is condemned")
	// ErrFilesFull reports that a quota of all files is reached.
	ErrFilesFull = wire.Finding("circulate: the quota of files is reached")
	// ErrAccountFilesFull reports that the account's quota is reached.
	ErrAccountFilesFull = wire.Finding("circulate: the account's quota of files is reached")
)

// FileBounds are how many bytes of files there may be. Zero: any number.
type FileBounds struct {
	All     int64 // in the store, of objects, each once
	Account int64 // of the kept files of an account, each of them
}

// Keeping says how to keep a file.
type Keeping struct {
	// Began is when the caller began to store the bytes, by the clock of the list ([Files.Now]),
	// within the last [KeepWithin].
	Began time.Time
	// Missing is a name that Keep returned before and that the store does not have. Its rows then
	// get the file's object.
	Missing string
	Bounds  FileBounds
}

// KeepWithin is how long a caller may take from when it begins to store bytes until it calls
// Keep. What is in the store for twice as long, and is not in the list, nobody will keep.
const KeepWithin = 12 * time.Hour

// UploadLasts is how long an uploaded file stays that no send names.
const UploadLasts = 24 * time.Hour

// Keep adds a row for a file that the caller has stored under f.Object. It returns the name
// that the row has instead if the bytes were there already, or if the row was kept before.
// Unless that is f.Object, f.Object is condemned, also after an error of this package; the
// caller removes it from the store and calls [Files.Clear].
// It is safe to repeat.
func (l Files) Keep(ctx context.Context, f File, k Keeping) (object string, err error) {
	if err := f.validate(); err != nil {
		return "", err
	}
	if len(f.Hash) != 2*sha256.Size || f.Object == "" || strings.Contains(f.Object, "|") {
		return "", fmt.Errorf("%w: keep file: object %q with hash %q", wire.ErrInput, f.Object, f.Hash)
	}
	args := append([]any{f.ID, f.Object, k.Missing, k.Bounds.All, k.Bounds.Account, f.Found.UnixMilli(), f.Size, f.Hash}, f.rest()...)
	args = append(args, k.Began.UnixMilli(), KeepWithin.Milliseconds(), f.judged())
	reply, err := redis.Strings(l.run(ctx, keepFileScript, args...))
	if err != nil {
		return "", err
	}
	if len(reply) != 2 {
		return "", fmt.Errorf("keep file: %w", wire.ErrReply)
	}
	switch reply[0] {
	case "kept", "shared", "known":
		return reply[1], nil
	case "void":
		return "", ErrFileVoid
	case "full":
		return "", ErrFilesFull
	case "full:account":
		return "", ErrAccountFilesFull
	}
	return "", fmt.Errorf("keep file: %w", wire.ErrReply)
}

// Share adds a row with the bytes of a kept one, whose id is from. It takes hash, size and object
// from there. It returns false if there is no such row, or if it is not kept.
// It is safe to repeat.
func (l Files) Share(ctx context.Context, f File, from string, b FileBounds) (bool, error) {
	if err := f.validate(); err != nil {
		return false, err
	}
	args := append([]any{f.ID, from, b.Account, f.Found.UnixMilli()}, f.rest()...)
	outcome, err := redis.String(l.run(ctx, shareFileScript, append(args, f.judged())...))
	switch {
	case err != nil:
		return false, err
	case outcome == "shared", outcome == "known":
		return true, nil
	case outcome == "none":
		return false, nil
	case outcome == "full:account":
		return false, ErrAccountFilesFull
	}
	return false, fmt.Errorf("share file: %w", wire.ErrReply)
}

// aside is how far below those of messages' files, in ms, the times are from which files of sends and
// uploads are judged. So all are in one key, and no stream of messages keeps the latter.
const aside = 1_000_000_000_000_000

// judged returns from when a new row is judged, unix ms.
func (f *File) judged() int64 {
	if f.Holder == FileOfMessage {
		return f.Found.UnixMilli()
	}
	return f.Found.UnixMilli() - aside
}

// Lose adds a row for a file that was not kept, with f.Reason. It returns false if the file
// is kept, and leaves it so.
func (l Files) Lose(ctx context.Context, f File) (bool, error) {
	if err := f.validate(); err != nil {
		return false, err
	}
	args := append([]any{f.ID, f.Found.UnixMilli(), f.Size}, f.rest()...)
	return redis.Bool(l.run(ctx, loseFileScript, args...))
}

// more is what a row has for callers alone.
type more struct {
	Holder string `json:"in"`
	Of     string `json:"of"`
	Name   string `json:"name,omitempty"`
	Type   string `json:"type,omitempty"`
}

// rest returns the last fields of a row as scripts take them.
func (f *File) rest() []any {
	text, _ := json.Marshal(more{string(rune(f.Holder)), f.Of, f.Name, f.Type}) // texts always have a form
	return []any{f.Kind, f.Place, f.Account, f.Reason + "\x00" + string(text)}
}

func (f *File) validate() error {
	fault := ""
	switch {
	case ValidateID(f.Account) != nil:
		fault = "account: " + ValidateID(f.Account).Error()
	case f.ID != NewFileID(f.Account, f.Holder, f.Of, f.Place):
		fault = "the id is another file's"
	case !WaitsByKind(f.Kind):
		fault = fmt.Sprintf("kind %q", f.Kind)
	case f.Size < 0 || f.Place < 0 || f.Found.UnixMilli() < 0:
		fault = "a number is negative"
	case strings.Contains(f.Reason, "\x00"):
		fault = "the reason has a zero byte"
	default:
		return nil
	}
	return fmt.Errorf("%w: file: %s", wire.ErrInput, fault)
}

// Look returns the rows with some ids, in their order. A file without a row is the zero File.
// Read notes that somebody reads them.
func (l Files) Look(ctx context.Context, read bool, ids ...string) ([]File, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	reply, err := redis.Strings(l.run(ctx, lookFileScript, append([]any{wire.Flag(read)}, anyOf(ids)...)...))
	if err != nil {
		return nil, err
	}
	if len(reply) != 3*len(ids) {
		return nil, fmt.Errorf("look at files: %w", wire.ErrReply)
	}
	files := make([]File, len(ids))
	for i, id := range ids {
		if text := reply[3*i]; text != "" {
			if files[i], err = readFile(id, text); err != nil {
				return nil, err
			}
			files[i].Object = reply[3*i+1]
			judged, _ := strconv.ParseFloat(reply[3*i+2], 64)
			files[i].Judged = time.UnixMilli(int64(judged))
		}
	}
	return files, nil
}

// Due returns up to n rows of messages that are judged from before a time, the earliest first.
func (l Files) Due(ctx context.Context, before time.Time, n int) ([]File, error) {
	return l.due(ctx, 0, before.UnixMilli(), n)
}

// DueSent is Due for the rows of sends and uploads.
func (l Files) DueSent(ctx context.Context, before time.Time, n int) ([]File, error) {
	return l.due(ctx, -aside, before.UnixMilli()-aside, n)
}

func (l Files) due(ctx context.Context, from, before int64, n int) ([]File, error) {
	key := l.keys[fileDue][0]
	replies, err := l.do(ctx, "files due", wire.Command{"ZRANGEBYSCORE", key, from, "(" + strconv.FormatInt(before, 10), "WITHSCORES", "LIMIT", 0, n})
	if err != nil {
		return nil, err
	}
	scores, err := redis.Strings(replies[0], nil)
	if err != nil {
		return nil, fmt.Errorf("files due: %w", err)
	}
	ids := make([]string, 0, len(scores)/2)
	for i := 0; i+1 < len(scores); i += 2 {
		ids = append(ids, scores[i])
	}
	files, err := l.Look(ctx, false, ids...)
	for i := range files {
		if files[i].ID == "" { // the row is lost; End removes what is left of it
			judged, _ := strconv.ParseFloat(scores[2*i+1], 64)
			files[i].ID, files[i].Judged = ids[i], time.UnixMilli(int64(judged))
		}
	}
	return files, err
}

// End ends rows. With a reason they stay as lost; without one they go. It passes over rows
// that are judged from another time than the caller saw. It returns how many ended, and the
// names that the store should remove now; [Files.Condemned] has them too, until [Files.Clear].
func (l Files) End(ctx context.Context, reason string, files ...File) (ended int, condemned []string, err error) {
	if len(files) == 0 {
		return 0, nil, nil
	}
	args := []any{strings.ReplaceAll(reason, "\x00", "")}
	for i := range files {
		args = append(args, files[i].ID, files[i].Judged.UnixMilli())
	}
	reply, err := redis.Values(l.run(ctx, endFileScript, args...))
	if err != nil {
		return 0, nil, err
	}
	if _, err := redis.Scan(reply, &ended, &condemned); err != nil {
		return 0, nil, errors.Join(wire.ErrReply, err)
	}
	return ended, condemned, nil
}

// Raise has rows judged from a time, if it is later than theirs. It returns how many of the
// ids have a row.
func (l Files) Raise(ctx context.Context, from time.Time, ids ...string) (int, error) {
	return l.raise(ctx, strconv.FormatInt(from.UnixMilli(), 10), ids)
}

// RaiseSent is Raise for the rows of sends and uploads.
func (l Files) RaiseSent(ctx context.Context, from time.Time, ids ...string) (int, error) {
	return l.raise(ctx, strconv.FormatInt(from.UnixMilli()-aside, 10), ids)
}

// RaiseBy has rows judged from a time after now, by Redis' clock: something is about to name
// them again.
func (l Files) RaiseBy(ctx context.Context, after time.Duration, ids ...string) (int, error) {
	return l.raise(ctx, "+"+strconv.FormatInt(after.Milliseconds(), 10), ids)
}

const (
	// MaxMessageFiles is the most files of a message that Again knows.
	MaxMessageFiles = 64
	// againMargin is more than the clocks of two nodes differ by, and more than writing a message
	// takes.
	againMargin = time.Minute
)

// Again has the files of a message stay, because the message is about to be written again, as by
// the replay of a dead letter. The caller calls it before that.
func (l Files) Again(ctx context.Context, account, message string) error {
	ids := make([]string, MaxMessageFiles)
	for i := range ids {
		ids[i] = NewFileID(account, FileOfMessage, message, i)
	}
	_, err := l.RaiseBy(ctx, againMargin, ids...)
	return err
}

func (l Files) raise(ctx context.Context, from string, ids []string) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	return redis.Int(l.run(ctx, raiseFileScript, append([]any{from}, anyOf(ids)...)...))
}

// StoredFile is an object as the store lists it.
type StoredFile struct {
	Name string
	Hash string // of which the name is made
	Size int64
}

// Orphans condemns those objects of the store that no row has, and returns their names. The
// caller leaves out young ones, which may be about to be kept.
func (l Files) Orphans(ctx context.Context, objects ...StoredFile) ([]string, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	var args []any
	for _, o := range objects {
		args = append(args, o.Hash, o.Name, o.Size)
	}
	return redis.Strings(l.run(ctx, orphanFileScript, args...))
}

// Now returns the time by the clock of the list.
func (l Files) Now(ctx context.Context) (time.Time, error) {
	replies, err := l.do(ctx, "time of files", wire.Command{"TIME"})
	if err != nil {
		return time.Time{}, err
	}
	return wire.Time(replies[0])
}

// Condemned calls fn for the names that the store should remove and that have been condemned for
// some time, some at once.
func (l Files) Condemned(ctx context.Context, age time.Duration, fn func(names []string) error) error {
	now, err := l.Now(ctx)
	if err != nil {
		return err
	}
	before := now.Add(-age).UnixMilli()
	for cursor := "0"; ; {
		replies, err := l.do(ctx, "condemned files", wire.Command{"HSCAN", l.keys[fileCondemned][0], cursor, "COUNT", 256})
		if err != nil {
			return err
		}
		pairs, next, err := readPairs(replies[0])
		if err != nil {
			return fmt.Errorf("condemned files: %w", err)
		}
		var names []string
		for i := 0; i+1 < len(pairs); i += 2 {
			text, _, _ := strings.Cut(pairs[i+1], "|")
			if since, err := strconv.ParseInt(text, 10, 64); err != nil || since <= before {
				names = append(names, pairs[i])
			}
		}
		if len(names) > 0 {
			if err := fn(names); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "0" {
			return nil
		}
	}
}

// Clear forgets condemned names, once the store has removed them.
func (l Files) Clear(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	_, err := l.run(ctx, clearFileScript, anyOf(names)...)
	return err
}

// Read returns up to n kept files that somebody has read, those that were found first. Of an
// account, it looks only at the account's first so many files.
func (l Files) Read(ctx context.Context, account string, n int) ([]File, error) {
	if account == "" {
		replies, err := l.do(ctx, "files read", wire.Command{"ZRANGE", l.keys[fileRead][0], 0, n - 1})
		if err != nil {
			return nil, err
		}
		ids, err := redis.Strings(replies[0], nil)
		if err != nil {
			return nil, fmt.Errorf("files read: %w", err)
		}
		return l.Look(ctx, false, ids...)
	}
	const looked = 1024
	replies, err := l.do(ctx, "files read", wire.Command{"ZRANGEBYLEX", l.keys[fileIndex][0], "[" + account + "\x00", "(" + account + "\x01", "LIMIT", 0, looked})
	if err != nil {
		return nil, err
	}
	members, err := redis.Strings(replies[0], nil)
	if err != nil || len(members) == 0 {
		return nil, err
	}
	commands := make([]wire.Command, len(members))
	for i, m := range members {
		commands[i] = wire.Command{"ZSCORE", l.keys[fileRead][0], m[max(0, len(m)-FileIDLength):]}
	}
	if replies, err = l.do(ctx, "files read", commands...); err != nil {
		return nil, err
	}
	var ids []string
	for i, m := range members {
		if replies[i] != nil && len(ids) < n {
			ids = append(ids, m[max(0, len(m)-FileIDLength):])
		}
	}
	return l.Look(ctx, false, ids...)
}

// FileSum is a number of files and their bytes.
type FileSum struct {
	Files int
	Bytes int64
}

// FileTotals is what a namespace has of files.
type FileTotals struct {
	Kept      FileSum            // rows; equal bytes count for each
	Lost      int                // rows
	Objects   FileSum            // in the store
	Condemned FileSum            // in the store, to be removed
	Kinds     map[string]FileSum // of kept files
}

// Totals returns what the namespace has of files.
func (l Files) Totals(ctx context.Context) (FileTotals, error) {
	replies, err := l.do(ctx, "totals of files", wire.Command{"HGETALL", l.keys[fileTotals][0]})
	if err != nil {
		return FileTotals{}, err
	}
	sums, err := redis.StringMap(replies[0], nil)
	if err != nil {
		return FileTotals{}, fmt.Errorf("totals of files: %w", err)
	}
	t := FileTotals{Kinds: make(map[string]FileSum)}
	for name, text := range sums {
		sum := readSum(text)
		switch kind, ok := strings.CutPrefix(name, "kind:"); {
		case ok:
			t.Kinds[kind] = sum
		case name == "kept":
			t.Kept = sum
		case name == "lost":
			t.Lost = sum.Files
		case name == "objects":
			t.Objects = sum
		case name == "condemned":
			t.Condemned = sum
		}
	}
	return t, nil
}

// OfAccount returns the sum of an account's kept files.
func (l Files) OfAccount(ctx context.Context, account string) (FileSum, error) {
	replies, err := l.do(ctx, "files of account", wire.Command{"HGET", l.keys[fileAccounts][0], account})
	if err != nil || replies[0] == nil {
		return FileSum{}, err
	}
	text, err := redis.String(replies[0], nil)
	return readSum(text), err
}

func readSum(text string) FileSum {
	files, bytes, _ := strings.Cut(text, "|")
	n, _ := strconv.Atoi(files)
	b, _ := strconv.ParseInt(bytes, 10, 64)
	return FileSum{n, b}
}

// Walk calls fn for the rows of the list, some at a time, until it returns an error. A row
// that is added or ends meanwhile may be left out, and one may come twice.
func (l Files) Walk(ctx context.Context, fn func([]File) error) error {
	for cursor := "0"; ; {
		replies, err := l.do(ctx, "walk files", wire.Command{"HSCAN", l.keys[fileRows][0], cursor, "COUNT", 256})
		if err != nil {
			return err
		}
		ids, next, err := readScan(replies[0])
		if err != nil {
			return fmt.Errorf("walk files: %w", err)
		}
		files, err := l.Look(ctx, false, ids...)
		if err != nil {
			return err
		}
		there := files[:0]
		for _, f := range files {
			if f.ID != "" {
				there = append(there, f)
			}
		}
		if err := fn(there); err != nil {
			return err
		}
		if cursor = next; cursor == "0" {
			return nil
		}
	}
}

// Load adds the row of a backup as it was, unless there is one with its id. It reports
// whether it did. A kept file needs its Object.
func (l Files) Load(ctx context.Context, f File) (bool, error) {
	if err := f.validate(); err != nil {
		return false, err
	}
	if f.State.String() == "" || f.State == FileKept && (len(f.Hash) != 2*sha256.Size || strings.Contains(f.Object, "|")) {
		return false, fmt.Errorf("%w: load file: malformed", wire.ErrInput)
	}
	text := fmt.Sprintf("%c|%d|%d|%d|%s", f.State, f.Found.UnixMilli(), f.Kept.UnixMilli(), f.Size, f.Hash) + fmt.Sprintf("|%s|%d|%s\x00%s", f.rest()...)
	return redis.Bool(l.run(ctx, loadFileScript, f.ID, f.Object, text, f.judged()))
}

// readFile reads a row as files.lua writes it.
func readFile(id, text string) (File, error) {
	malformed := fmt.Errorf("file %s: %w", id, wire.ErrReply)
	head, rest, ok := strings.Cut(text, "\x00")
	reason, about, hasMore := strings.Cut(rest, "\x00")
	parts := strings.SplitN(head, "|", 8)
	if !ok || !hasMore || len(parts) != 8 || len(parts[0]) != 1 {
		return File{}, malformed
	}
	f := File{ID: id, State: FileState(parts[0][0]), Hash: parts[4], Kind: parts[5], Account: parts[7], Reason: reason}
	var errs [5]error
	f.Found, errs[0] = readMilli(parts[1])
	f.Kept, errs[1] = readMilli(parts[2])
	f.Size, errs[2] = strconv.ParseInt(parts[3], 10, 64)
	f.Place, errs[3] = strconv.Atoi(parts[6])
	var m more
	errs[4] = json.Unmarshal([]byte(about), &m)
	if errors.Join(errs[:]...) != nil || len(m.Holder) != 1 {
		return File{}, malformed
	}
	f.Holder, f.Of, f.Name, f.Type = FileHolder(m.Holder[0]), m.Of, m.Name, m.Type
	return f, nil
}

func (l Files) run(ctx context.Context, script *wire.Script, args ...any) (any, error) {
	keys := make([]string, len(l.keys))
	for i, k := range l.keys {
		keys[i] = k[0]
	}
	reply, err := wire.Mending(ctx, l.wire, l.keys, func() (any, error) { return l.wire.Eval(ctx, script, keys, args) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", script.Name(), err)
	}
	return reply, nil
}

func (l Files) do(ctx context.Context, doing string, commands ...wire.Command) ([]any, error) {
	replies, err := wire.Mending(ctx, l.wire, l.keys, func() ([]any, error) { return l.wire.Pipeline(ctx, l.keys[0][0], commands...) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return replies, nil
}
