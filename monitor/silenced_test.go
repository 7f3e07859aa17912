package monitor_test

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// The monitor on duty shows how old the last backup is, once there is one.
func TestAgeOfBackupIsShown(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		m, err := monitor.New(w.Ring, monitor.Config{}, monitor.Options{Metrics: monitor.NewMetrics(w.Metrics)})
		if err != nil {
			w.Fatal(err)
		}
		stop := faketime.Go(w.T, m.Run)
		time.Sleep(time.Minute)
		w.exposed("", "rounds_backup_age_seconds")
		if err := concern.NoteBackup(w.Context(), w.Ring, concern.Backup{SHA256: "ab"}); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Hour + 5*time.Second)
		w.exposed(`
			# TYPE rounds_backup_age_seconds gauge
			rounds_backup_age_seconds 3600
		`, "rounds_backup_age_seconds")
		stop()
	})
}

// The monitor on duty shows which concerns are silent, for as long as they are.
func TestSilentConcernsAreShown(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		m, err := monitor.New(w.Ring, monitor.Config{}, monitor.Options{Metrics: monitor.NewMetrics(w.Metrics)})
		if err != nil {
			w.Fatal(err)
		}
		stop := faketime.Go(w.T, m.Run)
		silences := concern.SilencesOf(w.Ring)
		for code, subject := range map[concern.Code]string{concern.Overdue: "", concern.DeadLetters: "crm"} {
			if err := silences.Silence(w.Context(), code, subject, time.Now().Add(10*time.Minute), "eve", "a test"); err != nil {
				w.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		w.exposed(`
			# TYPE rounds_concern_silenced gauge
			rounds_concern_silenced{concern="overdue"} 1
		`, "rounds_concern_silenced")
		time.Sleep(10 * time.Minute)
		w.exposed("", "rounds_concern_silenced")
		stop()
	})
}
