package history

import (
	"math"
	"time"
)

// Sample is the figures of one time. In the zero Sample each figure is zero. NewSample
// makes one whose figures are all missing.
type Sample struct {
	At     time.Time
	values [fields]float64
}

// NewSample returns a sample without any figure.
func NewSample(at time.Time) Sample {
	s := Sample{At: at}
	for i := range s.values {
		s.values[i] = math.NaN()
	}
	return s
}

// Set sets a figure. A value that is negative or not finite makes it missing.
func (s *Sample) Set(f Field, value float64) {
	if !(value >= 0) || math.IsInf(value, 1) {
		value = math.NaN()
	}
	s.values[f] = value
}

// spread is a figure over some time: its mean and its extremes, NaN if it is missing.
type spread struct{ mean, least, most float64 }

func missing() spread { return spread{math.NaN(), math.NaN(), math.NaN()} }

// gathering adds up the spreads of some times, with equal weights.
type gathering struct {
	n, sum      float64
	least, most float64
}

func (g *gathering) add(s spread) {
	if math.IsNaN(s.mean) {
		return
	}
	least, most := s.least, s.most
	if math.IsNaN(least) {
		least = s.mean
	}
	if math.IsNaN(most) {
		most = s.mean
	}
	if g.n == 0 || least < g.least {
		g.least = least
	}
	if g.n == 0 || most > g.most {
		g.most = most
	}
	g.n++
	g.sum += s.mean
}

func (g *gathering) spread() spread {
	if g.n == 0 {
		return missing()
	}
	return spread{g.sum / g.n, g.least, g.most}
}
