package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// embedded is an embedded server with a connection.
type embedded struct {
	*testing.T
	*connect.Embedded
	conn  redis.Conn
	taker *Taker
}

func newEmbedded(t *testing.T) *embedded {
	t.Helper()
	server := connect.NewEmbedded()
	conn, err := server.Conn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = conn.Close(), server.Close() })
	return &embedded{t, server, conn, NewTaker(server)}
}

func (e *embedded) do(command string, args ...any) any {
	e.Helper()
	reply, err := e.conn.Do(command, args...)
	if err != nil {
		e.Fatalf("%s %.200q: %v", command, fmt.Sprint(args...), err)
	}
	return reply
}

// loaded returns a new server that is filled from a file.
func loaded(t *testing.T, file []byte, now time.Time) *embedded {
	t.Helper()
	e := newEmbedded(t)
	if _, err := load(t.Context(), e.Embedded, bytes.NewReader(file), now); err != nil {
		t.Fatal(err)
	}
	return e
}

// file returns an image of the server as a file.
func (e *embedded) file() []byte {
	e.Helper()
	i, err := e.taker.Take()
	if err != nil {
		e.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := i.Write(&b, "v1"); err != nil {
		e.Fatal(err)
	}
	return b.Bytes()
}

// unpacked returns the lines of a file.
func unpackedImage(t *testing.T, file []byte) string {
	t.Helper()
	lines, wrong, err := unpack(file)
	if err != nil || wrong != nil {
		t.Fatal(wrong, err)
	}
	defer lines.Close()
	text, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// repacked returns lines as a file.
func repacked(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	p := newPacker(&b)
	if _, err := io.WriteString(p, text); err != nil {
		t.Fatal(err)
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// fill makes keys of each type, with all sorts of contents.
func (e *embedded) fill() {
	e.Helper()
	e.do("SET", "string", "a\r\nb")
	e.do("SET", "empty", "")
	e.do("SET", "bytes\xff", "\x00\xfe")
	e.do("SET", "number", "9007199254740993")
	e.do("SET", "soon", "x", "PX", 60_000)
	e.do("SET", "lease", "x", "PX", 3_600_000)
	e.do("HSET", "hash", "f", "v", "é", "\u2028<&>", "\xff", "", "", "nameless")
	e.do("PEXPIRE", "hash", 7_200_000)
	e.do("RPUSH", "list", "a", "b", "a", "", "\xff")
	e.do("SADD", "set", "a", "b", "\xff")
	e.do("ZADD", "zset", "1.5", "half", "1763800000123", "ms", "-inf", "least", "inf", "most", "0.1", "tenth", "9007199254740991", "large", "1e-300", "small", "3.141592653589793", "pi", "7", "same", "7", "also\xff")
	long := []any{"long hash"}
	for i := range 5000 {
		long = append(long, fmt.Sprint("field ", i), strings.Repeat("v", i%50))
	}
	e.do("HSET", long...)
	e.do("RPUSH", "long values", strings.Repeat("x", 3*lineBytes), strings.Repeat("\xff", lineBytes), "end")
	for i := range 500 {
		e.do("XADD", "stream", fmt.Sprintf("%d-%d", 1000+i/2, i%2), "account", fmt.Sprint("a", i), "data", "\xff\r\n")
	}
	e.do("XGROUP", "CREATE", "stream", "crm", "0")
	e.do("XGROUP", "CREATE", "stream", "idle", "$")
	e.do("XGROUP", "CREATECONSUMER", "stream", "idle", "nobody")
	e.do("XREADGROUP", "GROUP", "crm", "one", "COUNT", "6", "STREAMS", "stream", ">")
	e.do("XREADGROUP", "GROUP", "crm", "two\xff", "COUNT", "5", "STREAMS", "stream", ">")
	e.do("XACK", "stream", "crm", "1000-1")
	e.do("XCLAIM", "stream", "crm", "two\xff", "0", "1001-0", "TIME", 1_600_000_000_000, "RETRYCOUNT", 7)
	e.do("XDEL", "stream", "1001-1", "1003-0", "1249-1") // the first is pending, the last the end
	e.do("XGROUP", "CREATE", "made", "g", "0", "MKSTREAM")
	e.do("XADD", "emptied", "5-7", "a", "b")
	e.do("XDEL", "emptied", "5-7")
}

// contents returns everything that a server's commands return.
func (e *embedded) contents() map[string]string {
	e.Helper()
	all := make(map[string]string)
	names, err := redis.Strings(e.do("KEYS", "*"), nil)
	if err != nil {
		e.Fatal(err)
	}
	for _, name := range names {
		kind, _ := redis.String(e.do("TYPE", name), nil)
		text := fmt.Sprintf("%s %q", kind, e.do(contents(kind, name)[0], anys(contents(kind, name)[1:])...))
		if left, _ := redis.Int64(e.do("PTTL", name), nil); left >= 0 {
			text += fmt.Sprint(" for about minutes ", (left+30_000)/60_000)
		}
		if kind == kindStream {
			text += fmt.Sprintf(" %q", e.do("XINFO", "STREAM", name))
			infos, _ := redis.Values(e.do("XINFO", "GROUPS", name), nil)
			groups := make(map[string]string)
			for _, info := range infos {
				about, _ := redis.Values(info, nil)
				group, _ := redis.String(about[1], nil)
				left, _ := redis.Values(e.do("XPENDING", name, group, "-", "+", 1000), nil)
				var pending []string
				for _, p := range left {
					fields, _ := redis.Values(p, nil)
					idle, _ := redis.Int64(fields[2], nil)
					pending = append(pending, fmt.Sprintf("%q %q %d, minutes ago %d", fields[0], fields[1], fields[3], (idle+30_000)/60_000))
				}
				consumers, _ := redis.Values(e.do("XINFO", "CONSUMERS", name, group), nil)
				for i, c := range consumers {
					fields, _ := redis.Values(c, nil)
					consumers[i] = fields[1]
				}
				groups[group] = fmt.Sprintf("%q %v %q", about, pending, consumers)
			}
			text += fmt.Sprint(groups)
		}
		all[name] = text
	}
	return all
}

func anys(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}

// A server filled from an image has the data of the other server, and goes on as that
// would.
func TestLoadedIsWhatWasThere(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t)
	e.fill()
	if later := loaded(t, e.file(), time.Now().Add(61*time.Second)).contents(); later["soon"] != "" || len(later) != 14 {
		t.Errorf("after a minute there are %d keys, and soon is %q", len(later), later["soon"])
	}
	again := loaded(t, e.file(), time.Now())
	e.do("DEL", "soon")
	again.do("DEL", "soon")
	got, want := again.contents(), e.contents()
	if len(want) != 14 {
		t.Errorf("%d keys", len(want))
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%q is\n%.2000s, want\n%.2000s", name, got[name], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
	for _, name := range []string{"stream", "emptied"} {
		if a, b := e.do("XREAD", "STREAMS", name, "0"), again.do("XREAD", "STREAMS", name, "0"); !reflect.DeepEqual(a, b) {
			t.Errorf("%s differs", name)
		}
	}
	read := []any{"GROUP", "crm", "one", "COUNT", "3", "STREAMS", "stream", ">"}
	if a, b := e.do("XREADGROUP", read...), again.do("XREADGROUP", read...); !reflect.DeepEqual(a, b) {
		t.Errorf("the group goes on with\n%q, want\n%q", b, a)
	}
}

// An image has one moment: a change of two keys by one script is in it completely or not
// at all.
func TestImageIsOfOneMoment(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t)
	other, err := e.Conn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	e.do("SET", "a", 0)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := other.Do("EVAL", "redis.call('INCR', 'a') for i = 1, 20 do redis.call('HINCRBY', 'h' .. i, 'n', 1) end redis.call('INCR', 'z')", 0); err != nil {
				stopped <- err
				return
			}
		}
	}()
	for range 20 {
		i, err := e.taker.Take()
		if err != nil {
			t.Fatal(err)
		}
		at := make(map[string]string)
		for _, k := range i.keys {
			r := replies{rest: i.replies[k.from:k.to]}
			if k.kind == kindHash {
				r.length()
				r.skip()
			}
			at[k.name] = r.text()
		}
		for name, value := range at {
			if value != at["a"] {
				t.Fatalf("%s is %s and a is %s", name, value, at["a"])
			}
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	_ = other.Close()
}

// A file that is not whole is refused with its line, and nothing of it is loaded.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t)
	e.do("HSET", "hash", "f", "v")
	e.do("SET", "string", "value")
	e.do("XADD", "stream", "5-5", "a", "b")
	file := string(e.file())
	whole := unpackedImage(t, []byte(file))
	lines := strings.SplitAfter(whole, "\n")
	if len(lines) != 6 {
		t.Fatalf("%q", lines)
	}
	with := func(old, text string) string {
		if !strings.Contains(whole, old) {
			t.Fatalf("%s is not in\n%s", old, whole)
		}
		return strings.Replace(whole, old, text, 1)
	}
	for name, c := range map[string]struct {
		content string
		line    int
		says    string
	}{
		"nothing":            {"", 1, "cut off"},
		"zeros":              {strings.Repeat("\x00", 4096), 1, "cut off"},
		"another file":       {"PK\x03\x04\n", 1, "cannot be read"},
		"another JSON":       {"{}\n", 1, "not data of rounds"},
		"a backup":           {`{"header":{"is":"rounds backup","format":1,"time":"2026-01-01T00:00:00Z"}}` + "\n", 1, "not data of rounds"},
		"format 0":           {with(`"format":2`, `"format":0`), 1, "format 0"},
		"without its end":    {strings.Join(lines[:4], ""), 5, "cut off"},
		"within the end":     {whole[:len(whole)-5], 5, "cut off"},
		"within a line":      {whole[:len(lines[0])+10], 2, "cut off"},
		"zeros at the end":   {lines[0] + strings.Repeat("\x00", 100) + "\n", 2, "cannot be read"},
		"a key less":         {with(lines[2], ""), 4, "counts"},
		"a key twice":        {with(lines[1], lines[1]+lines[1]), 6, "counts"},
		"an unknown type":    {with(`"type":"hash"`, `"type":"hush"`), 2, "hush"},
		"an odd hash":        {with(`["f","v"]`, `["f"]`), 2, "odd"},
		"half an entry":      {with(`["5-5","2","a","b"]`, `["5-5","2","a"]`), 3, "fields"},
		"no number":          {with(`["5-5","2","a","b"]`, `["5-5","x","a","b"]`), 3, "fields"},
		"an unknown field":   {with(`"type":"hash"`, `"typo":"hash"`), 2, "typo"},
		"more of nothing":    {with(lines[1], `{"more":["a"]}`+"\n"+lines[1]), 2, "no key"},
		"two at once":        {with(lines[1], `{"more":["a"],"key":{"name":"a","type":"set"}}`+"\n"), 2, "exactly one"},
		"bad base64":         {with(`["f","v"]}`, `["f","v"]},"base64":true`), 2, "base64"},
		"more after the end": {whole + "x", 6, "follows"},
		"counts":             {with(`"keys":3`, `"keys":4`), 5, "counts"},
	} {
		_, _, err := verify(strings.NewReader(repacked(t, c.content)))
		var damaged *damagedError
		if !errors.As(err, &damaged) || damaged.Line != c.line || !strings.Contains(damaged.Reason, c.says) {
			t.Errorf("%s: %v, want line %d: …%s…", name, err, c.line, c.says)
		}
	}
	middle := len(file) / 2
	for name, c := range map[string][2]string{
		"empty":            {"", "cut off"},
		"half":             {file[:middle], "cut off"},
		"without a byte":   {file[:len(file)-1], "cut off"},
		"without a sum":    {file[:len(file)-trailerSize], "cut off"},
		"more":             {file + "x", "cut off"},
		"twice":            {file + file, "altered"},
		"a bit":            {file[:middle] + string(file[middle]^4) + file[middle+1:], "altered"},
		"a bit of the sum": {file[:len(file)-1] + string([]byte{file[len(file)-1] ^ 1}), "altered"},
		"text":             {whole, "cut off"},
		"only a sum":       {file[len(file)-trailerSize:], "altered"},
	} {
		_, _, err := verify(strings.NewReader(c[0]))
		var damaged *damagedError
		if !errors.As(err, &damaged) || damaged.Line != 0 || !strings.Contains(damaged.Reason, c[1]) {
			t.Errorf("%s: %v, want …%s…", name, err, c[1])
		}
	}
	if _, _, err := verify(io.MultiReader(strings.NewReader(file[:middle]), errReader{})); err == nil || errors.As(err, new(*damagedError)) || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a file that cannot be read: %v", err)
	}
	later := with(`"format":2,"program":"v1"`, `"format":3,"program":"v9","needs":"v9"`)
	var newer *newerError
	if _, _, err := verify(strings.NewReader(repacked(t, later))); !errors.As(err, &newer) || !strings.Contains(err.Error(), "version v9 or later") {
		t.Errorf("a later format: %v", err)
	}
	if _, _, err := verify(strings.NewReader(repacked(t, later)[:len(repacked(t, later))-trailerSize])); !errors.As(err, &newer) {
		t.Errorf("a later format that ends in another way: %v", err)
	}
	if header, counts, err := verify(strings.NewReader(file)); err != nil || counts.Keys != 3 || header.Program != "v1" || time.Since(header.Time) > time.Minute {
		t.Errorf("the whole file: %+v %+v, %v", header, counts, err)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// The entries of streams are read once. Whatever becomes of a stream, a taker that has
// seen it before takes the same image as one that has not.
func TestStreamsAreReadOnce(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t)
	rng := rand.New(rand.NewPCG(1, 2))
	next := 0
	add := func(n int) {
		for range n {
			next += 1 + rng.IntN(2)
			e.do("XADD", "s", fmt.Sprintf("%d-%d", next/3, 1+next%3), "n", next, "data", strings.Repeat("x", rng.IntN(40)))
		}
	}
	steps := []func(){
		func() { add(1) },
		func() { add(rng.IntN(2 * chunkEntries)) },
		func() { e.do("XTRIM", "s", "MAXLEN", rng.IntN(next+1)) },
		func() { e.do("XTRIM", "s", "MINID", rng.IntN(next/3+1)) },
		func() {
			e.do("XADD", "s", fmt.Sprintf("%d-%d", next/3+1, 1), "large", strings.Repeat("y", chunkBytes))
			next += 6
		},
		func() { // one in the middle
			all, err := redis.Values(e.do("XRANGE", "s", "-", "+"), nil)
			if err != nil || len(all) == 0 {
				return
			}
			entry, _ := redis.Values(all[rng.IntN(len(all))], nil)
			e.do("XDEL", "s", entry[0])
		},
		func() { // the same ids with other contents
			all, _ := redis.Values(e.do("XRANGE", "s", "-", "+"), nil)
			e.do("DEL", "s")
			for _, one := range all {
				entry, _ := redis.Values(one, nil)
				e.do("XADD", "s", entry[0], "other", next)
			}
		},
		func() { e.do("DEL", "s") },
		func() {},
	}
	for n := range 40 {
		step := steps[rng.IntN(len(steps)*2)%len(steps)]
		if n < 20 {
			step = steps[n%3]
		}
		step()
		got := loaded(t, e.file(), time.Now())
		a, b := e.do("XRANGE", "s", "-", "+"), got.do("XRANGE", "s", "-", "+")
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("step %d: the image is not what was there", n)
		}
		_ = got.conn.Close()
	}
	// Few entries are new, so the server's replies are short.
	add(5 * chunkEntries)
	e.file()
	add(1)
	i, err := e.taker.Take()
	if err != nil {
		t.Fatal(err)
	}
	if len(i.replies) > 2000 {
		t.Errorf("the server told %d bytes for one entry", len(i.replies))
	}
}

func FuzzVerify(f *testing.F) {
	f.Add([]byte(`{"header":{"is":"rounds data","format":1,"time":"2026-01-01T00:00:00Z"}}` + "\n" + `{"key":{"name":"a","type":"stream","values":["5-5","2","a","b"]}}` + "\n"))
	f.Fuzz(func(t *testing.T, lines []byte) {
		_, _, err := verify(strings.NewReader(repacked(t, string(lines))))
		if err != nil && !errors.As(err, new(*damagedError)) && !errors.As(err, new(*newerError)) {
			t.Error(err)
		}
	})
}
