package history

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate/document"
)

func TestNumbersAreExactEnough(t *testing.T) {
	t.Parallel()
	through := func(v float64, width int) float64 { return number(appendNumber(nil, v, width)) }
	for width, bound := range map[int]float64{2: 1.0 / 2048, 3: 1.0 / (1 << 19)} {
		random := rand.New(rand.NewPCG(1, 2))
		for range 20_000 {
			v := math.Exp2(random.Float64()*62 - 22)
			if got := through(v, width); math.Abs(got-v) > v*bound*1.0000001 {
				t.Fatalf("%d bytes: %v became %v", width, v, got)
			}
		}
		for n := 0.0; n <= 2048; n++ {
			if got := through(n, width); got != n {
				t.Errorf("%d bytes: %v became %v", width, n, got)
			}
		}
		for _, v := range []float64{math.NaN(), -1, math.Inf(-1)} {
			if got := through(v, width); !math.IsNaN(got) {
				t.Errorf("%d bytes: %v became %v", width, v, got)
			}
		}
		for _, v := range []float64{math.Inf(1), math.MaxFloat64, 1e13} {
			if got := through(v, width); math.IsNaN(got) || got < 2e12 {
				t.Errorf("%d bytes: %v became %v", width, v, got)
			}
		}
		for _, v := range []float64{1e-30, math.Exp2(-22) * 0.99999} {
			if got := through(v, width); !(got >= 0 && got <= math.Exp2(-22)) {
				t.Errorf("%d bytes: %v became %v", width, v, got)
			}
		}
	}
	for _, n := range []float64{20_013, 131_071, 524_288, 1_000_000} {
		if got := through(n, 3); got != n {
			t.Errorf("%v became %v", n, got)
		}
	}
}

// full returns figures that are all known, each with another value.
func full(at time.Time) *figures {
	f := figures{at: at}
	for i := range f.all {
		f.all[i] = spread{float64(100 * (i + 1)), float64(10 * (i + 1)), float64(1000 * (i + 1))}
	}
	return &f
}

func TestOtherVersionsReadWhatTheyKnow(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	for _, columns := range [][]column{briefColumns(), longColumns()} {
		p := encode(columns, full(at))
		size := 1
		for _, c := range columns {
			size += c.width
		}
		if len(p.Data) != size {
			t.Errorf("%d bytes, want %d", len(p.Data), size)
		}
		later := document.Point{At: at, Data: append(p.Data[:size:size], 1, 2, 3)} // a later version has more
		for _, point := range []document.Point{p, later} {
			f, ok := decode(columns, point)
			if !ok || !f.at.Equal(at) {
				t.Fatal(f.at, ok)
			}
			for _, c := range columns {
				want, got := float64(100*(c.field+1)), f.all[c.field].mean
				switch c.part {
				case least:
					want, got = want/10, f.all[c.field].least
				case most:
					want, got = want*10, f.all[c.field].most
				}
				if math.Abs(got-want) > want/1000 {
					t.Errorf("%s, part %d: got %v, want %v", c.field, c.part, got, want)
				}
			}
		}
		// An earlier version has less: what it did not know is missing.
		for n := range size {
			f, ok := decode(columns, document.Point{At: at, Data: p.Data[:n]})
			if ok != (n > 0) {
				t.Fatalf("%d bytes: %v", n, ok)
			}
			if ok && n < 3 && !math.IsNaN(f.all[ChecksPerSecond].mean) || ok && !math.IsNaN(f.all[MemoryLimit].most) {
				t.Errorf("%d bytes: got %v", n, f.all)
			}
		}
		p.Data[0]++
		if _, ok := decode(columns, p); ok {
			t.Error("another format was read")
		}
	}
}

func TestEachExtremeIsKept(t *testing.T) {
	t.Parallel()
	kept := make(map[column]bool)
	for _, c := range longColumns() {
		kept[column{field: c.field, part: c.part}] = true
	}
	for _, f := range Fields() {
		if !kept[column{f, mean, 0}] || kept[column{f, least, 0}] != f.hasMin() || kept[column{f, most, 0}] != f.hasMax() {
			t.Errorf("%s: not what is said of it is kept", f)
		}
		if again, ok := FieldNamed(f.String()); again != f || !ok || f.String() == "" {
			t.Errorf("%s: is not found by its name", f)
		}
	}
	if _, ok := FieldNamed("other"); ok || Field(-1).String() != Field(fields).String() {
		t.Error("a field that there is not")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(longColumns(), full(time.Unix(0, 0))).Data)
	f.Add([]byte{format})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, columns := range [][]column{briefColumns(), longColumns()} {
			got, ok := decode(columns, document.Point{Data: data})
			for i, s := range got.all {
				if ok && (s.mean < 0 || math.IsInf(s.mean, 0) || s.most < 0 || s.least < 0) {
					t.Errorf("%s: got %v", Field(i), s)
				}
			}
		}
	})
}
