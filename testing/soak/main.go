// Command soak has the program check 500 accounts of customer service over three
// corporations of a fake WeCom. Meanwhile it injects every error of WeCom's error table,
// revokes tokens and kills replicas:
//
//	go run ./testing/soak --for 10m [--accounts 500] [--mailboxes 40] [--seed 1]
//
// One corporation is healthy and gets the errors. One has more accounts than its limit of
// calls lets through. Of one the program knows a wrong secret. Half of the messages are
// announced by callbacks. Twelve personal WeChat accounts and twelve Telegram bots, whose calls
// are held, are among them, and get every error of their tables. The WeChat server gives each
// message once: what it gave to a replica that was just killed, or in an answer that broke, may
// be missing, and the report counts that.
//
// Mailboxes are among them too, half of them held in IDLE. Their server refuses connections, is slow,
// cuts answers within a literal, numbers mails anew, has access tokens expire in the middle of a
// session, and names limits. Each mail must be in the streams once, or once under each UIDVALIDITY if
// its account remembers no mails.
//
// Accounts that can send do so, those of two connectors among them, and what takes a send fails in
// every way. In the end every other message of every healthy account must be in the streams once, and
// no send may be there twice. The command prints what was expected and what was found.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	length := flags.Duration("for", 10*time.Minute, "how long messages are posted and errors injected")
	accounts := flags.Int("accounts", 500, "accounts: two fifths healthy, two fifths limited, the rest with a wrong secret")
	mailboxes := flags.Int("mailboxes", 40, "accounts of a mail server, half of them held in IDLE")
	seed := flags.Uint64("seed", 1, "of what is chosen by chance")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *accounts < 50 {
		return fmt.Errorf("--accounts must be at least 50")
	}
	if *mailboxes < 4 {
		return fmt.Errorf("--mailboxes must be at least 4")
	}
	dir, err := os.MkdirTemp("", "rounds-soak-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in the system's folder for temporary files
	findings, err := run(ctx, dir, plan{length: *length, accounts: *accounts, mailboxes: *mailboxes, seed: *seed})
	if err != nil {
		return err
	}
	wrong := 0
	fmt.Fprintf(out, "| expected | found | |\n|---|---|---|\n")
	for _, f := range findings {
		verdict := "ok"
		if !f.holds {
			verdict, wrong = "VIOLATED", wrong+1
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", f.expected, f.found, verdict)
	}
	if wrong > 0 {
		return fmt.Errorf("%d expectations do not hold", wrong)
	}
	return nil
}
