package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
)

// webhookFlags are the flags that set the fields of an endpoint.
type webhookFlags struct {
	url, format, timeout  string
	kinds, types, secrets []string
	labels                []string
	when                  string
	headers               []string
	to                    string
	own                   []string
	events, ordered       bool
	concurrency           int
}

func (f *webhookFlags) add(env environment, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.kinds, "kind", nil, "only messages of accounts of this kind; several may be given, and an empty one means all")
	flags.StringSliceVar(&f.types, "type", nil, "only messages of this type, such as text; several may be given, and an empty one means all")
	flags.StringArrayVar(&f.labels, "label", nil, "only messages of accounts with this label, as `NAME=VALUE`; several must all match, and an empty one means any account")
	flags.StringVar(&f.when, "when", "", "only messages for which this `CONDITION` holds, such as 'kind == \"feed\" && (data?.priority ?? 0) > 3'")
	flags.BoolVar(&f.events, "events", false, "it also gets what becomes of sends")
	flags.BoolVar(&f.ordered, "ordered", false, "messages of an account wait behind one that fails")
	flags.StringVar(&f.format, "format", "", "the form of the messages: cloudevents, cloudevents-binary, or the usual one")
	flags.StringVar(&f.timeout, "timeout", "", "how `LONG` one attempt may take, 1s to 30s")
	flags.IntVar(&f.concurrency, "concurrency", 0, "attempts at once in a process, 1 to 256")
	flags.StringSliceVar(&f.secrets, "secret", nil, "sign with this stored secret, by its `NAME` without service.; default: with a key that is made")
	flags.StringArrayVar(&f.headers, "header", nil, "send this header, as `NAME=VALUE`, or NAME=secret:SECRET")
	flags.StringArrayVar(&f.own, "set", nil, "set a field of the endpoint's type, as `FIELD=VALUE`; a list has commas, a secret is the name of one without service., and an empty value removes the field")
	complete(cmd, "kind", completeKinds(env))
	complete(cmd, "label", completeLabels(env))
	offer(cmd, "format", "cloudevents", "cloudevents-binary")
}

// set sets the fields of the flags that were given. An empty value removes a field.
func (f *webhookFlags) set(flags *pflag.FlagSet, fields map[string]any) error {
	put := func(field string, value any, empty bool) {
		if empty {
			delete(fields, field)
		} else {
			fields[field] = value
		}
	}
	for flag, list := range map[string]struct {
		field  string
		values []string
	}{"kind": {"kinds", f.kinds}, "type": {"types", f.types}} {
		if flags.Changed(flag) {
			put(list.field, list.values, strings.Join(list.values, "") == "")
		}
	}
	if flags.Changed("label") {
		labels, err := labelsOf(slices.DeleteFunc(slices.Clone(f.labels), func(pair string) bool { return pair == "" }))
		if err != nil {
			return err
		}
		put("labels", labels, len(labels) == 0)
	}
	if flags.Changed("when") {
		put("when", f.when, f.when == "")
	}
	if flags.Changed("events") {
		put("events", true, !f.events)
	}
	if flags.Changed("ordered") {
		put("ordered", true, !f.ordered)
	}
	if flags.Changed("format") {
		put("format", f.format, f.format == "")
	}
	if flags.Changed("timeout") {
		put("timeout", f.timeout, f.timeout == "")
	}
	if flags.Changed("concurrency") {
		put("concurrency", f.concurrency, f.concurrency == 0)
	}
	if flags.Changed("secret") {
		refs := make([]api.WebhookSecret, len(f.secrets))
		for i, name := range f.secrets {
			refs[i].Secret = strings.TrimPrefix(name, "service.")
		}
		put("secrets", refs, strings.Join(f.secrets, "") == "")
	}
	if flags.Changed("header") {
		headers := make(map[string]any)
		for _, pair := range f.headers {
			name, value, ok := strings.Cut(pair, "=")
			if !ok && pair != "" {
				return misuse("--header: must be NAME=VALUE, or NAME=secret:SECRET")
			}
			if secret, is := strings.CutPrefix(value, "secret:"); is {
				headers[name] = api.WebhookSecret{Secret: secret}
			} else if name != "" {
				headers[name] = value
			}
		}
		put("headers", headers, len(headers) == 0)
	}
	return nil
}

// setOwn sets fields of the endpoint's type, as the type declares them.
func (f *webhookFlags) setOwn(ctx context.Context, calls *client.Client, fields map[string]any) error {
	if len(f.own) == 0 {
		return nil
	}
	of, _ := fields["type"].(string)
	list, err := calls.WebhookTypes(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list.Types, func(t api.WebhookType) bool { return t.Name == cmp.Or(of, sink.DefaultType) })
	if i < 0 {
		return misuse("--to: the service adds no endpoints of this type")
	}
	known := list.Types[i].Fields
	for _, pair := range f.own {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return misuse("--set: must be FIELD=VALUE")
		}
		at := slices.IndexFunc(known, func(field api.Field) bool { return field.Name == name })
		switch {
		case at < 0:
			names := make([]string, len(known))
			for i := range known {
				names[i] = known[i].Name
			}
			return misuse("--set: " + oneLine(list.Types[i].Name) + " has no field of this name; it has " + oneLine(strings.Join(names, ", ")))
		case value == "":
			delete(fields, name)
		default:
			fields[name] = typed(&known[at], value)
		}
	}
	return nil
}

// typed returns the value that a text stands for. What is none is left to the API to refuse.
func typed(field *api.Field, text string) any {
	switch field.Type {
	case strict.Texts:
		return strings.Split(text, ",")
	case strict.Secret:
		return api.WebhookSecret{Secret: strings.TrimPrefix(text, "service.")}
	case strict.Choice:
		for _, o := range field.Choices {
			if fmt.Sprint(o.Value) == text {
				return o.Value
			}
		}
	case strict.Number, strict.ObjectType, strict.Headers, strict.Login:
		if json.Valid([]byte(text)) {
			return json.RawMessage(text)
		}
	}
	return text
}

func newWebhooksAddCommand(env environment) *cobra.Command {
	var f webhookFlags
	from, jsonOutput := "", false
	cmd := &cobra.Command{
		Use:   "add NAME [URL]",
		Short: "Add a webhook endpoint, or a topic, stream or table, while the service runs",
		Long: `Add a webhook endpoint, or a topic, stream or table, while the service runs. All processes
with the role delivery deliver to it within a few seconds. A new endpoint begins with the
next message, or, with --from start, with the oldest stored one.

A webhook has a URL. Without --secret a signing key is made, stored sealed and bound to the
URL's host, and printed here once. Other endpoints have a type, --to, and its fields, --set:
brokers and topic of kafka, servers, stream and subject of nats, servers, database, user,
password and table of postgres. Secrets must be bound to the endpoint's hosts.

What ROUNDS_WEBHOOKS_FILE declares is changed in the file alone.`,
		Example: `  rounds webhooks add crm https://crm.example.com/hook
  rounds webhooks add archive https://archive.example.com/in --kind feed,imap --type text --from start
  rounds webhooks add urgent https://pager.example.com/in --label team=press --when '(data?.priority ?? 0) > 3'
  rounds webhooks add bus --to kafka --set brokers=k1.example.com:9092,k2.example.com:9092 --set topic=rounds --set tls=true
  rounds webhooks add table --to postgres --set servers=db.example.com --set database=crm --set user=rounds --set password=CRM_DB --set tls=true`,
		Args: between(1, 2),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			fields := make(map[string]any)
			switch {
			case len(args) == 2:
				fields["url"] = args[1]
			case f.to == "":
				return misuse("name the URL of a webhook, or the type of another endpoint: --to")
			}
			if f.to != "" {
				fields["type"] = f.to
			}
			if err := f.set(cmd.Flags(), fields); err != nil {
				return err
			}
			if err := f.setOwn(cmd.Context(), calls, fields); err != nil {
				return err
			}
			if from != "" {
				fields["from"] = from
			}
			stored, err := calls.AddWebhook(cmd.Context(), args[0], fields)
			if err != nil {
				return named(args[0], err)
			}
			return printStored(env, &stored, jsonOutput)
		}),
	}
	f.add(env, cmd)
	cmd.Flags().StringVar(&f.to, "to", "", "the `TYPE` of an endpoint that is no webhook, such as kafka, nats or postgres")
	cmd.Flags().StringVar(&from, "from", "", "where it begins: now, with the next message, or start, with the oldest stored one")
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print the endpoint and its signing key as JSON")
	offer(cmd, "from", "now", "start")
	return cmd
}

func newWebhooksSetCommand(env environment) *cobra.Command {
	var f webhookFlags
	newKey, jsonOutput := false, false
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change a webhook endpoint that was added",
		Long: `Change a webhook endpoint that was added: the fields of the flags that are given. An empty
value removes a field. It goes on where it is. If it gets another host, or with --new-key,
another signing key is made, and printed here once.`,
		Example: `  rounds webhooks set crm --url https://crm.example.com/v2/hook
  rounds webhooks set crm --kind feed --timeout 5s
  rounds webhooks set crm --new-key
  rounds webhooks set bus --set topic=rounds-messages`,
		Args:              exactly(1),
		ValidArgsFunction: completeWebhooks(env),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			w, err := calls.Webhook(cmd.Context(), args[0])
			if err != nil {
				return named(args[0], err)
			}
			fields := make(map[string]any)
			if w.Revision == 0 {
				return named(args[0], errNotAdded)
			}
			if len(w.Fields) > 0 {
				if err := json.Unmarshal(w.Fields, &fields); err != nil {
					return named(args[0], err)
				}
			}
			if err := f.set(cmd.Flags(), fields); err != nil {
				return err
			}
			if f.url != "" {
				fields["url"] = f.url
			}
			if err := f.setOwn(cmd.Context(), calls, fields); err != nil {
				return err
			}
			if newKey {
				fields["new_key"] = true
			}
			stored, err := calls.SetWebhook(cmd.Context(), args[0], w.Revision, fields)
			if err != nil {
				return named(args[0], err)
			}
			return printStored(env, &stored, jsonOutput)
		}),
	}
	f.add(env, cmd)
	cmd.Flags().StringVar(&f.url, "url", "", "where messages are posted")
	cmd.Flags().BoolVar(&newKey, "new-key", false, "make another signing key in place of the one that was made")
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print the endpoint and its signing key as JSON")
	return cmd
}

var errNotAdded = errors.New("was not added while the service runs: what ROUNDS_WEBHOOKS_FILE declares is changed in the file")

// printStored prints an endpoint that was stored, and its signing key if one was made.
func printStored(env environment, stored *api.WebhookStored, asJSON bool) error {
	if asJSON {
		return printJSON(env.stdout, stored)
	}
	if stored.SigningKey != "" {
		fmt.Fprintln(env.stdout, oneLine(stored.SigningKey))
		if err := env.tell("this is the signing key of %s: it is not shown again", oneLine(stored.Name)); err != nil {
			return err
		}
	}
	return env.tell("%s: stored; rounds webhooks test %s sends a test event", oneLine(stored.Name), oneLine(stored.Name))
}

func newWebhooksTestCommand(env environment) *cobra.Command {
	jsonOutput := false
	cmd := &cobra.Command{
		Use:   "test NAME",
		Short: "Send a test event to a webhook endpoint, and say how it answers",
		Long: `Send a test event to a webhook endpoint, and say how it answers. One of the processes that
deliver to it sends one event of the type endpoint.test as it sends any other, whatever the
endpoint's filter and breaker. Nothing else depends on the answer. The command fails
if the endpoint does not take the event.`,
		Example:           `  rounds webhooks test crm`,
		Args:              exactly(1),
		ValidArgsFunction: completeWebhooks(env),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			done, err := calls.TestWebhook(cmd.Context(), args[0])
			if err != nil {
				return named(args[0], err)
			}
			if jsonOutput {
				if err := printJSON(env.stdout, done); err != nil {
					return err
				}
			}
			switch {
			case done.Outcome != "delivered":
				return named(args[0], fmt.Errorf("did not take the test event: %s: %s", oneLine(done.Outcome), oneLine(done.Error)))
			case jsonOutput:
				return nil
			}
			if done.Status == 0 {
				return env.tell("%s: has the test event", args[0])
			}
			return env.tell("%s: took the test event and answered %d", args[0], done.Status)
		}),
	}
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print the result as JSON")
	return cmd
}

func newWebhooksRemoveCommand(env environment) *cobra.Command {
	yes, keep := false, false
	cmd := &cobra.Command{
		Use:   "remove NAME...",
		Short: "Remove webhook endpoints that were added",
		Long: `Remove webhook endpoints that were added. Processes stop delivering within a few seconds,
and the command waits for that. Messages that an endpoint has not got are not delivered
to it, and an endpoint that is added under its name begins anew. With --keep-position its
position stays, and an endpoint of its name goes on there. Dead letters stay in any case.

What ROUNDS_WEBHOOKS_FILE declares is removed from the file.`,
		Example:           `  rounds webhooks remove crm --yes`,
		Aliases:           []string{"rm"},
		Args:              atLeast(1),
		ValidArgsFunction: completeWebhooks(env),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			if !yes {
				const otherwise = "--yes"
				what := env.says("Messages that wait for %s will not be delivered to it.", oneLine(strings.Join(args, ", ")))
				if keep {
					what = env.says("Messages for %s wait until an endpoint of its name is added again.", oneLine(strings.Join(args, ", ")))
				}
				if !env.terminal(env.stdin) || !env.terminal(env.stderr) {
					return misuse(what + " Nobody can be asked: use " + otherwise)
				}
				if err := env.confirm(calls, what+" Go on?", otherwise, errors.New("nothing was removed")); err != nil {
					return err
				}
			}
			for _, name := range args {
				done, err := calls.RemoveWebhook(cmd.Context(), name, keep)
				if err != nil {
					return named(name, err)
				}
				fmt.Fprintln(env.stdout, env.says("removed %s", oneLine(name)))
				if !done.PositionForgotten && !keep {
					if err := env.tell("%s: its position stays, because a process still delivers or its file declares the name; rounds groups remove webhook.%s removes it", oneLine(name), oneLine(name)); err != nil {
						return err
					}
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&keep, "keep-position", false, "an endpoint of this name goes on where this one is")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}
