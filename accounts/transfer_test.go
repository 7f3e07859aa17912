package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func noBadLines(t *testing.T) func(BadLine) error {
	return func(b BadLine) error {
		t.Errorf("bad line: %+v", b)
		return nil
	}
}

func TestImport(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 16)
		const lines = 2000
		var text strings.Builder
		var wantBad []int
		for i := 1; i <= lines; i++ {
			switch {
			case i%500 == 0:
				fmt.Fprintf(&text, "{\"id\":\"id-%d\",\"kind\":\"web\",\"config\":{\"key\":\"bad\"},\"x\":1}\n", i)
				wantBad = append(wantBad, i)
			case i%1000 == 1:
				text.WriteString(" \r\n") // a blank line
			default:
				fmt.Fprintf(&text, "{\"id\":\"id-%d\",\"kind\":\"plain\",\"cadence\":\"every 10m\"}\r\n", i)
			}
		}
		good := lines - len(wantBad) - 2

		var bad []int
		s, err := r.Import(ctx, iotest.HalfReader(strings.NewReader(text.String())), func(b BadLine) error {
			bad = append(bad, b.Line)
			if b.ID != fmt.Sprintf("id-%d", b.Line) || len(b.Faults) != 3 {
				t.Errorf("bad line: %+v", b)
			}
			return nil
		})
		if want := (Summary{Lines: lines - 2, Created: good, Failed: len(wantBad)}); err != nil || s != want {
			t.Fatalf("import: %+v, %v; want %+v", s, err, want)
		}
		if !slices.Equal(bad, wantBad) {
			t.Errorf("bad lines: %v", bad)
		}

		// Each account is due at its slot, within an interval from now.
		v, err := r.Get(ctx, "id-2")
		now, nowErr := ring.Now(ctx, ring.ShardOf("id-2"))
		rhythm, parseErr := cadence.Parse("every 10m")
		if err := errors.Join(err, nowErr, parseErr); err != nil {
			t.Fatal(err)
		}
		if slot, _ := rhythm.After("id-2", now, cadence.State{}); !v.State.Due.Equal(slot) {
			t.Errorf("due %v, its slot is %v", v.State.Due, slot)
		}

		s, err = r.Import(ctx, strings.NewReader(text.String()), func(BadLine) error { return nil })
		if want := (Summary{Lines: lines - 2, Unchanged: good, Failed: len(wantBad)}); err != nil || s != want {
			t.Fatalf("the same again: %+v, %v; want %+v", s, err, want)
		}

		// Importing the export changes nothing.
		var exported bytes.Buffer
		e, err := r.export(ctx, Selector{}, &exported)
		if err != nil || e.Accounts != good || bytes.Count(exported.Bytes(), []byte("\n")) != good {
			t.Fatalf("export: %+v, %v", e, err)
		}
		s, err = r.Import(ctx, &exported, noBadLines(t))
		if want := (Summary{Lines: good, Unchanged: good}); err != nil || s != want {
			t.Fatalf("import of the export: %+v, %v", s, err)
		}
		changed := strings.ReplaceAll(text.String(), "10m", "5m")
		s, err = r.Import(ctx, strings.NewReader(changed), func(BadLine) error { return nil })
		if err != nil || s.Updated != good {
			t.Fatalf("import of changes: %+v, %v", s, err)
		}
	})
}

// Lines of one id are applied in their order, even if they are in different batches.
func TestImportLastWins(t *testing.T) {
	ctx := context.Background()
	r, _ := newRegistry(t, redistest.Embedded(t), 4)
	last := make(map[string]string)
	var text strings.Builder
	for i := range 3000 {
		id, label := fmt.Sprint("id-", rand.IntN(40)), fmt.Sprint(i)
		last[id] = label
		fmt.Fprintf(&text, "{\"id\":%q,\"kind\":\"plain\",\"labels\":{\"n\":%q}}\n", id, label)
	}
	s, err := r.Import(ctx, strings.NewReader(text.String()), noBadLines(t))
	if err != nil || s.Created != len(last) || s.Done() != 3000 {
		t.Fatalf("%+v, %v", s, err)
	}
	for id, label := range last {
		if v, err := r.Get(ctx, id); err != nil || v.Labels["n"] != label {
			t.Errorf("%s: %v, %v; want %s", id, v.Labels, err, label)
		}
	}
}

// A line is compared with the line before it, not with the account when the import began. So
// lines that change an account and change it back count as two changes, and leave the account
// as it was.
func TestImportThereAndBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, _ := newRegistry(t, server, 4)
		line := func(label string) string {
			return `{"id":"a","kind":"plain","labels":{"n":"` + label + `"}}` + "\n"
		}
		for _, lines := range [][]string{{"A"}, {"B", "A"}, {"A", "B", "A"}, {"B", "C", "B"}, {"A", "A", "B", "B", "A"}} {
			last := lines[len(lines)-1]
			var text strings.Builder
			for _, label := range lines {
				text.WriteString(line(label))
			}
			s, err := r.Import(ctx, strings.NewReader(text.String()), noBadLines(t))
			if err != nil || s.Done() != len(lines) {
				t.Errorf("%v: %+v, %v", lines, s, err)
			}
			if v, err := r.Get(ctx, "a"); err != nil || v.Labels["n"] != last {
				t.Errorf("%v: left %q, %v", lines, v.Labels["n"], err)
			}
		}
	})
}

func TestImportForgetsCursorsOfOtherKinds(t *testing.T) {
	ctx := context.Background()
	r, ring := newRegistry(t, redistest.Embedded(t), 1)
	for _, id := range []string{"same", "other"} {
		if _, err := r.Create(ctx, Account{ID: id, Kind: "plain"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range claimAll(t, ring) {
		returnClaim(t, ring, circulate.Return{Claim: c, Due: time.Now().Add(time.Hour), Cursor: []byte("c1")})
	}
	text := `{"id":"same","kind":"plain","cadence":"every 0"}
{"id":"other","kind":"web","config":{"url":"x"},"cadence":"every 0"}`
	if s, err := r.Import(ctx, strings.NewReader(text), noBadLines(t)); err != nil || s.Updated != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	claims := claimAll(t, ring)
	if string(claims["same"].Cursor) != "c1" || claims["other"].Cursor != nil {
		t.Errorf("cursors: %q and %q", claims["same"].Cursor, claims["other"].Cursor)
	}
}

func TestImportLongLines(t *testing.T) {
	r, _ := newRegistry(t, redistest.Embedded(t), 1)
	record := func(size int) string {
		const frame = `{"id":"a","kind":"plain","labels":{"a":""}}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", size-len(frame))+`"`, 1)
	}
	text := record(MaxRecord) + "\n" + record(MaxRecord+1) + "\n" + record(3*MaxRecord) + "\n\n" + `{"id":"b","kind":"plain"}` + "\n" + record(2*MaxRecord)
	var got []string
	s, err := r.Import(context.Background(), strings.NewReader(text), func(b BadLine) error {
		got = append(got, fmt.Sprint(b.Line, b.Faults[0].Field))
		return nil
	})
	want := []string{"1labels.a", "2record", "3record", "6record"}
	if err != nil || s != (Summary{Lines: 5, Created: 1, Failed: 4}) || !slices.Equal(got, want) {
		t.Fatalf("%+v, %v, %v", s, err, got)
	}
}

// failingServer lends a limited number of connections and then fails.
type failingServer struct {
	circulate.Server
	left int
}

var errAway = errors.New("redis is away")

func (s *failingServer) Conn(ctx context.Context, key string) (redis.Conn, error) {
	if s.left--; s.left < 0 {
		return nil, errAway
	}
	return s.Server.Conn(ctx, key)
}

func TestImportStops(t *testing.T) {
	line := func(i int) string { return fmt.Sprintf("{\"id\":\"id-%d\",\"kind\":\"plain\"}\n", i) }
	var text strings.Builder
	for i := range 2000 {
		text.WriteString(line(i))
	}
	t.Run("redis fails", func(t *testing.T) {
		server := &failingServer{Server: redistest.Embedded(t), left: 100}
		r, _ := newRegistry(t, server, 1)
		server.left = 3 * 4 // each batch needs three: a look-up, a look-up elsewhere, and a write
		s, err := r.Import(context.Background(), strings.NewReader(text.String()), noBadLines(t))
		if !errors.Is(err, errAway) || s.Created != 800 || !strings.Contains(err.Error(), "800 of the ") {
			t.Fatalf("%+v, %v", s, err)
		}
	})
	t.Run("input ends early", func(t *testing.T) {
		r, _ := newRegistry(t, redistest.Embedded(t), 1)
		in := io.MultiReader(strings.NewReader(line(1)+line(2)[:20]), iotest.ErrReader(io.ErrUnexpectedEOF))
		s, err := r.Import(context.Background(), in, noBadLines(t))
		if !errors.Is(err, ErrInput) || !errors.Is(err, io.ErrUnexpectedEOF) || s.Lines != 1 || !strings.Contains(err.Error(), "line 2") {
			t.Fatalf("%+v, %v", s, err)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		r, _ := newRegistry(t, redistest.Embedded(t), 1)
		gone := errors.New("gone")
		_, err := r.Import(context.Background(), strings.NewReader("x\ny\n"), func(BadLine) error { return gone })
		if !errors.Is(err, gone) {
			t.Fatal(err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		r, _ := newRegistry(t, redistest.Embedded(t), 1)
		ctx, cancel := context.WithCancel(context.Background())
		in := io.MultiReader(strings.NewReader("x\n"+text.String()), neverEnds{})
		_, err := r.Import(ctx, in, func(BadLine) error { cancel(); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
}

// neverEnds returns blank lines for ever.
type neverEnds struct{}

func (neverEnds) Read(p []byte) (int, error) { return copy(p, "\n"), nil }

// The memory of an import is bounded in bytes as well.
func TestImportHoldsLittle(t *testing.T) {
	r, _ := newRegistry(t, redistest.Embedded(t), 1)
	w := newBatchWriter(context.Background(), r, Importing{From: BeginBackfill})
	for i := range 10 {
		a := Account{ID: fmt.Sprint(i), Kind: "plain", Config: json.RawMessage(`"` + strings.Repeat("x", batchBytes/5) + `"`)}
		record, err := a.Encode()
		if err == nil {
			err = w.add(a, record, nil, i+1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if w.held > batchBytes {
		t.Errorf("%d bytes are held", w.held)
	}
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	if len(w.pending) != 0 || w.held != 0 {
		t.Errorf("%d batches with %d bytes are held after a flush", len(w.pending), w.held)
	}
	if err := w.close(nil); err != nil || w.created != 10 {
		t.Errorf("created %d, %v", w.created, err)
	}
}

// slowReader returns one line at a time. It calls wait before each.
type slowReader struct {
	lines []string
	wait  func(read int)
	read  int
}

func (r *slowReader) Read(p []byte) (int, error) {
	r.wait(r.read)
	if r.read == len(r.lines) {
		return 0, io.EOF
	}
	r.read++
	return copy(p, r.lines[r.read-1]), nil
}

// An import with slow input writes the lines that it has, and does not wait for more.
func TestImportFedSlowly(t *testing.T) {
	faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
		r, _ := newRegistry(t, server, 1)
		in := &slowReader{lines: []string{"{\"id\":\"a\",\"kind\":\"plain\"}\n", "\n", "{\"id\":\"b\",\"kind\":\"plain\"}\n"}}
		in.wait = func(read int) {
			time.Sleep(2 * heldTime)
			synctest.Wait() // until the sent lines are written
			_, err := r.Get(context.Background(), "a")
			if read >= 2 && err != nil {
				t.Errorf("after %d lines: %v", read, err)
			}
		}
		if s, err := r.Import(context.Background(), in, noBadLines(t)); err != nil || s.Created != 2 {
			t.Fatalf("%+v, %v", s, err)
		}
	})
}

// What belongs to a record is done once it is judged and before it is written, and not in a dry run.
func TestImportLinesTaken(t *testing.T) {
	r, _ := newRegistry(t, redistest.Embedded(t), 4)
	var taken []int
	broken := errors.New("broken")
	lines := func(yield func(Line, error) bool) {
		for i, record := range []string{`{"id":"a","kind":"plain"}`, `{"id":"b","kind":"plain","cadence":"often"}`, `{"id":"c","kind":"plain"}`, `{"id":"d","kind":"plain"}`} {
			took := func() error {
				if taken = append(taken, i); i == 3 {
					return broken
				}
				return nil
			}
			if !yield(Line{Number: i + 1, Record: []byte(record), Taken: took}, nil) {
				return
			}
		}
	}
	if s, err := r.ImportLines(t.Context(), lines, Importing{DryRun: true}); err != nil || s != (Summary{Lines: 4, Created: 3, Failed: 1}) || taken != nil {
		t.Errorf("dry: %+v %v, taken %v", s, err, taken)
	}
	if s, err := r.ImportLines(t.Context(), lines, Importing{}); !errors.Is(err, broken) || s.Failed != 1 || !slices.Equal(taken, []int{0, 2, 3}) {
		t.Errorf("%+v %v, taken %v", s, err, taken)
	}
	if _, err := r.Get(t.Context(), "d"); !errors.Is(err, ErrNotFound) {
		t.Errorf("what was not done for was written: %v", err)
	}
}

func TestExportLeavesOutWhatIsNoRecord(t *testing.T) {
	ctx := context.Background()
	r, ring := newRegistry(t, redistest.Embedded(t), 1)
	for id, record := range map[string]string{"a": "{", "b": "{\n\"id\": \"b\"\n}"} {
		if _, err := ring.Register(ctx, 0, []circulate.Registration{{ID: id, Record: []byte(record)}}); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	e, err := r.export(ctx, Selector{}, &out)
	if err != nil || e != (Exported{Accounts: 1, Unreadable: 1}) || out.String() != "{\"id\":\"b\"}\n" {
		t.Fatalf("%+v, %v: %q", e, err, out.String())
	}
}
