package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/testing/processes"
)

const tokenOne, tokenTwo = "one-0123456789abc", "two-0123456789abc"

// reloading is a service whose settings are in a file.
type reloading struct {
	*testing.T
	*running
	path    string
	hangups chan os.Signal
	applied chan settings.Settings
}

func startReloading(t *testing.T, text string) *reloading {
	t.Helper()
	r := &reloading{T: t, running: &running{}, path: writeFile(t, text), hangups: make(chan os.Signal, 1), applied: make(chan settings.Settings, 10)}
	o := Options{Log: slog.New(slog.NewJSONHandler(&r.log, nil)), Hangups: r.hangups, Applied: func(s settings.Settings) { r.applied <- s }}
	var source settings.Source
	o.Read = func() (settings.Settings, settings.Lookup, error) {
		lookup, faults := source.Layer(lookupIn(map[string]string{"ROUNDS_SETTINGS_FILE": r.path}), nil)
		s, err := settings.Read(lookup, nil, func(s settings.Settings) error { return Validate(s, Options{Lookup: lookup}) })
		return s, lookup, errors.Join(faults, err)
	}
	s, lookup, err := o.Read()
	if err != nil {
		t.Fatal(err)
	}
	o.Lookup = lookup
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, s, o) }()
	r.wait = sync.OnceValue(func() error { return <-done })
	r.stop = func() error { cancel(); return r.wait() }
	t.Cleanup(func() { _ = r.stop() })
	return r
}

func (r *reloading) write(text string) {
	r.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

// reload reloads through the API, and expects what has changed.
func (r *reloading) reload(calls *client.Client, want api.Reloaded) {
	r.Helper()
	got, err := calls.Reload(r.Context())
	if err != nil || !slices.Equal(got.Changed, want.Changed) || !slices.Equal(got.Restart, want.Restart) {
		r.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

// A reload changes all live settings while the service runs. If any setting is at fault, it
// changes none.
func TestReload(t *testing.T) {
	receiver := startReceiver(t)
	hooks := func(names ...string) string {
		var all []string
		for _, name := range names {
			all = append(all, fmt.Sprintf(`{"name":%q,"url":%q,"secrets":[{"secret":"CRM"}]}`, name, receiver.url))
		}
		return `{"endpoints":[` + strings.Join(all, ",") + `]}`
	}
	webhooks := writeFile(t, hooks("crm"))
	with := func(more string) string {
		return "ROUNDS_ROLES=api,poller,monitor,delivery\nROUNDS_API_ADDR=127.0.0.1:0\nROUNDS_ALLOW_PRIVATE_ADDRESSES=true\nROUNDS_SERVICE_SECRET_CRM=" + signingKey + "\nROUNDS_WEBHOOKS_FILE=" + webhooks + "\n" + more
	}
	r := startReloading(t, with("ROUNDS_API_TOKEN="+tokenOne+"\n"))
	base := r.base(t, "api")
	r.log.Await(t, `"msg":"delivering","role":"delivery","endpoint":"crm"`)
	processes.AwaitStatus(t, base+"/readyz", http.StatusOK)
	one, two := client.New(base, tokenOne), client.New(base, tokenTwo)
	defer one.Close()
	defer two.Close()
	r.reload(one, api.Reloaded{})

	// A secret in the file is named when it changes, without its value.
	r.write(with("ROUNDS_API_TOKEN=" + tokenOne + "\nROUNDS_SECRET_BEARER=hunter2\n"))
	r.reload(one, api.Reloaded{Changed: []string{"ROUNDS_SECRET_BEARER"}})
	r.write(with("ROUNDS_API_TOKEN=" + tokenOne + "\nROUNDS_SECRET_BEARER=hunter3\n"))
	r.reload(one, api.Reloaded{Changed: []string{"ROUNDS_SECRET_BEARER"}})
	r.reload(one, api.Reloaded{})
	r.write(with("ROUNDS_API_TOKEN=" + tokenOne + "\n"))
	r.reload(one, api.Reloaded{Changed: []string{"ROUNDS_SECRET_BEARER"}})
	for range 4 {
		<-r.applied
	}

	// A refused reload names every fault and changes nothing.
	if err := os.WriteFile(webhooks, []byte(strings.Replace(hooks("crm", "audit"), `"name":"crm"`, `"name":"CRM"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.write(with("ROUNDS_API_TOKEN=" + tokenTwo + "\nROUNDS_LIMITS=mail rate=x\nROUNDS_CONCURRENCY=0\nROUNDS_NONE=hunter2\n"))
	_, err := one.Reload(t.Context())
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusUnprocessableEntity || len(refused.Errors) < 4 || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("got %v", err)
	}
	for _, name := range []string{"ROUNDS_LIMITS", "ROUNDS_CONCURRENCY", "ROUNDS_SETTINGS_FILE", "ROUNDS_WEBHOOKS_FILE"} {
		if !slices.ContainsFunc(refused.Errors, func(f *api.Fault) bool { return strings.HasPrefix(f.Location, name) }) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
	if _, err := two.Stats(t.Context()); client.Status(err) != http.StatusUnauthorized {
		t.Errorf("the token that was refused: %v", err)
	}

	// A signal does the same, and never ends the process. The file has another fault this time,
	// because only its line in the log shows that the file has been read.
	r.write(with("ROUNDS_API_TOKEN=" + tokenTwo + "\nROUNDS_CONCURRENCY=-1\n"))
	r.hangups <- syscall.SIGHUP
	r.log.Await(t, "nothing changes\",\"fault\":\"ROUNDS_CONCURRENCY is \\\"-1\\\": must be")

	// A file that is empty while somebody writes it does not stand for defaults: the token would be
	// gone.
	r.write("")
	if _, err := one.Reload(t.Context()); !errors.As(err, &refused) || !strings.Contains(err.Error(), "had settings") {
		t.Errorf("an empty file: %v", err)
	}
	if _, err := client.New(base, "").Stats(t.Context()); client.Status(err) != http.StatusUnauthorized {
		t.Errorf("without a token: %v", err)
	}

	if err := os.WriteFile(webhooks, []byte(hooks("audit")), 0o600); err != nil {
		t.Fatal(err)
	}
	// A caller follows messages with the old token.
	following, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/messages", nil)
	if err != nil {
		t.Fatal(err)
	}
	following.Header = http.Header{"Authorization": {"Bearer " + tokenOne}, "Accept": {"text/event-stream"}}
	stream, err := http.DefaultClient.Do(following)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	r.write(with("ROUNDS_API_TOKEN=" + tokenTwo + "\nROUNDS_LIMITS=feed rate=2/s\nROUNDS_LOG_LEVEL=error\nROUNDS_CONCURRENCY=3\n"))
	r.reload(one, api.Reloaded{
		Changed: []string{"ROUNDS_API_TOKEN", "ROUNDS_LIMITS", "ROUNDS_LOG_LEVEL", "webhook audit: new", "webhook crm: gone"}, Restart: []string{"ROUNDS_CONCURRENCY"},
	})
	r.log.Await(t, `"msg":"delivery ends","role":"delivery","endpoint":"crm"`)
	r.log.Await(t, `"msg":"delivering","role":"delivery","endpoint":"audit"`)
	if s := <-r.applied; s.Log.Level != slog.LevelInfo { // by the reload that changed nothing
		t.Errorf("applied %+v", s.Log)
	}
	if s := <-r.applied; s.Log.Level != slog.LevelError || s.Poller.Concurrency != 256 {
		t.Errorf("applied %+v, %d", s.Log, s.Poller.Concurrency)
	}
	if _, err := io.ReadAll(stream.Body); err != nil { // the stream ends
		t.Log(err)
	}
	if _, err := one.Stats(t.Context()); client.Status(err) != http.StatusUnauthorized {
		t.Errorf("the old token: %v", err)
	}
	if _, err := two.Stats(t.Context()); err != nil {
		t.Errorf("the new token: %v", err)
	}
	r.hangups <- syscall.SIGHUP
	r.reload(two, api.Reloaded{Restart: []string{"ROUNDS_CONCURRENCY"}})
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// The settings are valid by themselves, but not together with a setting that needs a restart:
// an API off loopback must keep its token.
func TestReloadKeepsATokenOffLoopback(t *testing.T) {
	s := settings.Settings{API: settings.API{Roles: settings.Roles{settings.RoleAPI}, Addr: "0.0.0.0:8080"}, Access: settings.Access{Token: "one"}}
	reload := newReloader(s, Options{Read: func() (settings.Settings, settings.Lookup, error) {
		s, err := settings.Read(nil, nil) // on loopback, without a token
		return s, nil, err
	}}.withDefaults())
	if err := reload.open(&frontDoor{exposed: true}); err != nil {
		t.Fatal(err)
	}
	joined := 0
	err := reload.join(t.Context(), func(s settings.Settings, _ settings.Lookup) (func(), []string, error) {
		return func() { joined++ }, nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reload.reload(t.Context()); err == nil || !strings.Contains(err.Error(), "ROUNDS_API_TOKEN: must be set while other machines can reach the API") || joined != 1 {
		t.Errorf("got %v, %d changes", err, joined)
	}
	if reload.settings().Access.Token != "one" {
		t.Error("the token has changed")
	}
}

// If one part of three cannot apply the settings, no part applies them.
func TestReloadIsOfAllPartsOrOfNone(t *testing.T) {
	const nobody = 3
	level := "info"
	reload := newReloader(settings.Settings{Redis: settings.Redis{Timeline: 100_000}}, Options{Read: func() (settings.Settings, settings.Lookup, error) {
		s, err := settings.Read(lookupIn(map[string]string{"ROUNDS_LOG_LEVEL": level}), nil)
		return s, nil, err
	}}.withDefaults())
	failing, taken := nobody, 0
	for part := range nobody {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := reload.join(ctx, func(settings.Settings, settings.Lookup) (func(), []string, error) {
			if failing == part {
				return nil, nil, errors.New("a file has changed since it was judged")
			}
			return func() { taken++ }, nil, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	level, taken = "error", 0
	for failing = range nobody {
		if _, err := reload.reload(t.Context()); err == nil || taken != 0 || reload.settings().Log.Level != slog.LevelInfo {
			t.Errorf("part %d fails: %v, %d parts have taken it, the level is %v", failing, err, taken, reload.settings().Log.Level)
		}
	}
	failing = nobody
	if done, err := reload.reload(t.Context()); err != nil || taken != 3 || !slices.Equal(done.Changed, []string{"ROUNDS_LOG_LEVEL"}) || reload.settings().Log.Level != slog.LevelError {
		t.Errorf("%+v, %v, %d parts have taken it", done, err, taken)
	}
	if _, err := newReloader(settings.Settings{}, Options{}.withDefaults()).reload(t.Context()); !errors.Is(err, errNoReload) {
		t.Errorf("without a way to read: %v", err)
	}
}
