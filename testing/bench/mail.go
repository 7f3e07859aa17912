package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"
)

const (
	mailFigures = "mail"
	mailSecret  = "MAIL"
	mailHold    = 2 * time.Minute         // of an IDLE
	mailLimits  = "imap/* concurrency=50" // connections to a server at once, while mailboxes are polled
	mailWindow  = 2 * time.Second
)

func mailMain(ctx context.Context, flags *flag.FlagSet, args []string, asJSON *bool, out io.Writer) error {
	idle := flags.Int("idle", 10_000, "mailboxes in IDLE; 0: none is")
	polled := flags.Int("polled", 100_000, "mailboxes that are polled; 0: none is")
	every := flags.Duration("every", 5*time.Minute, "how often they are polled")
	length := flags.Duration("for", time.Minute, "how long mail is sent")
	pollFor := flags.Duration("poll-for", 6*time.Minute, "how long polling is measured, after one interval")
	only := flags.String("only", "", "replica: without restarts; restarts: without mail")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *idle < 0 || *polled < 0 || *length < time.Second || *every < time.Second || *pollFor < 2*mailWindow {
		return errors.New("idle and polled must not be negative, for and every at least 1s, and poll-for 4s")
	}
	if !slices.Contains([]string{"", "replica", "restarts"}, *only) {
		return fmt.Errorf("--only: %q is neither replica nor restarts", *only)
	}
	report, err := newReporter(ctx, out, *asJSON)
	if err != nil {
		return err
	}
	if *idle > 0 {
		b := &heldBench{report: report, of: mailFigures, length: *length, accounts: *idle, only: *only, hold: mailHold}
		if err := b.run(ctx); err != nil {
			return err
		}
	}
	if *polled == 0 {
		return nil
	}
	b := &mailBench{heldBench: heldBench{report: report, of: mailFigures, length: *pollFor, accounts: *polled, every: *every, limits: mailLimits}}
	return b.run(ctx)
}

// mailRecord is the record of a mailbox.
func mailRecord(fake *heldFakes, account int, id, cadence string) string {
	host, port := fake.where(account)
	return fmt.Sprintf(`{"id":%q,"kind":"imap","config":{"host":%q,"port":%d,"user":%q,"password":{"secret":%q}},"cadence":%q}`,
		id, host, port, mailUser(account), mailSecret, cadence)
}

// mailBench measures one replica that polls very many mailboxes.
type mailBench struct {
	heldBench
}

func (b *mailBench) run(ctx context.Context) error {
	stop, err := b.prepare(ctx)
	if err != nil {
		return err
	}
	defer stop()
	replica, err := b.start(ctx, "poller")
	if err != nil {
		return err
	}
	defer replica.stop()
	if err := b.register(ctx); err != nil {
		return err
	}
	if err := pause(ctx, b.every); err != nil {
		return err
	}
	if _, err := b.fake.mostConnections(); err != nil { // from now on
		return err
	}
	before, err := processCPU(replica.cmd.Process.Pid)
	if err != nil {
		return err
	}
	var windows []lateness
	var rates []float64
	began := time.Now()
	for time.Since(began) < b.length {
		if err := pause(ctx, mailWindow); err != nil {
			return err
		}
		all, err := reports(ctx, b.ring)
		if err != nil {
			return err
		}
		for _, r := range all {
			windows, rates = append(windows, lateness{r.LatenessP50, r.LatenessP99}), append(rates, r.ChecksPerSecond)
		}
	}
	if len(windows) == 0 {
		return errors.New("the replica did not report")
	}
	took := time.Since(began)
	after, err := processCPU(replica.cmd.Process.Pid)
	if err != nil {
		return err
	}
	most, err := b.fake.mostConnections()
	if err != nil {
		return err
	}
	b.report.figure("mail_polled_accounts", float64(b.accounts), "accounts, every "+b.every.String())
	b.report.figure("mail_polls_per_s", median(rates), "checks/s")
	b.report.lateness("mail_", windows, "")
	b.report.figure("mail_most_connections", float64(most), "connections to a server at once")
	b.report.figure("mail_poll_cpu_share", (after-before)/took.Seconds(), "of a core, the replica")
	return nil
}
