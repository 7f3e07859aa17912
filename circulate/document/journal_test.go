package document_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestNotesAreReadBackwards(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		j, ctx := open(t, server).Journal(), t.Context()
		if notes, err := j.Before(ctx, circulate.StreamID{}, time.Time{}, 10); err != nil || len(notes) != 0 {
			t.Fatalf("of nothing: got %v, %v", notes, err)
		}
		var ids []circulate.StreamID
		for i := range 7 {
			id, err := j.Append(ctx, fmt.Append(nil, i), 1000)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		var got []string
		for place := (circulate.StreamID{}); ; {
			notes, err := j.Before(ctx, place, time.Time{}, 3)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range notes {
				got, place = append(got, string(n.Text)), n.ID
			}
			if len(notes) < 3 {
				break
			}
		}
		if strings.Join(got, "") != "6543210" {
			t.Errorf("got %q", got)
		}
		now, err := j.Now(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if notes, err := j.Before(ctx, circulate.StreamID{}, ids[0].Time(), 10); err != nil || len(notes) != 7 {
			t.Errorf("since the first: got %d, %v", len(notes), err)
		}
		if notes, err := j.Before(ctx, circulate.StreamID{}, now.Add(time.Hour), 10); err != nil || len(notes) != 0 {
			t.Errorf("since later: got %d, %v", len(notes), err)
		}
	})
}

func TestTheOldestNotesAreForgotten(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		j := open(t, server).Journal()
		for i := range 1200 {
			if _, err := j.Append(t.Context(), fmt.Append(nil, i), 300); err != nil {
				t.Fatal(err)
			}
		}
		n, err := redis.Int(do(t, server, "XLEN", "ns:trail"), nil)
		if err != nil || n < 300 || n > 400 {
			t.Errorf("%d are kept of about 300, %v", n, err)
		}
		notes, err := j.Before(t.Context(), circulate.StreamID{}, time.Time{}, 1)
		if err != nil || len(notes) != 1 || string(notes[0].Text) != "1199" {
			t.Errorf("the last is %q, %v", notes, err)
		}
	})
}

func TestAKeyOfAnotherTypeIsSetAside(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		j := open(t, server).Journal()
		do(t, server, "SET", "ns:trail", "x")
		if _, err := j.Append(t.Context(), []byte("note"), 10); err != nil {
			t.Fatal(err)
		}
		do(t, server, "XADD", "ns:trail", "*", "other", "field")
		notes, err := j.Before(t.Context(), circulate.StreamID{}, time.Time{}, 10)
		if err != nil || len(notes) != 2 || notes[0].Text != nil || string(notes[1].Text) != "note" {
			t.Errorf("got %q, %v", notes, err)
		}
	})
}

func TestWhatIsNoNote(t *testing.T) {
	t.Parallel()
	j, ctx := open(t, redistest.Embedded(t)).Journal(), context.Background()
	for _, c := range []struct {
		text []byte
		kept int
	}{{nil, 10}, {bytes.Repeat([]byte("x"), document.MaxNote+1), 10}, {[]byte("x"), 0}, {[]byte("x"), -1}, {[]byte("x"), document.MaxNotes + 1}} {
		if _, err := j.Append(ctx, c.text, c.kept); err == nil || circulate.Unavailable(err) || circulate.Unknown(err) {
			t.Errorf("%d bytes, %d kept: got %v", len(c.text), c.kept, err)
		}
	}
	for _, most := range []int{-1, 0, document.MaxNotesRead + 1} {
		if _, err := j.Before(ctx, circulate.StreamID{}, time.Time{}, most); err == nil {
			t.Errorf("%d at once: no error", most)
		}
	}
}
