package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// Read reads the settings of a process again. It also returns the lookup of variables
// that they came from, as settings.Layer does. The error has every fault.
type Read func() (settings.Settings, settings.Lookup, error)

// errNoReload reports a process that does not know how to read its settings again.
var errNoReload = errors.New("this program does not read its settings again")

// part is a part of the service that can change its settings while it runs. It prepares
// the change, which may fail. The change that it returns cannot fail. Notes name
// changes that are not changes of settings.
type part func(s settings.Settings, lookup settings.Lookup) (change func(), notes []string, err error)

// reloader reads settings again and makes the parts of the service apply them: all of them, or
// none.
type reloader struct {
	options Options
	lookup  atomic.Pointer[settings.Lookup]
	trail   atomic.Pointer[trail.Trail] // nil until the ring is open
	lines   atomic.Int64                // how many lines the timelines may have

	mu      sync.Mutex
	current settings.Settings
	exposed bool // other machines can reach the API
	parts   map[*part]bool
}

func newReloader(s settings.Settings, o Options) *reloader {
	r := &reloader{options: o, current: s, parts: make(map[*part]bool)}
	r.lookup.Store(&o.Lookup)
	return r
}

// find finds a variable that is not a setting, such as a secret, in the place where
// settings were last read.
func (r *reloader) find(name string) (string, bool) { return (*r.lookup.Load())(name) }

// join makes a part apply the current settings now, and new ones until ctx is done. Functions do not
// compare, so the address of p names the part.
func (r *reloader) join(ctx context.Context, p part) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	change, _, err := p(r.current, *r.lookup.Load())
	if err != nil {
		return err
	}
	change()
	r.parts[&p] = true
	context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.parts, &p)
	})
	return nil
}

// settings returns the current settings.
func (r *reloader) settings() settings.Settings {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// obey reads settings again for each hangup, until ctx is done.
func (r *reloader) obey(ctx context.Context, hangups <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-hangups:
			if !ok {
				return
			}
			done, err := r.reload(ctx) // it is logged
			if t := r.trail.Load(); t != nil {
				t.Add(ctx, signalled(done, err))
			}
		}
	}
}

// signalled returns the trail's entry for a hangup. Nobody knows who sent the signal.
func signalled(done api.Reloaded, err error) trail.Entry {
	e := trail.Entry{Via: "signal", Action: "reload", Outcome: trail.Done, Fields: done.Changed}
	var faults accounts.Faults
	switch {
	case errors.As(err, &faults):
		e.Outcome = trail.Refused
	case err != nil:
		e.Outcome = trail.Failed
	}
	return e
}

// lost returns how many entries of the trail Redis did not accept from this process, and when that
// last happened.
func (r *reloader) lost() (entries int, last time.Time) {
	t := r.trail.Load()
	if t == nil {
		return 0, time.Time{}
	}
	entries, last = t.Lost()
	return entries, last.UTC().Truncate(time.Second)
}

// timelines sets how many lines all accounts' timelines have together.
func (r *reloader) timelines(s settings.Settings, _ settings.Lookup) (func(), []string, error) {
	return func() { r.lines.Store(int64(s.Redis.Timeline)) }, nil, nil
}

// openTrail opens the trail of the ring's namespace, for the changes of this process.
func (r *reloader) openTrail(ring *circulate.Ring, registry prometheus.Registerer) error {
	kept := r.settings().API.TrailKept
	if kept == 0 {
		kept = -1 // none; there 0 means the default
	}
	t, err := trail.New(ring, trail.Options{Kept: kept, Log: r.options.Log, Metrics: trail.NewMetrics(registry)})
	if err != nil {
		return fmt.Errorf("ROUNDS_TRAIL_KEPT: %w", err)
	}
	r.trail.Store(t)
	return nil
}

// reload reads settings again. If there is any fault, the error is accounts.Faults and
// nothing has changed.
func (r *reloader) reload(context.Context) (api.Reloaded, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done, err := r.change()
	var faults accounts.Faults
	switch {
	case errors.As(err, &faults):
		for _, f := range faults {
			r.options.Log.Error("settings were read again and are refused; nothing changes", "fault", f.Error())
		}
	case err != nil:
		r.options.Log.Error("settings were not read again; nothing changes", "error", err)
	default:
		r.options.Log.Info("settings were read again", "changed", strings.Join(done.Changed, ", "), "needs_restart", strings.Join(done.Restart, ", "))
	}
	return done, err
}

// change changes the settings. The caller holds mu.
func (r *reloader) change() (api.Reloaded, error) {
	if r.options.Read == nil {
		return api.Reloaded{}, errNoReload
	}
	read, lookup, err := r.options.Read()
	if err != nil {
		return api.Reloaded{}, faultsOf(err)
	}
	merged, changed, restart := settings.Merge(r.current, read)
	// The new settings are valid as a whole. The part of them that applies now, with the
	// rest unchanged, may not be.
	o := r.options
	o.Lookup = lookup
	if err := errors.Join(r.checkToken(merged), Validate(merged, o)); err != nil {
		return api.Reloaded{}, faultsOf(err)
	}
	var changes []func()
	var errs []error
	for p := range r.parts {
		change, notes, err := (*p)(merged, lookup)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		changes, changed = append(changes, change), append(changed, notes...)
	}
	if err := errors.Join(errs...); err != nil { // a file has changed since it was validated
		return api.Reloaded{}, faultsOf(err)
	}
	changed = append(changed, settings.ChangedUsers(*r.lookup.Load(), lookup)...)
	r.current = merged
	r.lookup.Store(&lookup)
	for _, change := range changes {
		change()
	}
	if r.options.Applied != nil {
		r.options.Applied(merged)
	}
	return api.Reloaded{Changed: changed, Restart: restart}, nil
}

// open notes where the API listens. It refuses an address that other machines can reach
// without a token. The settings alone do not show where systemd listens.
func (r *reloader) open(front *frontDoor) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exposed = front.exposed && r.current.API.Roles.Has(settings.RoleAPI)
	return r.checkToken(r.current)
}

// checkToken refuses settings without a token if other machines can reach the API. The
// caller holds mu.
func (r *reloader) checkToken(s settings.Settings) error {
	if !r.exposed || s.Access.Token != "" || s.API.KeysRequired() {
		return nil
	}
	return settings.Faults{{Name: "ROUNDS_API_TOKEN", Reason: "must be set while other machines can reach the API"}}
}

// faultsOf turns an error into faults, one for each line.
func faultsOf(err error) error {
	var faults accounts.Faults
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, reason, found := strings.Cut(line, ": ")
		if !found || !strings.HasPrefix(name, "ROUNDS_") {
			name, reason = "settings", line
		}
		faults = append(faults, accounts.Fault{Field: name, Reason: reason})
	}
	return faults
}
