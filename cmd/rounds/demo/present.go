package demo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/sample"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

const (
	archive     = "archive"              // a consumer group
	archivePace = 200 * time.Millisecond // the time for a message, so that the group sometimes lags visibly
	lookEvery   = 2 * time.Second
	paused      = "shop-30"

	signedIn  = "weixin-mei" // the account whose sign-in the demo shows
	owner     = "Mei"
	phoneWait = 4 * time.Second // until the phone scans by itself, and again until it confirms
)

// present says where everything is, registers the accounts, and shows what is found until
// ctx is done.
func present(ctx context.Context, o Options, base string, world *sample.Upstream) error {
	calls := client.New(base, "")
	defer calls.Close()
	all, failing, lines, err := allRecords(world)
	if err != nil {
		return err
	}
	usual, err := settings.ReadAccess(nil, nil)
	if err != nil {
		return err
	}
	reach := "" // the settings with which a command reaches the demo
	if base != usual.URL {
		reach = "ROUNDS_API_URL=" + base + " "
	}
	_, err = fmt.Fprintf(o.Out, `Dashboard      %[1]s/

This is rounds with a Redis in the process and %[4]d pollers that are processes of their
own. They check %[2]d accounts, all on loopback, of which %[3]d fail on purpose. Kill
a poller on the dashboard's first page: the others take over its accounts. Interrupt to
end; nothing is kept.

One account, weixin-1, is at a pretend WeChat. Answer its friend on the account's page: the
pretend phone shows the answer. Have the friend send a picture on the phone: the account's page
shows it. Sign another account in on the dashboard's page of accounts, or in another terminal:
the phone scans the code. What reaches the demo from there is

  %[6]s%[7]s weixin login ID
  %[6]s%[7]s account why ID
  %[6]s%[7]s send weixin-1 --to %[8]s --file PICTURE

  phone        %[5]s
  API          %[1]s/v1/accounts   (try: curl %[1]s/v1/stats)
  description  %[1]s/docs
  metrics      %[1]s/metrics

`, base, all, failing, pollers, world.URL(sample.WeChat, "/phone"), reach, cmp.Or(o.Command, "rounds"), sample.Friend)
	if err != nil {
		return err
	}
	summary, err := calls.Import(ctx, bytes.NewReader(lines), "", func(bad api.BadLine) error {
		return fmt.Errorf("an account of the demo is refused: %w", bad.Errors)
	})
	if err == nil && summary.Created != all {
		err = fmt.Errorf("%d of %d accounts of the demo are registered", summary.Created, all)
	}
	if err == nil {
		err = calls.Pause(ctx, paused)
	}
	if err != nil {
		return unless(ctx, err)
	}
	if o.SignIn != nil {
		if err := signIn(ctx, o, base, world); err != nil {
			return unless(ctx, err)
		}
	}
	if _, err := fmt.Fprint(o.Out, "Messages as they are found:\n\n"); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	ignore := func(error, time.Duration) {}
	group.Go(func() error {
		return unless(ctx, calls.Tail(ctx, client.FromStart, o.Show, ignore))
	})
	group.Go(func() error {
		return unless(ctx, calls.Consume(ctx, archive, client.FromStart, false, 0, func(api.GroupMessage) error {
			return pause(ctx, archivePace)
		}, ignore))
	})
	group.Go(func() error { return unless(ctx, bury(ctx, calls)) })
	return group.Wait()
}

// signIn shows how an account is signed in, while the phone scans by itself.
func signIn(ctx context.Context, o Options, base string, world *sample.Upstream) error {
	if _, err := fmt.Fprintf(o.Out, "Signing in to WeChat: the pretend phone scans this code in %v, and confirms %v later.\n\n", phoneWait, phoneWait); err != nil {
		return err
	}
	phone, put := context.WithCancel(ctx)
	var hand sync.WaitGroup
	hand.Go(func() { world.ScanNext(phone, owner, phoneWait) })
	defer hand.Wait()
	defer put()
	return o.SignIn(ctx, base, signedIn)
}

// allRecords returns all accounts, one a line, the number of them, and the number of failing ones.
func allRecords(world *sample.Upstream) (all, failing int, lines []byte, err error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, b := range batches() {
		if all += b.count; b.fails() {
			failing += b.count
		}
		for _, record := range b.records(world) {
			if err := encoder.Encode(record); err != nil {
				return 0, 0, nil, err
			}
		}
	}
	return all, failing, text.Bytes(), nil
}

// bury turns the first message that the office refuses into a dead letter, as an operator would, so
// that visitors have one to look at.
func bury(ctx context.Context, calls *client.Client) error {
	for {
		if err := pause(ctx, lookEvery); err != nil {
			return err
		}
		done, err := calls.SkipWebhook(ctx, office, api.WebhookSkipRequest{All: true})
		var refused *client.Error
		switch {
		case errors.As(err, &refused): // nothing waits, or nothing was delivered yet
		case err != nil:
			return err
		case len(done.Skipped) > 0:
			return nil
		}
	}
}

// pause waits, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// unless ignores an error that comes after ctx is done.
func unless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
