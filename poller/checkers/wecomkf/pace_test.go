package wecomkf

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Idle accounts are forgotten, but not every call looks for them.
func TestIdlePacesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paces{most: paceCalls}
		p.swept = time.Now()
		for i := range 2 * pacedMost {
			if failed := p.call(fmt.Sprint("early", i)); failed != nil {
				t.Fatal(failed)
			}
		}
		time.Sleep(paceWindow / 2)
		for range paceCalls {
			_ = p.call("busy")
		}
		time.Sleep(paceWindow / 2)
		if failed := p.call("busy"); failed == nil || failed.RetryAfter != paceWindow/2 {
			t.Errorf("one call too many: got %+v", failed)
		}
		if len(p.calls) != 1 {
			t.Errorf("%d accounts are remembered, want the one that was busy", len(p.calls))
		}
		swept := p.swept
		time.Sleep(paceWindow / 2)
		for i := range 2 * pacedMost {
			_ = p.call(fmt.Sprint("late", i))
		}
		if p.swept != swept {
			t.Error("they were looked for again within the window")
		}
	})
}
