package history

import (
	"math"
	"time"

	"github.com/rounds-dev/rounds/circulate/document"
)

// format is the first byte of a stored sample. This program cannot read another format.
const format = 1

// part says which number of a figure it is.
type part byte

const (
	mean part = iota
	least
	most
)

// column is one number of a stored sample: its figure, and its size in bytes.
type column struct {
	field Field
	part  part
	width int
}

// briefColumns are the numbers of a sample, in their order. New ones only come at the end.
func briefColumns() []column {
	return []column{
		{ChecksPerSecond, mean, 2}, {MessagesPerSecond, mean, 2}, {FailingShare, mean, 2}, {LatenessP50, mean, 2}, {LatenessP99, mean, 2},
		{StalenessP99, mean, 2}, {StalenessMax, mean, 2}, {Overdue, mean, 2},
		{Registered, mean, 3}, {Scheduled, mean, 3}, {Waiting, mean, 3}, {Urgent, mean, 2}, {Low, mean, 2}, {Claimed, mean, 2},
		{Parked, mean, 3}, {Failing, mean, 3}, {Replicas, mean, 2}, {MemoryUsed, mean, 2}, {MemoryLimit, mean, 2},
	}
}

// longColumns are the numbers of two minutes. New ones only come at the end.
func longColumns() []column {
	return append(briefColumns(), []column{
		{ChecksPerSecond, least, 2}, {ChecksPerSecond, most, 2}, {MessagesPerSecond, most, 2}, {FailingShare, most, 2},
		{LatenessP99, most, 2}, {Overdue, most, 2}, {Waiting, most, 3}, {Replicas, least, 2}, {MemoryUsed, most, 2},
	}...)
}

// figures are the known figures of one time.
type figures struct {
	at  time.Time
	all [fields]spread
}

func encode(columns []column, f *figures) document.Point {
	data := []byte{format}
	for _, c := range columns {
		s, v := f.all[c.field], 0.0
		switch c.part {
		case least:
			v = s.least
		case most:
			v = s.most
		default:
			v = s.mean
		}
		data = appendNumber(data, v, c.width)
	}
	return document.Point{At: f.at, Data: data}
}

// decode returns what it can read. Absent numbers are NaN, and numbers beyond the
// columns are skipped.
func decode(columns []column, p document.Point) (figures, bool) {
	if len(p.Data) == 0 || p.Data[0] != format {
		return figures{}, false
	}
	f := figures{at: p.At}
	for i := range f.all {
		f.all[i] = missing()
	}
	data := p.Data[1:]
	for _, c := range columns {
		if len(data) < c.width {
			break
		}
		v := number(data[:c.width])
		data = data[c.width:]
		switch s := &f.all[c.field]; c.part {
		case least:
			s.least = v
		case most:
			s.most = v
		default:
			s.mean = v
		}
	}
	return f, true
}

// A number is six bits of exponent and then a fraction: 10 bits in two bytes, 18 in three.
// It is exact within 0.05 % in two bytes and within 0.0002 % in three, from 0.0000003 to two
// million millions. All bits set is a missing number.
const (
	exponentBits = 6
	exponents    = 1<<exponentBits - 1
	leastPower   = -22 // of two: exponent 1
)

func appendNumber(to []byte, v float64, width int) []byte {
	bits := 8*width - exponentBits
	code := encodeNumber(v, bits)
	for shift := 8 * (width - 1); shift >= 0; shift -= 8 {
		to = append(to, byte(code>>shift))
	}
	return to
}

func encodeNumber(v float64, bits int) uint32 {
	none := uint32(1)<<(bits+exponentBits) - 1
	if math.IsNaN(v) || v < 0 {
		return none
	}
	v = math.Min(v, math.Exp2(exponents+leastPower))
	scale := math.Exp2(float64(bits))
	if v < math.Exp2(leastPower) {
		return uint32(math.Round(v / math.Exp2(leastPower) * scale)) // carries into exponent 1
	}
	power := math.Floor(math.Log2(v))
	fraction := math.Round((v/math.Exp2(power) - 1) * scale) // may carry into the exponent
	code := (power-leastPower+1)*scale + fraction
	return uint32(math.Min(code, float64(none-1)))
}

func number(data []byte) float64 {
	code := uint32(0)
	for _, b := range data {
		code = code<<8 | uint32(b)
	}
	bits := 8*len(data) - exponentBits
	if code == uint32(1)<<(bits+exponentBits)-1 {
		return math.NaN()
	}
	scale := math.Exp2(float64(bits))
	exponent, fraction := float64(code>>bits), float64(code&(1<<bits-1))/scale
	if exponent == 0 {
		return fraction * math.Exp2(leastPower)
	}
	return (1 + fraction) * math.Exp2(exponent-1+leastPower)
}
