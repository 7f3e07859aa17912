package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/mailbox"
)

// newMailCommand makes the command that signs mailboxes in.
func newMailCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "mail",
		Short: "Sign mailboxes in at Google, Microsoft or another provider",
		Long: `Sign mailboxes in at Google, Microsoft or another provider, which take no passwords for mail.
Their kind is imap, or graph for Microsoft Graph. The guide's page about mailboxes says what to register there.`,
		Example: "  rounds mail login me --provider google --user me@gmail.com",
	}, newMailLogin(env))
}

func newMailLogin(env environment) *cobra.Command {
	var request api.MailLoginRequest
	var every string
	var labels []string
	port, jsonOutput := 0, false
	cmd := &cobra.Command{
		Use:   "login ID",
		Short: "Sign a mailbox in, and register the account",
		Long: `Show where to consent, and register the account once somebody has. The refresh token is stored
as a secret that is bound to the provider and the mail servers, so the service needs a key to
seal with: see "rounds secret keygen".

Where the provider has device codes, as Microsoft does, the page may be opened on any device.
Otherwise, as at Google, the browser comes back to this machine: open the page here. If that is
not possible, forward a port, such as by "ssh -L 8765:127.0.0.1:8765", and name it by --port.

An existing account of that ID is signed in again, with its id, cursor and history, and without
its password. If it was parked, it circulates again. Ctrl-C abandons the sign-in.`,
		Example: `  rounds mail login me --provider google --user me@gmail.com
  rounds mail login office --provider microsoft --user office@example.com --label team=sales
  rounds mail login office --provider microsoft --kind graph
  rounds mail login me --provider https://id.example.com --user me@example.com --host imap.example.com
  rounds mail login me --provider google --json | jq -r 'select(.state == "confirmed").account'`,
		Args: exactly(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			var err error
			if request.Labels, err = buildLabels(labels); err != nil {
				return err
			}
			if cmd.Flags().Changed("every") {
				request.Cadence = "every " + every
			}
			request.ID = args[0]
			return signInMailbox(cmd.Context(), env, calls, request, port, jsonOutput)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&request.Provider, "provider", "", "where to sign in: google, microsoft, or the `URL` of an OpenID Connect issuer")
	flags.StringVar(&request.Kind, "kind", "", "for a new account: imap, or graph for Microsoft Graph; default: imap")
	flags.StringVar(&request.User, "user", "", "for a new account: its `NAME` at the mail server, mostly the mail address")
	flags.StringVar(&request.Host, "host", "", "for a new account: the IMAP `SERVER`; default: Google's or Microsoft's")
	flags.StringVar(&every, "every", "0", "for a new account: check it every `duration`; 0: hold it in IDLE, as by default; graph is checked every 60s by default")
	flags.StringSliceVar(&labels, "label", nil, "for a new account: a label, as `KEY=VALUE`; repeat the flag, or separate labels by commas")
	flags.IntVar(&port, "port", 0, "the `PORT` of this machine's loopback to which the browser comes back; 0: a free one")
	flags.BoolVar(&jsonOutput, "json", false, "print each state as JSON, one a line")
	if err := cmd.MarkFlagRequired("provider"); err != nil {
		panic(err) // the flag is above
	}
	return cmd
}

// signInMailbox shows where to consent, and returns when the account is registered. If ctx is done
// first, nothing of the sign-in remains.
func signInMailbox(ctx context.Context, env environment, calls *client.Client, request api.MailLoginRequest, port int, asJSON bool) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("--port: %w", err)
	}
	defer func() { _ = listener.Close() }() // it may be closed already
	request.Redirect = "http://" + listener.Addr().String() + "/"
	l, err := calls.BeginMailLogin(ctx, request)
	if err != nil {
		return err
	}
	defer func() {
		if l.State != mailbox.Done {
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = calls.AbandonMailLogin(within, l.Login) // the sign-in would also end by itself
		}
	}()
	if err := showMailLogin(env, &l, asJSON); err != nil {
		return err
	}
	if l.UserCode == "" {
		err = comeBack(ctx, env, calls, &l, listener)
	} else {
		_ = listener.Close()
		err = followMailLogin(ctx, env, calls, &l)
	}
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(env.stdout, &l)
	}
	fmt.Fprintln(env.stdout, env.says("%s is signed in and circulates, its refresh token is stored as %s", oneLine(l.Account), mailbox.SecretOf(l.Account)))
	return nil
}

// showMailLogin shows where to consent.
func showMailLogin(env environment, l *api.MailLogin, asJSON bool) error {
	if asJSON {
		return printJSON(env.stdout, l)
	}
	if l.UserCode != "" {
		fmt.Fprintln(env.stdout, env.says("Open this page on any device, and type in the code %s:", oneLine(l.UserCode)))
	} else {
		fmt.Fprintln(env.stdout, env.spoken("Open this page in a browser on this machine:"))
	}
	fmt.Fprintln(env.stdout, oneLine(l.Page))
	return nil
}

// errMailRefused reports a sign-in to which nobody will consent any more.
var errMailRefused = errors.New("the provider refused, or nobody consented in time: nothing is registered; begin again")

// followMailLogin waits until somebody has consented on any device.
func followMailLogin(ctx context.Context, env environment, calls *client.Client, l *api.MailLogin) error {
	for failed := 0; ; {
		switch l.State {
		case mailbox.Done:
			return nil
		case mailbox.Refused:
			return errMailRefused
		}
		asked := time.Now()
		next, err := calls.FollowMailLogin(ctx, l.Login)
		if err == nil {
			*l, failed = next, 0
			if time.Since(asked) < time.Second && l.State == mailbox.Waiting && !pause(ctx, time.Second) {
				return errAbandoned
			}
			continue
		}
		if ctx.Err() != nil {
			return errAbandoned
		}
		if failed++; refused(err) || failed == retries {
			return err
		}
		fmt.Fprintln(env.stderr, env.says("%s; trying again", oneLine(err.Error())))
		if !pause(ctx, time.Second) {
			return errAbandoned
		}
	}
}

// comeBack waits until the browser comes back to the listener, and passes on what it brings.
func comeBack(ctx context.Context, env environment, calls *client.Client, l *api.MailLogin, listener net.Listener) error {
	ctx, cancel := context.WithDeadline(ctx, l.Until)
	defer cancel()
	done := make(chan error, 1)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/" || q.Get("state") == "" {
			http.NotFound(w, r) // such as a browser's request for an icon
			return
		}
		next, err := calls.CompleteMailLogin(ctx, l.Login, api.MailLoginCode{Code: q.Get("code"), State: q.Get("state"), Issuer: q.Get("iss")})
		if err == nil && next.State != mailbox.Done {
			err = errMailRefused
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, env.spoken("That did not work. The terminal says why.")+"\n")
		} else {
			_, _ = io.WriteString(w, env.spoken("The mailbox is signed in. You can close this page.")+"\n")
		}
		if client.Status(err) == http.StatusUnprocessableEntity {
			return // not what this sign-in waits for
		}
		select {
		case done <- err:
		default: // a page that was loaded twice
		}
	})}
	serving := make(chan struct{})
	go func() {
		defer close(serving)
		_ = server.Serve(listener) // until it is shut down
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		if err = errAbandoned; errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = errMailRefused
		}
	}
	within, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second) // the browser gets its page
	defer stop()
	_ = server.Shutdown(within)
	_ = server.Close()
	<-serving
	if err == nil {
		l.State, l.Page = mailbox.Done, ""
	}
	return err
}
