package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
)

// newWeixinCommand makes the command that signs WeChat accounts in.
func newWeixinCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "weixin",
		Short: "Sign personal WeChat accounts in by a scan",
		Long: `Sign personal WeChat accounts in by a scan. Their kind is weixin. The guide's page about
WeChat accounts says what they find and what can be lost.`,
		Example: "  rounds weixin login me",
	}, newWeixinLogin(env))
}

func newWeixinLogin(env environment) *cobra.Command {
	var every, base string
	var labels []string
	jsonOutput := false
	cmd := &cobra.Command{
		Use:   "login ID",
		Short: "Draw a code to scan, and register the account",
		Long: `Draw a code in the terminal, to be scanned with WeChat, and register the account once the
phone has confirmed. Its token is stored as a secret that is bound to its server, so the
service needs a key to seal with: see "rounds secret keygen".

If the phone shows digits, type them in here. A code that has expired is drawn again, three
times in all. Ctrl-C abandons the sign-in, and nothing of it remains.

An existing account of that ID is signed in again, with its id, cursor and history. If it
was parked, it circulates again.`,
		Example: `  rounds weixin login me
  rounds weixin login shop --every 0 --label team=sales
  rounds weixin login me --json | jq -r 'select(.state == "confirmed").account'`,
		Args: exactly(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			given, err := buildLabels(labels)
			if err != nil {
				return err
			}
			request := api.LoginRequest{ID: args[0], Cadence: "every " + every, Labels: given, BaseURL: base}
			return signIn(cmd.Context(), env, calls, request, jsonOutput)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&every, "every", "0", "for a new account: check it every `duration`; 0: again at once, because its calls are held")
	flags.StringSliceVar(&labels, "label", nil, "for a new account: a label, as `KEY=VALUE`; repeat the flag, or separate labels by commas")
	flags.StringVar(&base, "base-url", "", "the `URL` at which signing in begins; default: WeChat's")
	flags.BoolVar(&jsonOutput, "json", false, "print each state as JSON, one a line, and draw nothing; digits are read from standard input")
	return cmd
}

// signIn draws a code, follows what the phone does, and returns when the account is registered. If
// ctx is done first, nothing of the sign-in remains.
func signIn(ctx context.Context, env environment, calls *client.Client, request api.LoginRequest, asJSON bool) error {
	l, err := calls.BeginLogin(ctx, request)
	if err != nil {
		return err
	}
	defer func() {
		if l.State != scan.Done {
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = calls.AbandonLogin(within, l.Login) // the sign-in would also end by itself
		}
	}()
	s := scanning{env: env, json: asJSON, lines: bufio.NewReader(io.LimitReader(env.stdin, 4<<10))}
	return s.follow(ctx, calls, &l)
}

// scanning shows the progress of a sign-in.
type scanning struct {
	env   environment
	json  bool
	lines *bufio.Reader
	shown string // the last shown state
	drawn int
}

// retries is how many calls in a row may fail before the command gives up.
const retries = 5

// errAbandoned reports that ctx ended a sign-in.
var errAbandoned = errors.New("abandoned: nothing is registered")

// follow shows each state of a sign-in until the sign-in ends.
func (s *scanning) follow(ctx context.Context, calls *client.Client, l *api.Login) error {
	for failed := 0; ; {
		if err := s.show(l); err != nil {
			return err
		}
		var next api.Login
		var err error
		switch l.State {
		case scan.Done, scan.Bound:
			return nil
		case scan.Expired:
			return errors.New("the last code has expired: nothing is registered; begin again")
		case scan.Digits:
			digits, missing := s.digits(l)
			if missing != nil {
				return missing
			}
			next, err = calls.TypeLogin(ctx, l.Login, digits)
		case scan.Waiting, scan.Scanned, scan.Again:
			asked := time.Now()
			next, err = calls.FollowLogin(ctx, l.Login)
			unheld := err == nil && next.State == l.State && time.Since(asked) < time.Second
			if unheld && !pause(ctx, time.Second) { // an API that does not hold the call is not asked in a tight loop
				return errAbandoned
			}
		default:
			return fmt.Errorf("the API answered with the state %s, which this version does not know", oneLine(l.State))
		}
		if err == nil {
			*l, failed = next, 0
			continue
		}
		if ctx.Err() != nil {
			return errAbandoned
		}
		if failed++; refused(err) || failed == retries {
			return err
		}
		fmt.Fprintln(s.env.stderr, s.env.says("%s; trying again", oneLine(err.Error())))
		if !pause(ctx, time.Second) {
			return errAbandoned
		}
	}
}

// show shows what has changed.
func (s *scanning) show(l *api.Login) error {
	if s.json {
		return printJSON(s.env.stdout, l)
	}
	if l.Link != "" && l.Drawn != s.drawn {
		drawing, err := scan.Blocks(l.Link)
		if err != nil {
			return err
		}
		if s.drawn > 0 {
			fmt.Fprintln(s.env.stdout, s.env.says("The code had expired. This is number %d of 3.", l.Drawn))
		}
		fmt.Fprintf(s.env.stdout, "%s\n%s\n%s\n", drawing, s.env.spoken("Scan it with WeChat on the phone, or open this there:"), oneLine(l.Link))
		s.drawn = l.Drawn
	}
	if l.State == s.shown {
		return nil
	}
	s.shown = l.State
	switch l.State {
	case scan.Scanned:
		fmt.Fprintln(s.env.stdout, s.env.says("Scanned. Confirm on the phone."))
	case scan.Bound:
		fmt.Fprintln(s.env.stdout, s.env.says("%s is bound to this client already: nothing has changed", oneLine(l.Account)))
	case scan.Done:
		fmt.Fprintln(s.env.stdout, s.env.says("%s is signed in and circulates, its token is stored as %s", oneLine(l.Account), scan.SecretOf(l.Account)))
	}
	return nil
}

// digits asks for the digits that the phone shows.
func (s *scanning) digits(l *api.Login) (string, error) {
	if !s.json {
		if l.Wrong {
			fmt.Fprint(s.env.stdout, s.env.spoken("These are not the digits. "))
		}
		fmt.Fprint(s.env.stdout, s.env.spoken("Type the digits that the phone shows: "))
	}
	line, err := s.lines.ReadString('\n')
	if digits := strings.TrimSpace(line); digits != "" {
		return digits, nil
	}
	if err != nil {
		return "", errors.New("the phone shows digits, and standard input has none: nothing is registered")
	}
	return s.digits(l)
}

// refused reports whether trying again is useless.
func refused(err error) bool {
	status := client.Status(err)
	return status >= 400 && status < 500
}

// pause waits, and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
