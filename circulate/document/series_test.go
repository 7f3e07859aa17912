package document_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const seriesKey = "ns:series:10s"

func openSeries(t *testing.T, server redistest.Redis, kept int) document.Series {
	t.Helper()
	return open(t, server).Series("10s", kept)
}

func point(seconds int64, data string) document.Point {
	return document.Point{At: time.Unix(seconds, 0), Data: []byte(data)}
}

func appended(t *testing.T, s document.Series, p document.Point, want bool) {
	t.Helper()
	if got, err := s.Append(t.Context(), p); got != want || err != nil {
		t.Errorf("%d %q: got %v, %v; want %v", p.At.Unix(), p.Data, got, err, want)
	}
}

// last reads points as texts such as "10:a".
func last(t *testing.T, s document.Series, skip, n int) []string {
	t.Helper()
	points, now, err := s.Last(t.Context(), skip, n)
	if err != nil || time.Since(now).Abs() > time.Hour {
		t.Fatal(now, err)
	}
	var texts []string
	for _, p := range points {
		texts = append(texts, fmt.Sprintf("%d:%s", p.At.Unix(), p.Data))
	}
	return texts
}

func TestPointsAreKeptInOrder(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		s := openSeries(t, server, 4)
		if got := last(t, s, 0, 10); got != nil {
			t.Errorf("of nothing: %v", got)
		}
		appended(t, s, point(10, "a"), true)
		appended(t, s, point(10, "a"), false) // repeated
		appended(t, s, point(10, "b"), false) // another's
		appended(t, s, point(20, "\x00\n"), true)
		appended(t, s, point(4294967290, "far"), true)
		appended(t, s, point(15, "back"), true) // the clock went back
		if got, want := last(t, s, 0, 10), []string{"10:a", "20:\x00\n", "4294967290:far", "15:back"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		appended(t, s, point(30, "c"), true)
		appended(t, s, point(40, "d"), true)
		for _, c := range []struct {
			skip, n int
			want    []string
		}{
			{0, 10, []string{"4294967290:far", "15:back", "30:c", "40:d"}}, // four are kept
			{0, 2, []string{"30:c", "40:d"}},
			{1, 2, []string{"15:back", "30:c"}},
			{3, 2, []string{"4294967290:far"}},
			{4, 2, nil},
		} {
			if got := last(t, s, c.skip, c.n); !slices.Equal(got, c.want) {
				t.Errorf("%d behind %d: got %q, want %q", c.n, c.skip, got, c.want)
			}
		}
		s = openSeries(t, server, 2) // fewer from now on
		appended(t, s, point(50, "e"), true)
		if got := last(t, s, 0, 10); !slices.Equal(got, []string{"40:d", "50:e"}) {
			t.Errorf("got %q", got)
		}
	})
}

func TestGarbageInASeries(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		s := openSeries(t, server, 10)
		do(t, server, "SET", seriesKey, "x")
		appended(t, s, point(10, "a"), true) // the key was set aside
		do(t, server, "RPUSH", seriesKey, "", "abcd", "x")
		appended(t, s, point(20, "b"), true)
		if got := last(t, s, 0, 10); !slices.Equal(got, []string{"10:a", "20:b"}) {
			t.Errorf("got %q", got)
		}
		do(t, server, "DEL", seriesKey)
		do(t, server, "HSET", seriesKey, "a", "b")
		if got := last(t, s, 0, 10); got != nil {
			t.Errorf("got %q", got)
		}
	})
}

func TestAFullRedisTakesPoints(t *testing.T) {
	t.Parallel()
	real := redistest.Start(t)
	server := redistest.Connect(t, real)
	s := openSeries(t, server, 10)
	appended(t, s, point(10, "a"), true)
	real.LimitMemory(t, "1")
	appended(t, s, point(20, "b"), true)
	if n, err := redis.Int(do(t, server, "LLEN", seriesKey), nil); n != 2 || err != nil {
		t.Error(n, err)
	}
}

func TestWhatIsNoPoint(t *testing.T) {
	t.Parallel()
	server := redistest.Embedded(t)
	for _, c := range []struct {
		point document.Point
		kept  int
	}{
		{point(10, ""), 10}, {point(-1, "a"), 10}, {point(1<<32, "a"), 10}, {point(10, "a"), 1}, {point(10, "a"), document.MaxPoints + 1},
		{document.Point{At: time.Unix(10, 0), Data: bytes.Repeat([]byte("x"), document.MaxPoint+1)}, 10},
	} {
		if _, err := openSeries(t, server, c.kept).Append(t.Context(), c.point); err == nil || circulate.Unavailable(err) || circulate.Unknown(err) {
			t.Errorf("%v, %d kept: got %v", c.point.At, c.kept, err)
		}
	}
	for _, c := range [][2]int{{0, 0}, {0, document.MaxPointsRead + 1}, {-1, 1}, {document.MaxPoints + 1, 1}} {
		if _, _, err := openSeries(t, server, 10).Last(t.Context(), c[0], c[1]); err == nil {
			t.Errorf("%v: no error", c)
		}
	}
}
