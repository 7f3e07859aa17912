package pages

import "math"

// rates are the figures of the last minute. An unknown figure is NaN.
type rates struct {
	Checks, Messages, Failing float64
	P50, P99                  float64
}

const (
	ratesSource = "/v1/history?from=10m&step=10s&fields=checks_per_second,messages_per_second,failing_share,lateness_p50_seconds,lateness_p99_seconds"
	// ratesPoints is the number of points for a figure, which cover a minute. The newest point may not
	// be there yet.
	ratesPoints = 7
)

// rates returns the figures of the last minute.
func (v *visit) rates() rates {
	var c curves
	if v.May("GET /v1/history") {
		_ = v.shared(ratesSource, &c) // without a reply, nothing is known
	}
	mean := func(field string) float64 {
		sum, n := 0.0, 0
		for _, v := range latest(c.of(field, "values")) {
			sum, n = sum+v, n+1
		}
		return sum / float64(n) // NaN if there are none
	}
	r := rates{Checks: mean("checks_per_second"), Messages: mean("messages_per_second"), Failing: mean("failing_share"), P50: mean("lateness_p50_seconds"), P99: math.NaN()}
	for _, v := range latest(c.of("lateness_p99_seconds", "values")) {
		if !(v <= r.P99) {
			r.P99 = v
		}
	}
	return r
}

// latest returns the known values of the last minute.
func latest(values []float64) (known []float64) {
	for _, v := range values[max(0, len(values)-ratesPoints):] {
		if !math.IsNaN(v) {
			known = append(known, v)
		}
	}
	return known
}
