package history

import (
	"math"
	"time"
)

// Totals are a replica's counts since it started. The difference between two of them is
// what it did in between.
type Totals struct {
	Checks   uint64 `json:"checks"`
	Failures uint64 `json:"failures"`
	Messages uint64 `json:"messages"`
	// Lateness counts the checks that began, by how late they did.
	Lateness Lateness `json:"lateness,omitempty"`
}

// Plus returns the sum of two totals. It shares nothing with them.
func (t Totals) Plus(other Totals) Totals {
	return Totals{t.Checks + other.Checks, t.Failures + other.Failures, t.Messages + other.Messages, t.Lateness.Clone().plus(other.Lateness)}
}

// Lateness counts checks in buckets of lateness. The bounds begin at a millisecond and grow
// by the root of two, so a quantile exceeds the true one by at most that factor.
type Lateness []uint64

// latenessBuckets cover nine days.
const latenessBuckets = 60

// Add counts one check.
func (l *Lateness) Add(late time.Duration) {
	bucket := 0
	if ms := float64(late) / float64(time.Millisecond); ms > 1 {
		bucket = min(latenessBuckets-1, int(math.Ceil(2*math.Log2(ms))))
	}
	for len(*l) <= bucket {
		*l = append(*l, 0)
	}
	(*l)[bucket]++
}

// Quantile returns the upper bound, in seconds, of the bucket that has the quantile. It
// returns 0 if nothing was counted.
func (l Lateness) Quantile(q float64) float64 {
	all := uint64(0)
	for _, n := range l {
		all += n
	}
	rank := uint64(math.Ceil(q * float64(all)))
	for bucket, n := range l {
		if n > 0 && rank <= n {
			return math.Exp2(float64(bucket)/2) / 1000
		}
		rank -= min(rank, n)
	}
	return 0
}

// Clone returns a copy.
func (l Lateness) Clone() Lateness { return append(Lateness(nil), l...) }

// plus adds counts of another time, or another replica, to these.
func (l Lateness) plus(other Lateness) Lateness {
	for len(l) < len(other) {
		l = append(l, 0)
	}
	for i, n := range other {
		l[i] += n
	}
	return l
}

// since returns what was counted after an earlier count of the same replica. It returns
// false if the earlier one is greater, which means that they come from different
// processes.
func (l Lateness) since(before Lateness) (Lateness, bool) {
	d := l.Clone()
	if len(d) > latenessBuckets || len(before) > len(d) {
		return nil, false
	}
	for i, n := range before {
		if n > d[i] {
			return nil, false
		}
		d[i] -= n
	}
	return d, true
}
