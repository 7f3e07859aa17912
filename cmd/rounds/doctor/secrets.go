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

// secrets looks whether each secret that a sample of accounts refers to can be read. No
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
	for i := range all {
		for _, name := range references(all[i].config) {
			if _, seen := uses[name]; !seen {
				names = append(names, name)
				uses[name] = secrets.Use{Kind: all[i].kind, Stays: true}
			}
		}
	}
	slices.Sort(names)
	var bad []string
	for _, name := range names {
		_, err := known.source.Get(ctx, name, uses[name])
		// Where it may go is judged at each use, not here.
		if err != nil && !errors.Is(err, secrets.ErrRefused) {
			bad = append(bad, err.Error())
		}
	}
	if len(bad) > 0 {
		text := strings.Join(bad[:min(named, len(bad))], "; ")
		if more := len(bad) - named; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		if d.Settings.Redis.URL == "" {
			d.warn(part, "this command does not find them, though the process may: "+text, "if checks fail with the code secret, store them (rounds secret set NAME), or put them into ROUNDS_SECRETS_DIR")
			return
		}
		d.fault(part, text, "store them (rounds secret set NAME), or put them into ROUNDS_SECRETS_DIR or the environment of each poller; if pollers have them there, run this as they run")
		return
	}
	d.ok(part, fmt.Sprintf("%d names that %d accounts use are there and can be read", len(names), len(all)))
}

// references returns the names in all objects {"secret": "NAME"} of a config.
func references(config json.RawMessage) (names []string) {
	var value any
	if json.Unmarshal(config, &value) != nil {
		return nil
	}
	walk(value, func(object map[string]any) {
		if name, ok := object["secret"].(string); ok && len(object) == 1 {
			names = append(names, name)
		}
	}, func(string) {})
	return names
}

// walk visits all objects and texts of a value.
func walk(value any, object func(map[string]any), text func(string)) {
	switch v := value.(type) {
	case map[string]any:
		object(v)
		for _, each := range v {
			walk(each, object, text)
		}
	case []any:
		for _, each := range v {
			walk(each, object, text)
		}
	case string:
		text(v)
	}
}
