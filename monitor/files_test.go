package monitor_test

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
)

// A contradiction in the list of files is a finding of the regular audits. An audit that repairs ends it.
func TestAuditsFindWhatContradictsTheListOfFiles(t *testing.T) {
	for _, repair := range []bool{false, true} {
		inFakeTime(t, 2, func(w *world) {
			w.register("a")
			if _, err := w.Ring.Files().Lose(w.Context(), circulate.File{
				ID: circulate.NewFileID("a", circulate.FileOfMessage, "m", 0), Account: "a", Kind: "chat", Holder: circulate.FileOfMessage, Of: "m", Found: time.Now(), Reason: "gone",
			}); err != nil {
				t.Fatal(err)
			}
			w.Do("HSET", "{rounds:files}:totals", "kept", "1|5")
			stop := w.run(monitor.Config{AuditRepair: repair})
			time.Sleep(time.Minute)
			stop()
			l, err := concern.Read(w.Context(), w.Ring)
			if err != nil || l.Last == nil {
				t.Fatal(l, err)
			}
			found, repaired := l.Last.Found(circulate.Misfiled)
			if state := map[bool]concern.State{false: concern.Flawed, true: concern.Repaired}[repair]; l.State != state || found != 1 || repaired == 1 != repair || l.Last.Findings[0].ID != "total kept" {
				t.Errorf("the law is %s, %+v", l.State, l.Last)
			}
			if totals, err := w.Ring.Files().Totals(w.Context()); err != nil || totals.Kept.Files == 0 != repair {
				t.Errorf("%+v, %v", totals, err)
			}
		})
	}
}
