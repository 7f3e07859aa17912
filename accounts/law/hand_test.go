package law_test

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/law"
	"github.com/rounds-dev/rounds/circulate"
)

// byHand notes calls that find ten accounts in each shard.
func (w *world) byHand(parts ...law.Part) {
	w.Helper()
	for _, p := range parts {
		p.Accounts, p.Took = 10*(p.To-p.From), time.Second
		if err := law.ByHand(w.Context(), w.Ring, p); err != nil {
			w.Fatal(err)
		}
	}
}

func TestAnAuditByHandCountsWhenItIsComplete(t *testing.T) {
	lost := []law.FindingCount{{Kind: circulate.Lost, Found: 2, Repaired: 1}}
	for name, test := range map[string]struct {
		parts []law.Part
		want  law.State
	}{
		"at once":                {[]law.Part{{From: 0, To: 4}}, law.Kept},
		"call by call":           {[]law.Part{{From: 0, To: 1}, {From: 1, To: 3}, {From: 3, To: 4}}, law.Kept},
		"with a call repeated":   {[]law.Part{{From: 0, To: 1}, {From: 1, To: 3}, {From: 1, To: 3}, {From: 3, To: 4}}, law.Kept},
		"two at once":            {[]law.Part{{From: 0, To: 2}, {From: 0, To: 1}, {From: 2, To: 4}}, law.Kept},
		"with findings":          {[]law.Part{{From: 0, To: 1, Kinds: lost}, {From: 1, To: 4, Kinds: lost}}, law.Violated},
		"not to the end":         {[]law.Part{{From: 0, To: 3}}, law.Never},
		"not from the beginning": {[]law.Part{{From: 3, To: 4}}, law.Never},
		"with a gap":             {[]law.Part{{From: 0, To: 2}, {From: 3, To: 4}}, law.Never},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				w.byHand(test.parts...)
				l := w.law(test.want)
				if test.want == law.Never {
					return
				}
				if l.Last.By != "hand" || l.Last.Accounts != 40 || l.Last.Audited != 4 || l.Last.Took() < time.Second {
					w.Errorf("%+v", l.Last)
				}
				if found, repaired := l.Last.Found(circulate.Lost); test.want == law.Violated && (found != 4 || repaired != 2) {
					w.Errorf("%+v", l.Last)
				}
			})
		})
	}
}

// A repair by hand heals what a monitor has found, and a broken audit by a monitor as well.
func TestAnAuditByHandIsTheLatest(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.audited(time.Second, found(circulate.Lost, false))
		w.law(law.Violated)
		run := w.resume()
		if err := run.BreakOff(w.Context(), nil); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.byHand(law.Part{To: 4, Kinds: []law.FindingCount{{Kind: circulate.Lost, Found: 1, Repaired: 1}}})
		w.law(law.Repaired)
	})
}

func TestAnAuditByHandMayPauseForAnHour(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.byHand(law.Part{From: 0, To: 2})
		time.Sleep(59 * time.Minute)
		w.byHand(law.Part{From: 2, To: 3})
		time.Sleep(time.Hour)
		w.byHand(law.Part{From: 3, To: 4})
		w.law(law.Never)
	})
}
