package concern_test

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
)

// byHand notes calls that find ten accounts in each shard.
func (w *lawWorld) byHand(parts ...concern.Part) {
	w.Helper()
	for _, p := range parts {
		p.Accounts, p.Took = 10*(p.To-p.From), time.Second
		if err := concern.ByHand(w.Context(), w.Ring, p); err != nil {
			w.Fatal(err)
		}
	}
}

func TestAnAuditByHandCountsWhenItIsComplete(t *testing.T) {
	lost := []concern.FindingCount{{Kind: circulate.Lost, Found: 2, Repaired: 1}}
	for name, test := range map[string]struct {
		parts []concern.Part
		want  concern.State
	}{
		"at once":                {[]concern.Part{{From: 0, To: 4}}, concern.Kept},
		"call by call":           {[]concern.Part{{From: 0, To: 1}, {From: 1, To: 3}, {From: 3, To: 4}}, concern.Kept},
		"with a call repeated":   {[]concern.Part{{From: 0, To: 1}, {From: 1, To: 3}, {From: 1, To: 3}, {From: 3, To: 4}}, concern.Kept},
		"two at once":            {[]concern.Part{{From: 0, To: 2}, {From: 0, To: 1}, {From: 2, To: 4}}, concern.Kept},
		"with findings":          {[]concern.Part{{From: 0, To: 1, Kinds: lost}, {From: 1, To: 4, Kinds: lost}}, concern.Violated},
		"not to the end":         {[]concern.Part{{From: 0, To: 3}}, concern.Never},
		"not from the beginning": {[]concern.Part{{From: 3, To: 4}}, concern.Never},
		"with a gap":             {[]concern.Part{{From: 0, To: 2}, {From: 3, To: 4}}, concern.Never},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *lawWorld) {
				w.byHand(test.parts...)
				l := w.law(test.want)
				if test.want == concern.Never {
					return
				}
				if l.Last.By != "hand" || l.Last.Accounts != 40 || l.Last.Audited != 4 || l.Last.Took() < time.Second {
					w.Errorf("%+v", l.Last)
				}
				if found, repaired := l.Last.Found(circulate.Lost); test.want == concern.Violated && (found != 4 || repaired != 2) {
					w.Errorf("%+v", l.Last)
				}
			})
		})
	}
}

// A repair by hand heals what a monitor has found, and a broken audit by a monitor as well.
func TestAnAuditByHandIsTheLatest(t *testing.T) {
	inFakeTime(t, func(w *lawWorld) {
		w.audited(time.Second, found(circulate.Lost, false))
		w.law(concern.Violated)
		run := w.resume()
		if err := run.BreakOff(w.Context(), nil); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.byHand(concern.Part{To: 4, Kinds: []concern.FindingCount{{Kind: circulate.Lost, Found: 1, Repaired: 1}}})
		w.law(concern.Repaired)
	})
}

func TestAnAuditByHandMayPauseForAnHour(t *testing.T) {
	inFakeTime(t, func(w *lawWorld) {
		w.byHand(concern.Part{From: 0, To: 2})
		time.Sleep(59 * time.Minute)
		w.byHand(concern.Part{From: 2, To: 3})
		time.Sleep(time.Hour)
		w.byHand(concern.Part{From: 3, To: 4})
		w.law(concern.Never)
	})
}
