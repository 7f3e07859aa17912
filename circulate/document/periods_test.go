package document_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestPeriods(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		p := open(t, server).Activity()
		minute, hour := document.Level{Name: "m", Every: time.Minute, Kept: 3}, document.Level{Name: "h", Every: time.Hour, Kept: 2}
		both := func(text string, versions ...int64) []document.Period {
			return []document.Period{{Level: minute, Number: 100, Version: versions[0], Text: []byte(text)}, {Level: hour, Number: 1, Version: versions[1], Text: []byte(text)}}
		}
		put := func(want error, all ...document.Period) {
			t.Helper()
			if err := p.Put(t.Context(), all); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", all[0].Text, err, want)
			}
		}
		read := func(want string, l document.Level, number int64) {
			t.Helper()
			all := []document.Period{{Level: l, Number: number, Version: 9, Text: []byte("stale")}}
			if _, err := p.Read(t.Context(), all); err != nil || string(all[0].Text) != want || (all[0].Version > 0) != (want != "") {
				t.Errorf("%s%d: got %d %q, %v; want %q", l.Name, number, all[0].Version, all[0].Text, err, want)
			}
		}
		read("", minute, 100)
		put(nil, both("a", 0, 0)...)
		put(nil, both("a", 0, 0)...) // repeated
		put(document.ErrChanged, both("b", 0, 0)...)
		put(document.ErrChanged, both("b", 1, 0)...) // all or none
		read("a", minute, 100)
		put(nil, both("b", 1, 1)...)
		read("b", minute, 100)
		read("b", hour, 1)
		put(nil, document.Period{Level: minute, Number: 103, Text: []byte("later")})
		read("", minute, 100) // its place is taken
		read("later", minute, 103)
		put(nil, document.Period{Level: minute, Number: 100, Text: []byte("a clock that was ahead")})
		read("", minute, 103)
		if n := do(t, server, "HLEN", "ns:activity"); n != int64(2) {
			t.Errorf("%v documents, want 2", n)
		}
		if ms := do(t, server, "PTTL", "ns:activity").(int64); ms <= 0 || ms > (2*time.Hour).Milliseconds() {
			t.Errorf("they live for %d ms", ms)
		}
		do(t, server, "HSET", "ns:activity", "m:0", "102|x|y", "m:1", "no period")
		read("", minute, 102)
		put(nil, document.Period{Level: minute, Number: 102, Text: []byte("mended")})
		read("mended", minute, 102)
		if err := p.Put(t.Context(), []document.Period{{Level: minute, Number: 1, Text: []byte(strings.Repeat("x", document.MaxPeriod+1))}}); err == nil {
			t.Error("a text that is too long was written")
		}
	})
}
