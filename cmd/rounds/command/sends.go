package command

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// sendStates are the states that sends are listed by.
func sendStates() []string {
	return []string{"queued", "attempting", "accepted", "rejected", "unknown", "failed", "canceled", "expired"}
}

func newSendCommand(env environment) *cobra.Command {
	var request api.SendRequest
	text, data, file, caption, key, expires, jsonOutput := "", "", "", "", "", "", false
	cmd := &cobra.Command{
		Use:   "send ID",
		Short: "Send something in the name of an account",
		Long: `Send something in the name of an account. The send is queued, and a poller sends it
soon. "rounds sends show" tells what became of it.

--to says whom it is for, in the form of the account's kind. With --reply-to it answers a
found message, SHARD:POSITION, and goes to whoever wrote that.

--file sends a file, as an image, a video, a voice or a file: by its name, or as --type says.
The file is uploaded first, and the API keeps it until the send is forgotten.

Third parties may allow answers only for a while after a person's last message. Outside
that time the send is refused, or waits for the next message with --when open.

The command makes up an idempotency key, which names the send. If nobody knows whether
the send was queued, the command prints the key: with --key it can be repeated within 48
hours, and nothing is sent twice.`,
		Example: `  rounds send inbox --to anna --text 'On our way.'
  rounds send inbox --reply-to 12:1767225600000-0 --text 'Thank you!' --expires 10m
  rounds send inbox --to anna --type link --data @link.json --key order-17
  rounds send inbox --to anna --file invoice.pdf
  rounds send inbox --to anna --text 'Your parcel is here.' --when open`,
		Args:              exactly(1),
		ValidArgsFunction: completeIDs(env),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			if err := readOutgoing(env, &request, text, data, file, expires); err != nil {
				return err
			}
			if file != "" {
				var err error
				if request.Data, err = uploadOutgoing(cmd.Context(), calls, args[0], file, caption); err != nil {
					return err
				}
			} else if caption != "" {
				return misuse("--caption belongs to --file")
			}
			repeat := "--key " + cmp.Or(key, rand.Text())
			send, err := calls.Send(cmd.Context(), args[0], strings.TrimPrefix(repeat, "--key "), request)
			if err != nil && client.Status(err)/100 != 4 {
				if request.Expires != expires {
					repeat += " --expires " + request.Expires
				}
				return fmt.Errorf("%w; it may have been queued: repeat it with %s, and nothing is sent twice", err, repeat)
			}
			if err != nil {
				return err
			}
			if jsonOutput {
				return printJSON(env.stdout, send)
			}
			return env.tell("%s: %s; rounds sends show %s tells what becomes of it", oneLine(send.ID), oneLine(send.State), oneLine(send.ID))
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&text, "text", "", "send this `TEXT`")
	flags.StringVar(&data, "data", "", "send this `JSON`, or @FILE, or @- for standard input, as the type of the send has it")
	flags.StringVar(&file, "file", "", "send the file at this `PATH`")
	flags.StringVar(&caption, "caption", "", "the `text` below the --file, if the third party shows one")
	flags.StringVar(&request.Type, "type", "", "the `type` of --data or --file, such as link; default: text, or what the file's name says")
	flags.StringVar(&request.To, "to", "", "whom it is for, in the form of the account's kind, such as the id of a user or a chat")
	flags.StringVar(&request.ReplyTo, "reply-to", "", "answer this found message, `SHARD:POSITION`")
	flags.StringVar(&key, "key", "", "the idempotency `key`: a name that no other send of the account has")
	flags.StringVar(&expires, "expires", "", "never send it after this `TIME`, such as 10m from now or 2030-12-01T09:00:00Z")
	flags.StringVar(&request.When, "when", "", "now: refuse it if the third party does not allow it now; open: wait until it does; default: now")
	flags.BoolVar(&jsonOutput, "json", false, "print the send as JSON")
	offer(cmd, "when", "now", "open")
	return cmd
}

// readOutgoing puts what the flags say into a request.
func readOutgoing(env environment, request *api.SendRequest, text, data, file, expires string) error {
	switch {
	case file != "" && (text != "" || data != ""):
		return misuse("--file cannot be combined with --text or --data")
	case file != "":
		if request.Type == "" {
			request.Type = api.TypeOfFile(file)
		}
	case text != "" && (data != "" || request.Type != ""):
		return misuse("--text is a type of its own: it cannot be combined with --data or --type")
	case text == "" && data == "":
		return misuse("say what to send, with --text, --data or --file")
	case text != "":
		var content bytes.Buffer
		if err := printJSON(&content, map[string]string{"text": text}); err != nil {
			return err
		}
		request.Data = bytes.TrimSpace(content.Bytes())
	default:
		content, err := readJSON(env, "--data", data)
		if err != nil {
			return err
		}
		request.Data = content
	}
	if request.To == "" && request.ReplyTo == "" {
		return misuse("say whom it is for, with --to or --reply-to")
	}
	var err error
	request.Expires, err = expiryOf(expires)
	return err
}

// uploadOutgoing uploads the file of a send, and returns the data that names it.
func uploadOutgoing(ctx context.Context, calls *client.Client, account, path, caption string) ([]byte, error) {
	from, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }() // it was only read
	f, err := calls.Upload(ctx, account, filepath.Base(path), api.MediaTypeOf(path), from)
	if err != nil {
		return nil, err
	}
	content := map[string]string{"file": f.ID}
	if caption != "" {
		content["caption"] = caption
	}
	var data bytes.Buffer
	if err := printJSON(&data, content); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(data.Bytes()), nil
}

// expiryOf reads a duration from now on, or a time, and returns the time.
func expiryOf(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if after, err := time.ParseDuration(text); err == nil && after > 0 {
		return time.Now().Add(after).UTC().Format(time.RFC3339), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.Format(time.RFC3339), nil
	}
	return "", misuse(fmt.Sprintf("--expires is %q: must be a duration such as 10m, or a time such as 2030-12-01T09:00:00Z", text))
}

func newSendsCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "sends",
		Short: "Look at what is sent in the name of accounts, and decide what is in doubt",
		Example: `  rounds sends list --state unknown
  rounds sends show 2F1C9A07ABCDEFGHIJKLMNOPQRSTUVWX
  rounds sends resolve 2F1C9A07ABCDEFGHIJKLMNOPQRSTUVWX --as accepted`,
	}, newSendsListCommand(env), newSendsShowCommand(env), newSendsRetryCommand(env), newSendsCancelCommand(env), newSendsResolveCommand(env))
}

func newSendsListCommand(env environment) *cobra.Command {
	var query client.SendQuery
	limit := 50
	cmd := listingCommand(env, &cobra.Command{
		Use:   "list",
		Short: "List sends, and what became of them",
		Long: `List sends, and what became of them: unknown ones first, then those that are being
sent, that wait, and that have ended. In each of these, the sends of all accounts are
oldest first, by when they were queued, or when they ended.

  queued      it waits for its turn, or until the third party allows it
  attempting  it may be on its way
  accepted    the third party has it
  rejected    the third party refused it, or it could not be sent
  unknown     nobody knows whether the third party has it
  failed      the third party accepted it and could not deliver it
  canceled    somebody canceled it while it was queued
  expired     it was still queued when it expired

The last 256 ended sends of an account are stored, for a week.`,
		Example: `  rounds sends list --state unknown --state rejected
  rounds sends list --account inbox --limit 0 --json | jq -r .state | sort | uniq -c`,
		Aliases: []string{"ls"},
		PreRunE: func(*cobra.Command, []string) error {
			if limit < 0 {
				return errors.New("--limit must not be negative")
			}
			return nil
		},
	}, list[api.Send]{
		header: "ID\tACCOUNT\tTO\tTYPE\tSTATE\tSINCE\tATTEMPTS\tWHY", row: sendRow, limit: &limit,
		page: func(ctx context.Context, calls *client.Client, cursor string, most int) ([]api.Send, string, error) {
			query.Cursor, query.Limit = cursor, most
			page, err := calls.Sends(ctx, query)
			return page.Sends, page.Next, err
		},
	})
	cmd.Flags().StringVar(&query.Account, "account", "", "only sends of this account, by its `ID`")
	cmd.Flags().StringArrayVar(&query.States, "state", nil, "only sends in this `state`; may be repeated")
	complete(cmd, "account", completeIDs(env))
	offer(cmd, "state", sendStates()...)
	return cmd
}

func sendRow(s api.Send) string {
	return strings.Join([]string{
		oneLine(s.ID), oneLine(s.Account), oneLine(s.To), oneLine(s.Type), oneLine(s.State), clockTime(s.Since), strconv.Itoa(s.Attempts), cmp.Or(shorten(whyOf(&s)), "-"),
	}, "\t")
}

// whyOf says why a send is in its state: a code and a sentence.
func whyOf(s *api.Send) string {
	if s.Code != "" && s.Reason != "" {
		return s.Code + ": " + s.Reason
	}
	return s.Code + s.Reason
}

func newSendsShowCommand(env environment) *cobra.Command {
	return showing(env, &cobra.Command{
		Use:   "show ID",
		Short: "Show a send, and what became of it",
		Example: `  rounds sends show 2F1C9A07ABCDEFGHIJKLMNOPQRSTUVWX
  rounds sends show 2F1C9A07ABCDEFGHIJKLMNOPQRSTUVWX --json | jq -r .state`,
		Args:              exactly(1),
		ValidArgsFunction: completeSends(env),
	}, "print it as JSON", func(ctx context.Context, calls *client.Client, ids []string) (api.Send, error) {
		s, err := calls.LookSend(ctx, ids[0])
		return s, named(ids[0], err)
	}, func(s api.Send) error { return printSend(env, &s) })
}

func printSend(env environment, s *api.Send) error {
	table := newTable(env.stdout)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, oneLine(value))
		}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return clockTime(t)
	}
	line("send", s.ID)
	line("account", s.Account)
	line("to", s.To)
	line("answers", s.ReplyTo)
	line("type", s.Type)
	line("data", shorten(string(s.Data)))
	line("state", s.State)
	line("since", at(s.Since))
	line("why", whyOf(s))
	line("queued", at(s.Queued))
	line("expires", at(s.Expires))
	if s.When == "open" {
		line("when", s.When)
	}
	line("attempts", strconv.Itoa(s.Attempts))
	line("vendor's id", s.VendorID)
	line("replica", s.Replica)
	if err := table.Flush(); err != nil {
		return err
	}
	if s.State != "unknown" {
		return nil
	}
	return env.tell("It may have arrived. Look at the third party, then say so with rounds sends resolve %s --as accepted, or --as rejected, or send it again with rounds sends retry %s.", oneLine(s.ID), oneLine(s.ID))
}

// completeSends offers the ids of sends that somebody has to look at.
func completeSends(env environment) cobra.CompletionFunc {
	return completing(env, func(ctx context.Context, calls *client.Client, _ string) ([]string, error) {
		page, err := calls.Sends(ctx, client.SendQuery{Limit: pageSize})
		var ids []string
		for _, s := range page.Sends {
			ids = append(ids, s.ID)
		}
		return ids, err
	})
}

func newSendsCancelCommand(env environment) *cobra.Command {
	return changingSends(env, &cobra.Command{
		Use:     "cancel ID...",
		Short:   "Cancel sends that wait",
		Example: `  rounds sends cancel 2F1C9A07ABCDEFGHIJKLMNOPQRSTUVWX`,
	}, func(ctx context.Context, calls *client.Client, id string) (api.Send, error) {
		return calls.CancelSend(ctx, id)
	})
}

func newSendsRetryCommand(env environment) *cobra.Command {
	var request api.SendRetryRequest
	expires, yes := "", false
	cmd := changingSends(env, &cobra.Command{
		Use:   "retry ID...",
		Short: "Send rejected or unknown sends again",
		Long: `Send rejected or unknown sends again, each as the last one to its peer.

An unknown one may have arrived, and is then sent twice, unless the third party drops
repetitions. The command asks first, unless --yes is given.`,
		Example: `  rounds sends retry 2F1C9A07ABCDEFGHIJKLMNOPQRSTUVWX
  rounds sends retry 2F1C9A07ABCDEFGHIJKLMNOPQRSTUVWX --expires 1h --yes`,
	}, func(ctx context.Context, calls *client.Client, id string) (api.Send, error) {
		var err error
		if request.Expires, err = expiryOf(expires); err != nil {
			return api.Send{}, err
		}
		s, err := calls.LookSend(ctx, id)
		if err != nil {
			return s, err
		}
		request.Attempts = max(1, s.Attempts)
		if s.State == "unknown" && !yes {
			if err := env.confirm(calls, id+" may have arrived, and may then arrive twice. Go on?", "--yes", errors.New("nothing was sent again")); err != nil {
				return s, err
			}
		}
		return calls.RetrySend(ctx, id, request)
	})
	cmd.Flags().StringVar(&expires, "expires", "", "never send it after this `TIME`, such as 10m from now or 2030-12-01T09:00:00Z; default: as before")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func newSendsResolveCommand(env environment) *cobra.Command {
	var request api.SendResolveRequest
	cmd := changingSends(env, &cobra.Command{
		Use:   "resolve ID...",
		Short: "Say what became of unknown sends",
		Long: `Say what became of unknown sends: accepted if the third party has them, or rejected if it
has not and they are not to be sent. Nothing is sent. "rounds sends retry" sends them again.`,
		Example: `  rounds sends resolve 2F1C9A07ABCDEFGHIJKLMNOPQRSTUVWX --as accepted --reason 'seen on the phone'`,
	}, func(ctx context.Context, calls *client.Client, id string) (api.Send, error) {
		return calls.ResolveSend(ctx, id, request)
	})
	cmd.Flags().StringVar(&request.State, "as", "", "`accepted` or rejected")
	cmd.Flags().StringVar(&request.Reason, "reason", "", "how you know, for people")
	cmd.Flags().StringVar(&request.VendorID, "vendor-id", "", "the third party's `ID` of an accepted send")
	if err := cmd.MarkFlagRequired("as"); err != nil {
		panic(err) // the command has no such flag
	}
	offer(cmd, "as", "accepted", "rejected")
	return cmd
}

// changingSends makes a command change sends one after another, and print how each then is.
func changingSends(env environment, cmd *cobra.Command, change func(ctx context.Context, calls *client.Client, id string) (api.Send, error)) *cobra.Command {
	jsonOutput := cmd.Flags().Bool("json", false, "print the sends as JSON, one a line")
	cmd.Args = atLeast(1)
	cmd.ValidArgsFunction = completeSends(env)
	cmd.RunE = withClient(env, func(cmd *cobra.Command, ids []string, calls *client.Client) error {
		for _, id := range ids {
			s, err := change(cmd.Context(), calls, id)
			if err != nil {
				return named(id, err)
			}
			if *jsonOutput {
				err = printJSON(env.stdout, s)
			} else {
				_, err = fmt.Fprintf(env.stdout, "%s: %s\n", oneLine(s.ID), oneLine(s.State))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}
