package service

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestAHangupLeavesAnEntry(t *testing.T) {
	for _, c := range []struct {
		kept int
		want int
	}{{100, 2}, {0, 0}} {
		ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Shards: 2})
		if err != nil {
			t.Fatal(err)
		}
		reload := newReloader(settings.Settings{API: settings.API{TrailKept: c.kept}}, Options{Log: slog.New(slog.DiscardHandler)})
		hangups := make(chan os.Signal, 2)
		hangups <- syscall.SIGHUP
		close(hangups)
		reload.obey(t.Context(), hangups) // the ring is not open yet
		if err := reload.openTrail(ring, prometheus.NewRegistry()); err != nil {
			t.Fatal(err)
		}
		hangups = make(chan os.Signal, 2)
		hangups <- syscall.SIGHUP
		hangups <- syscall.SIGHUP
		close(hangups)
		reload.obey(t.Context(), hangups)
		page, err := reload.trail.Load().Look(t.Context(), trail.Query{Limit: 10})
		if err != nil || len(page.Entries) != c.want {
			t.Fatalf("kept %d: got %+v, %v", c.kept, page, err)
		}
		for _, e := range page.Entries {
			if e.Action != "reload" || e.Via != "signal" || e.By != "" || e.Outcome != trail.Failed { // fails, because the options have no Read
				t.Errorf("got %+v", e)
			}
		}
	}
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	reload := newReloader(settings.Settings{API: settings.API{TrailKept: 1 << 40}}, Options{})
	if err := reload.openTrail(ring, prometheus.NewRegistry()); err == nil || !strings.HasPrefix(err.Error(), "ROUNDS_TRAIL_KEPT: ") {
		t.Errorf("too many: %v", err)
	}
	for _, c := range []struct {
		err  error
		want trail.Outcome
	}{{nil, trail.Done}, {accounts.Faults{{Field: "x"}}, trail.Refused}, {errors.New("no"), trail.Failed}} {
		if e := signalled(api.Reloaded{Changed: []string{"ROUNDS_LIMITS"}}, c.err); e.Outcome != c.want || e.Fields[0] != "ROUNDS_LIMITS" {
			t.Errorf("%v: got %+v", c.err, e)
		}
	}
}
