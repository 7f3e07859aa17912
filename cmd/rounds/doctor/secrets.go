package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// secretSource finds the secrets of records.
type secretSource interface {
	Get(ctx context.Context, name string, use secrets.Use) (string, error)
}

// secretsOf returns where a poller finds secrets, or nil.
func secretsOf(s settings.Settings, o service.Options, ring *circulate.Ring) secretSource {
	source, err := service.Secrets(s, o, ring)
	if err != nil {
		return nil // a fault of the settings, which are listed
	}
	return source
}

// named is how many names a line has at most.
const named = 10

// secrets finds out whether each secret that a sample of accounts refers to can be read. No
// value is kept or printed.
func (d *doctor) secrets(ctx context.Context, known knowledge) {
	const part = "secrets"
	switch {
	case !d.Settings.API.Roles.Has(settings.RolePoller):
		d.skip(part, "this process' settings have no role poller, which alone reads them: run this as pollers run")
		return
	case known.list == nil || known.source == nil:
		d.skip(part, "the accounts cannot be read")
		return
	}
	all, err := known.list(ctx)
	if err != nil {
		d.fault(part, err.Error(), "")
		return
	}
	uses := make(map[string]secrets.Use)
	var names []string
	using := 0
	for i := range all {
		refers := references(all[i].Config)
		if len(refers) > 0 {
			using++
		}
		for _, name := range refers {
			if _, seen := uses[name]; !seen {
				names = append(names, name)
				uses[name] = secrets.Use{Kind: all[i].Kind, Stays: true}
			}
		}
	}
	slices.Sort(names)
	var bad, lost []string
	for _, name := range names {
		_, err := known.source.Get(ctx, name, uses[name])
		// Where it may go is judged at each use, not here.
		if err != nil && !errors.Is(err, secrets.ErrRefused) {
			bad, lost = append(bad, err.Error()), append(lost, name)
		}
	}
	if len(bad) > 0 {
		text := strings.Join(bad[:min(named, len(bad))], "; ")
		if more := len(bad) - named; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		toStore := "rounds secret set " + lost[0]
		if d.Settings.Redis.URL == "" {
			d.warn(part, "this command does not find them, though the process may: "+text, "if checks fail with the code secret, store them ("+toStore+"), or put them into ROUNDS_SECRETS_DIR")
			return
		}
		d.fault(part, text, "store them ("+toStore+"), or put them into ROUNDS_SECRETS_DIR, or as "+secrets.EnvPrefix+lost[0]+" into the environment or the settings file of each poller; if pollers have them there, run this as they run")
		return
	}
	text := "none of " + counted(len(all), "account") + " that were looked at uses one"
	switch {
	case len(all) == 1:
		text = "the account that was looked at uses none"
	case len(all) == 0:
		text = "there is no account that could use one"
	}
	if len(names) > 0 {
		text = counted(len(names), "secret") + " of " + counted(using, "account") + " can be read"
		if using < len(all) {
			text += fmt.Sprintf(" (%d were looked at)", len(all))
		}
	}
	d.ok(part, text)
}

// webhookSecrets finds out whether the secrets of webhook endpoints can be read.
func (d *doctor) webhookSecrets(ctx context.Context, known knowledge) {
	const part = "secrets"
	endpoints, err := service.Endpoints(d.Settings, d.Service)
	source, ok := known.source.(secrets.Source)
	if err != nil || !ok || !d.Settings.API.Roles.Has(settings.RoleDelivery) {
		return // a fault of the settings, which are listed; or another process delivers
	}
	for i := range endpoints {
		e := &endpoints[i]
		refs := slices.Clone(e.Secrets)
		for _, h := range e.Headers {
			if !h.Secret.IsZero() {
				refs = append(refs, h.Secret)
			}
		}
		for _, ref := range refs {
			use := secrets.ForURL(secrets.KindWebhook, e.URL)
			if _, err := source.Service().Get(ctx, ref.Name, use.Staying()); err != nil && !errors.Is(err, secrets.ErrRefused) {
				d.warn(part, "webhook "+e.Name+": "+err.Error(),
					"unless the processes that deliver find it, put it into the environment of each process with the role delivery, as ROUNDS_SERVICE_SECRET_"+ref.Name+", or into the settings file")
			}
		}
	}
}

// endpoints tries the databases and brokers to which messages are delivered.
func (d *doctor) endpoints(ctx context.Context, known knowledge) {
	const part = "endpoints"
	source, found := known.source.(secrets.Source)
	if !found || !d.Settings.API.Roles.Has(settings.RoleDelivery) {
		return // another process delivers
	}
	added, err := service.AddedEndpoints(ctx, known.ring)
	if err != nil {
		d.fault(part, "those that were added cannot be read: "+err.Error(), "")
	}
	trials, err := service.TryEndpoints(ctx, d.Settings, d.Service, source, added)
	if err != nil {
		return // a fault of the settings, which are listed
	}
	for _, t := range trials {
		if t.Err == nil {
			d.ok(part, t.Type+" "+t.Endpoint+" was reached, and has what the endpoint needs")
			continue
		}
		do := "see whether what " + t.Endpoint + " names in ROUNDS_WEBHOOKS_FILE is up, and whether its secrets are those of the processes that deliver"
		if t.Added {
			do = "see with rounds webhooks show " + t.Endpoint + " whether what it names is up and may be reached, and whether its secrets are bound to it"
		}
		text := strings.ReplaceAll(strings.TrimPrefix(t.Err.Error(), t.Type+": "), "\n", "; ")
		d.warn(part, t.Type+" "+t.Endpoint+": "+text+"; its messages wait", do)
	}
}

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// references returns the names in all objects {"secret": "NAME"} of a config.
func references(config json.RawMessage) (names []string) {
	walk(config, func(value any) {
		object, _ := value.(map[string]any)
		if name, ok := object["secret"].(string); ok && len(object) == 1 {
			names = append(names, name)
		}
	})
	return names
}

// walk visits all values of a config: each before the values in it.
func walk(config json.RawMessage, visit func(any)) {
	var value any
	if json.Unmarshal(config, &value) != nil {
		return
	}
	var within func(any)
	within = func(value any) {
		visit(value)
		switch v := value.(type) {
		case map[string]any:
			for _, each := range v {
				within(each)
			}
		case []any:
			for _, each := range v {
				within(each)
			}
		}
	}
	within(value)
}
