package history

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keep stores a sample of one figure now.
func keep(w *faketime.World, k *Keeper, checks float64) {
	w.Helper()
	now, err := w.Ring.Now(w.Context(), 0)
	if err != nil {
		w.Fatal(err)
	}
	s := NewSample(now)
	s.Set(ChecksPerSecond, checks)
	if err := k.Add(w.Context(), s); err != nil {
		w.Fatal(err)
	}
}

// look returns one figure's means as text, - where it is missing, and its extremes where
// they differ.
func look(w *faketime.World, r *Reader, q Query) string {
	w.Helper()
	q.Fields = []Field{ChecksPerSecond}
	c, err := r.Look(w.Context(), q)
	if err != nil {
		w.Fatal(err)
	}
	var all []string
	for i, v := range c.Curves[0].Mean {
		text := "-"
		if !math.IsNaN(v) {
			text = fmt.Sprintf("%.4g", v)
		}
		if least, most := c.Curves[0].Least[i], c.Curves[0].Most[i]; least != most && !math.IsNaN(v) {
			text += fmt.Sprintf("(%.4g..%.4g)", least, most)
		}
		all = append(all, text)
	}
	if len(all) != c.Points {
		w.Errorf("%d points, said to be %d", len(all), c.Points)
	}
	return strings.Join(all, " ")
}

func expect(w *faketime.World, r *Reader, q Query, want string) {
	w.Helper()
	if got := look(w, r, q); got != want {
		w.Errorf("got  %s\nwant %s", got, want)
	}
}

// Fake time begins at midnight, so that samples fall where they seem to.
func TestSamplesBecomePoints(t *testing.T) {
	faketime.Run(t, 1, func(w *faketime.World) {
		k, r := NewKeeper(w.Ring), NewReader(w.Ring)
		expect(w, r, Query{Before: 20 * time.Second}, "- -")
		for i := range 30 { // five minutes
			if i != 2 && i != 15 {
				keep(w, k, float64(i))
				keep(w, k, 1e6) // of the same ten seconds
			}
			time.Sleep(Every)
		}
		expect(w, r, Query{Before: 5 * time.Minute, Step: Every}, "0 1 - 3 4 5 6 7 8 9 10 11 12 13 14 - 16 17 18 19 20 21 22 23 24 25 26 27 28 29")
		expect(w, r, Query{Before: 5 * time.Minute, Step: time.Minute}, "2.6(0..5) 8.5(6..11) 14.4(12..17) 20.5(18..23) 26.5(24..29)")
		expect(w, r, Query{Before: 4 * time.Minute, Until: 3 * time.Minute, Step: 30 * time.Second}, "7(6..8) 10(9..11)")
		// Two minutes of which there are samples have no sum in place of the missing ones.
		expect(w, r, Query{From: time.Now().Add(-150 * time.Second), To: time.Now().Add(-140 * time.Second), Step: Every}, "-")
		// Another reader reads from Redis, and so does a keeper that took over.
		keep(w, NewKeeper(w.Ring), 30)
		time.Sleep(time.Second)
		expect(w, NewReader(w.Ring), Query{Before: 10 * time.Second, Step: Every}, "29 30")
		keep(w, k, 31) // it was late
		expect(w, NewReader(w.Ring), Query{Before: 10 * time.Second, Step: Every}, "29 30")
		expect(w, r, Query{Before: 10 * time.Second, Step: Every}, "29 30")
	})
}

func TestTwoMinutesAreKeptForLonger(t *testing.T) {
	faketime.Run(t, 1, func(w *faketime.World) {
		begin := time.Now()
		k := NewKeeper(w.Ring)
		for i := range 50 {
			if i == 18 {
				k = NewKeeper(w.Ring) // another monitor took over half way
			}
			if i < 12 || i >= 17 {
				keep(w, k, float64(i))
			}
			time.Sleep(Every)
		}
		w.Do("DEL", "rounds:series:10s") // as they are after a day
		r := NewReader(w.Ring)
		q := Query{From: begin, Step: Long}
		expect(w, r, q, "5.5(0..11) 20(17..23) 29.5(24..35) 41.5(36..47) -") // the last two minutes go on
		expect(w, r, Query{From: begin.Add(time.Minute), To: begin.Add(4 * time.Minute), Step: time.Minute}, "5.5(0..11) 20(17..23) -")
		if n := w.Do("LLEN", "rounds:series:2m"); n != int64(4) {
			w.Errorf("%v are kept", n)
		}
		time.Sleep(2 * time.Hour)
		keep(w, k, 100) // after a gap
		expect(w, NewReader(w.Ring), Query{From: begin, To: begin.Add(12 * time.Minute), Step: Long}, "5.5(0..11) 20(17..23) 29.5(24..35) 41.5(36..47) - -")
		time.Sleep(25 * time.Hour)
		expect(w, NewReader(w.Ring), Query{From: begin, To: begin.Add(12 * time.Minute), Step: 6 * time.Minute}, "18.33(0..35) 41.5(36..47)")
		for _, c := range []struct {
			q    Query
			want error
		}{
			{Query{From: begin, Step: time.Minute}, ErrFine},
			{Query{From: time.Now().Add(time.Second)}, ErrFrom},
			{Query{From: begin, To: begin}, ErrFrom},
			{Query{Before: 32 * 24 * time.Hour}, ErrFrom},
			{Query{Step: 15 * time.Second}, ErrStep},
			{Query{Step: -Every}, ErrStep},
			{Query{Before: 2 * time.Hour, Step: Every}, ErrStep},
			{Query{From: time.Unix(math.MinInt64/2, 0)}, ErrFrom},
		} {
			if _, err := r.Look(w.Context(), c.q); !errors.Is(err, c.want) {
				w.Errorf("%+v: got %v, want %v", c.q, err, c.want)
			}
		}
		for before, want := range map[time.Duration]time.Duration{
			time.Minute: Every, time.Hour: Every, 24 * time.Hour: 4 * time.Minute, 7 * 24 * time.Hour: 30 * time.Minute, Most: 2 * time.Hour,
		} {
			if c, err := r.Look(w.Context(), Query{Before: before}); err != nil || c.Step != want || c.Points > MaxPoints {
				w.Errorf("%v: got %v, %d points, %v", before, c.Step, c.Points, err)
			}
		}
	})
}

// A sample that was added later counts, and none is shown before its time.
func TestTheClockSteps(t *testing.T) {
	faketime.Run(t, 1, func(w *faketime.World) {
		k, r := NewKeeper(w.Ring), NewReader(w.Ring)
		step := time.Duration(0)
		w.SetRedisClock(func() time.Time { return time.Now().Add(step) })
		add := func(values ...float64) {
			for _, v := range values {
				keep(w, k, v)
				time.Sleep(Every)
			}
		}
		begin := time.Now()
		add(0, 1, 2, 3)
		step = time.Hour
		add(4, 5)
		step = -20 * time.Second
		add(6, 7, 8)
		step = 0
		want := "0 1 2 3 6 7 8 - -"
		for _, reader := range []*Reader{r, NewReader(w.Ring)} {
			expect(w, reader, Query{From: begin, Step: Every}, want)
		}
		add(9)
		time.Sleep(time.Second)
		want = "0 1 2 3 6 7 8 - - 9 -"
		for _, reader := range []*Reader{r, NewReader(w.Ring)} {
			expect(w, reader, Query{From: begin, Step: Every}, want)
		}
	})
}

func TestAReaderReadsOnlyWhatIsNew(t *testing.T) {
	faketime.Run(t, 1, func(w *faketime.World) {
		calls := 0
		w.Server.Set(func(s faketime.Step) faketime.Fate {
			if s.At == faketime.Send && s.Command == "LRANGE" {
				calls++
			}
			return faketime.Healthy
		})
		k, r := NewKeeper(w.Ring), NewReader(w.Ring)
		for range 100 {
			keep(w, k, 1)
			time.Sleep(Every)
		}
		calls = 0
		look(w, r, Query{})
		first := calls
		for range 10 {
			look(w, r, Query{}) // within a second
		}
		if calls != first || first > 6 {
			w.Errorf("%d reads, then %d", first, calls-first)
		}
		calls = 0
		keep(w, k, 2)
		time.Sleep(time.Second)
		expect(w, r, Query{Before: 10 * time.Second, Step: Every}, "1 2")
		if calls != 2 {
			w.Errorf("%d reads of what was new", calls)
		}
		// Deleted samples are gone even for a reader that knew them.
		w.Do("DEL", "rounds:series:10s", "rounds:series:2m")
		time.Sleep(time.Second)
		expect(w, r, Query{Before: 10 * time.Second, Step: Every}, "- -")

		w.Server.Set(func(s faketime.Step) faketime.Fate { return faketime.NotDone })
		time.Sleep(time.Second)
		if _, err := r.Look(w.Context(), Query{}); !circulate.Unavailable(err) {
			w.Errorf("got %v", err)
		}
	})
}

// A month and a day of samples take at most 2 MiB of a real Redis.
func TestBothAreBounded(t *testing.T) {
	t.Parallel()
	real := redistest.Start(t)
	server := redistest.Connect(t, real)
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := real.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	now := time.Now().Truncate(Long)
	fill := func(key string, s document.Series, columns []column, every time.Duration) {
		t.Helper()
		for i := s.Most() - 1; i >= 0; i-- {
			p := encode(columns, full(now.Add(time.Duration(-i)*every)))
			text := fmt.Appendf(nil, "%c%c%c%c", 1, byte(i>>16), byte(i>>8), byte(i))
			if err := conn.Send("RPUSH", key, append(text, p.Data...)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := conn.Do(""); err != nil {
			t.Fatal(err)
		}
		if added, err := s.Append(t.Context(), encode(columns, full(now.Add(every)))); !added || err != nil {
			t.Fatal(added, err)
		}
		if n, err := redis.Int(conn.Do("LLEN", key)); n != s.Most() || err != nil {
			t.Errorf("%s: %d are kept, %v", key, n, err)
		}
	}
	fill("rounds:series:10s", briefOf(ring), briefColumns(), Every)
	fill("rounds:series:2m", longOf(ring), longColumns(), Long)
	keys, err := redis.Strings(conn.Do("KEYS", "rounds:series:*"))
	if err != nil || len(keys) != 2 {
		t.Fatal(keys, err)
	}
	sum := 0
	for _, key := range keys {
		n, err := redis.Int(conn.Do("MEMORY", "USAGE", key, "SAMPLES", 0))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if sum > 2<<20 || sum < 1<<20 {
		t.Errorf("they take %d bytes", sum)
	}
	t.Logf("they take %d bytes", sum)
}
