package monitor_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// run runs a monitor until the returned function is called.
func (w *world) run(config monitor.Config) (stop func()) {
	w.Helper()
	end := faketime.Go(w, w.monitor(config).Run)
	return func() {
		w.Helper()
		began := time.Now()
		if end(); time.Since(began) > 0 {
			w.Errorf("Run ended after %v", time.Since(began))
		}
	}
}

// exposed expects metrics as they are scraped, without their help.
func (w *world) exposed(want string, names ...string) {
	w.Helper()
	families, err := w.Metrics.Gather()
	if err != nil {
		w.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		if len(names) > 0 && !slices.Contains(names, family.GetName()) {
			continue
		}
		var text strings.Builder
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			w.Fatal(err)
		}
		for line := range strings.Lines(text.String()) {
			if !strings.HasPrefix(line, "# HELP ") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	var wanted []string
	for line := range strings.Lines(strings.TrimSpace(want)) {
		wanted = append(wanted, strings.TrimSpace(line))
	}
	if a, b := strings.Join(lines, "\n"), strings.Join(wanted, "\n"); a != b {
		w.Errorf("exposed:\n%s\nwant:\n%s", a, b)
	}
}

func TestMetricsAfterAMinute(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.register("a", "b", "c", "d", "e", "f")
		park, later := "e", "f"
		for shard := range 2 {
			for _, c := range w.claim(shard, alice, 10) {
				item := circulate.Return{Claim: &c, Kind: "k", Due: time.Now().Add(time.Hour), Messages: []circulate.Message{{ID: "1"}, {ID: "2"}}}
				switch c.ID {
				case park:
					item.Park = "gone: no such feed"
				case later:
				default:
					continue // and then she dies
				}
				if outcomes, err := w.Ring.Return(w.Context(), shard, []circulate.Return{item}); err != nil || outcomes[0] != circulate.Written {
					w.Fatal(outcomes, err)
				}
			}
		}
		w.register("g") // which nobody claims
		stop := w.run(monitor.Config{})
		time.Sleep(time.Second)
		w.exposed(`
			# TYPE rounds_accounts gauge
			rounds_accounts{place="claimed"} 4
			rounds_accounts{place="parked"} 1
			rounds_accounts{place="scheduled"} 2
			rounds_accounts{place="waiting"} 0
			# TYPE rounds_catch_up_seconds gauge
			rounds_catch_up_seconds 0
			# TYPE rounds_sweeps_total counter
			rounds_sweeps_total{outcome="failed"} 0
			rounds_sweeps_total{outcome="ok"} 1`, "rounds_accounts", "rounds_sweeps_total", "rounds_catch_up_seconds")
		time.Sleep(75 * time.Second) // the count finds accounts late at 60 s, and the estimate no checks at 75 s
		stop()
		w.exposed(`
			# TYPE rounds_accounts gauge
			rounds_accounts{place="claimed"} 0
			rounds_accounts{place="parked"} 1
			rounds_accounts{place="scheduled"} 2
			rounds_accounts{place="waiting"} 4
			# TYPE rounds_accounts_moved_total counter
			rounds_accounts_moved_total 0
			# TYPE rounds_audit_duplicated gauge
			rounds_audit_duplicated 0
			# TYPE rounds_audit_findings gauge
			rounds_audit_findings{kind="beyond"} 0
			rounds_audit_findings{kind="garbage"} 0
			rounds_audit_findings{kind="misplaced"} 0
			rounds_audit_findings{kind="no_record"} 0
			rounds_audit_findings{kind="orphan"} 0
			rounds_audit_findings{kind="unowned"} 0
			# TYPE rounds_audit_lost gauge
			rounds_audit_lost 0
			# TYPE rounds_audit_repairs_total counter
			rounds_audit_repairs_total{kind="beyond"} 0
			rounds_audit_repairs_total{kind="doubled"} 0
			rounds_audit_repairs_total{kind="garbage"} 0
			rounds_audit_repairs_total{kind="lost"} 0
			rounds_audit_repairs_total{kind="misplaced"} 0
			rounds_audit_repairs_total{kind="no_record"} 0
			rounds_audit_repairs_total{kind="orphan"} 0
			rounds_audit_repairs_total{kind="unowned"} 0
			# TYPE rounds_audit_seconds gauge
			rounds_audit_seconds 0.12
			# TYPE rounds_audit_unjudged gauge
			rounds_audit_unjudged 0
			# TYPE rounds_audits_total counter
			rounds_audits_total{outcome="failed"} 0
			rounds_audits_total{outcome="ok"} 1
			rounds_audits_total{outcome="violated"} 0
			# TYPE rounds_dead_letter_oldest_seconds gauge
			rounds_dead_letter_oldest_seconds 0
			# TYPE rounds_dead_letters gauge
			rounds_dead_letters 0
			# TYPE rounds_dead_letters_dropped_total counter
			rounds_dead_letters_dropped_total 0
			# TYPE rounds_messages_trimmed_early_total counter
			rounds_messages_trimmed_early_total 0
			# TYPE rounds_messages_trimmed_total counter
			rounds_messages_trimmed_total 0
			# TYPE rounds_missed_slots gauge
			rounds_missed_slots{share="0.99"} 0
			rounds_missed_slots{share="1"} 0
			# TYPE rounds_monitor_on_duty gauge
			rounds_monitor_on_duty 1
			# TYPE rounds_overdue_seconds gauge
			rounds_overdue_seconds 60
			# TYPE rounds_probed_total counter
			rounds_probed_total 0
			# TYPE rounds_quarantined_total counter
			rounds_quarantined_total 0
			# TYPE rounds_recalled_total counter
			rounds_recalled_total 0
			# TYPE rounds_redis_clock_step_seconds gauge
			rounds_redis_clock_step_seconds 0
			# TYPE rounds_redis_clock_steps_total counter
			rounds_redis_clock_steps_total{direction="ahead"} 0
			rounds_redis_clock_steps_total{direction="back"} 0
			# TYPE rounds_requeued_total counter
			rounds_requeued_total{reason="compensated"} 0
			rounds_requeued_total{reason="orphaned"} 4
			rounds_requeued_total{reason="set_aside"} 0
			rounds_requeued_total{reason="stale"} 0
			rounds_requeued_total{reason="unknown"} 0
			# TYPE rounds_rescheduled_total counter
			rounds_rescheduled_total 0
			# TYPE rounds_sends gauge
			rounds_sends{state="attempting"} 0
			rounds_sends{state="queued"} 0
			rounds_sends{state="unknown"} 0
			# TYPE rounds_sends_ended_total counter
			rounds_sends_ended_total{state="expired"} 0
			rounds_sends_ended_total{state="unknown"} 0
			# TYPE rounds_staleness_scan_seconds gauge
			rounds_staleness_scan_seconds 2
			# TYPE rounds_staleness_seconds summary
			rounds_staleness_seconds{quantile="0.5"} 61
			rounds_staleness_seconds{quantile="0.99"} 61
			rounds_staleness_seconds{quantile="1"} 61
			rounds_staleness_seconds_sum 555
			rounds_staleness_seconds_count 18
			# TYPE rounds_stream_messages gauge
			rounds_stream_messages 4
			# TYPE rounds_sweeps_total counter
			rounds_sweeps_total{outcome="failed"} 0
			rounds_sweeps_total{outcome="ok"} 16
			# TYPE rounds_waiting_by_kind gauge
			rounds_waiting_by_kind 0`)
		families, err := w.Metrics.Gather()
		if err != nil {
			w.Fatal(err)
		}
		if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
			w.Errorf("%+v, %v", problems, err)
		}
	})
}

func TestDeadReplicasAccountsAreBackWithinTwentySeconds(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		for _, phase := range []time.Duration{0, 1700 * time.Millisecond, 4999 * time.Millisecond} {
			id := fmt.Sprint(phase)
			stop := w.run(monitor.Config{})
			time.Sleep(phase)
			w.register(id)
			w.beat(alice)
			if len(w.claim(w.Ring.ShardOf(id), alice, 10)) != 1 {
				w.Fatal("nothing was claimed")
			}
			died := time.Now()
			for w.Look(id).Place == circulate.Claimed && time.Since(died) < time.Minute {
				time.Sleep(100 * time.Millisecond)
			}
			if took := time.Since(died); took < 10*time.Second || took > 20*time.Second {
				w.Errorf("phase %v: claimable again after %v", phase, took)
			}
			stop()
			if n, err := w.Ring.Deregister(w.Context(), w.Ring.ShardOf(id), []string{id}); n != 1 || err != nil {
				w.Fatal(n, err)
			}
			w.NewMetrics()
		}
	})
}

func TestRunOutlivesAnOutageAndTellsOfIt(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.register("a")
		w.beat(alice)
		w.claim(w.Ring.ShardOf("a"), alice, 1)
		stop := w.run(monitor.Config{Retention: time.Hour})
		time.Sleep(time.Second)
		w.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(10 * time.Minute)
		w.exposed(`
			# TYPE rounds_sweeps_total counter
			rounds_sweeps_total{outcome="failed"} 120
			rounds_sweeps_total{outcome="ok"} 1`, "rounds_sweeps_total")
		w.Miniredis().SetError("")
		w.beat(alice)
		time.Sleep(4*time.Second + time.Millisecond) // the first sweep after it
		w.exposed(`
			# TYPE rounds_requeued_total counter
			rounds_requeued_total{reason="compensated"} 0
			rounds_requeued_total{reason="orphaned"} 0
			rounds_requeued_total{reason="set_aside"} 0
			rounds_requeued_total{reason="stale"} 1
			rounds_requeued_total{reason="unknown"} 0`, "rounds_requeued_total")
		w.Placed(circulate.Waiting, "a")
		stop()
	})
}

func TestMessagesAreKeptForTheirRetention(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.register("a", "b", "c", "d")
		find := func(message string) {
			for shard := range 2 {
				for _, c := range w.claim(shard, alice, 10) {
					outcomes, err := w.Ring.Return(w.Context(), shard, []circulate.Return{{Claim: &c, Messages: []circulate.Message{{ID: message}}}})
					if err != nil || outcomes[0] != circulate.Written {
						w.Fatal(outcomes, err)
					}
				}
			}
		}
		stop := w.run(monitor.Config{Retention: time.Hour, TrimInterval: 10 * time.Minute, SweepInterval: time.Minute})
		find("old")
		time.Sleep(30*time.Minute + time.Second)
		find("new")
		time.Sleep(29 * time.Minute)
		w.messages("a", "old", "new")
		time.Sleep(11 * time.Minute) // the hour, and one turn
		w.messages("a", "new")
		w.exposed("# TYPE rounds_messages_trimmed_total counter\nrounds_messages_trimmed_total 4", "rounds_messages_trimmed_total")

		// A group that has not read holds its own shard's messages back, which is logged.
		w.Do("XGROUP", "CREATE", key(w.Ring, w.Ring.ShardOf("a"), "messages"), "readers", "0")
		time.Sleep(time.Hour)
		w.messages("a", "new")
		w.exposed("# TYPE rounds_streams_held_back gauge\nrounds_streams_held_back 1", "rounds_streams_held_back")
		w.Do("XGROUP", "DESTROY", key(w.Ring, w.Ring.ShardOf("a"), "messages"), "readers")
		time.Sleep(11 * time.Minute)
		w.messages("a")
		w.exposed("# TYPE rounds_messages_trimmed_total counter\nrounds_messages_trimmed_total 8\n"+
			"# TYPE rounds_streams_held_back gauge\nrounds_streams_held_back 0", "rounds_messages_trimmed_total", "rounds_streams_held_back")
		stop()
	})
}

func TestWithoutRetentionMessagesStay(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a")
		c := w.claim(0, alice, 1)[0]
		if _, err := w.Ring.Return(w.Context(), 0, []circulate.Return{{Claim: &c, Messages: []circulate.Message{{ID: "1"}}}}); err != nil {
			w.Fatal(err)
		}
		stop := w.run(monitor.Config{SweepInterval: time.Hour, CountInterval: time.Hour})
		time.Sleep(6 * time.Hour)
		w.messages("a", "1")
		stop()
	})
}

// messages expects the ids of an account's messages in the stream.
func (w *world) messages(account string, want ...string) {
	w.Helper()
	found, err := w.Ring.Streams().Messages(w.Context(), w.Ring.ShardOf(account), circulate.StreamStart, 1000)
	if err != nil {
		w.Fatal(err)
	}
	var got []string
	for _, f := range found {
		if f.Account == account {
			got = append(got, f.Message.ID)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("%q has messages %q, want %q", account, got, want)
	}
}

func TestRunEndsWithItsContextAndLeavesNothingBehind(t *testing.T) {
	server := redistest.Embedded(t)
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()
	for i := range 20 {
		m, err := monitor.New(ring, monitor.Config{SweepInterval: time.Millisecond, CountInterval: time.Millisecond, TrimInterval: time.Millisecond, Retention: time.Hour},
			monitor.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
		if err := m.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
		cancel()
	}
	if err := server.Close(); err != nil { // its own goroutines
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)
}
