// Package scene is a whole service to look at: one redis-server, the service's own parts
// with all roles in this process, third parties that they check, and receivers of
// webhooks. Some accounts fail, each in a way of its own.
//
// Nothing leaves this machine. The service reaches every host through a proxy that is in
// this package and answers for all of them, so that accounts have the addresses that an
// operator would see: http://press.example/feeds/1.
package scene

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// Token is what a scene's service demands, if it demands one.
const Token = "scene-token-of-the-service"

// Options say what a scene is like.
type Options struct {
	Redis    string            // the path of redis-server
	Dir      string            // an empty directory, for Redis and for files of settings
	Locked   bool              // the service demands Token, or a key
	Lasting  bool              // Redis has an append-only file
	Pollers  int               // replicas besides the first
	Settings map[string]string // further settings, by variable
	Kinds    []service.Kind    // besides those that the service knows
	WeChat   string            // where WeChat accounts are signed in; empty: WeChat's own address
	Webhooks string            // the file of endpoints; empty: one that accepts everything, and one that refuses it
}

// Scene is a running service.
type Scene struct {
	URL    string         // of the service, http://127.0.0.1:PORT
	Calls  *client.Client // of its API, with all rights
	Server *redistest.Server
	Third  *ThirdParty

	settings map[string]string // of every part, but for its roles
	options  Options
	group    *errgroup.Group
	ctx      context.Context // the group's
	stop     func() error
}

// Start starts a scene without accounts. The caller calls Close.
func Start(o Options) (*Scene, error) {
	var lasting []redistest.Option
	if o.Lasting {
		lasting = append(lasting, redistest.WithAOF())
	}
	server, err := redistest.Launch(o.Redis, o.Dir, lasting...)
	if err != nil {
		return nil, err
	}
	third, err := startThirdParty()
	if err != nil {
		server.Kill()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	s := &Scene{Server: server, Third: third, options: o, group: group, ctx: ctx}
	s.stop = func() error {
		cancel()
		err := group.Wait()
		third.close()
		server.Kill()
		return err
	}
	if err := s.serve(ctx, o); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// Close ends everything that Start has started. The error is that of the service.
func (s *Scene) Close() error {
	s.Calls.Close()
	return s.stop()
}

// serve starts the service, and returns when it is ready.
func (s *Scene) serve(ctx context.Context, o Options) error {
	webhooks := filepath.Join(o.Dir, "webhooks.json")
	if err := os.WriteFile(webhooks, []byte(cmp.Or(o.Webhooks, webhooksFile)), 0o600); err != nil {
		return err
	}
	key := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a signing key of the scene"))
	variables := map[string]string{
		"ROUNDS_REDIS_URL": s.Server.URL(), "ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_SHARDS": "4",
		"ROUNDS_ROLES": "api,poller,monitor,delivery", "ROUNDS_PROXY": s.Third.proxy(), "ROUNDS_GRACE_PERIOD": "1s",
		"ROUNDS_CHECK_TIMEOUT": "4s", "ROUNDS_LIMITS": "feed/* rate=50/s concurrency=8; http/crm.example rate=5/s",
		"ROUNDS_AUDIT_INTERVAL": "1m", "ROUNDS_WEBHOOKS_FILE": webhooks,
		"ROUNDS_SERVICE_SECRET_CRM": key, "ROUNDS_SERVICE_SECRET_ARCHIVE": key,
	}
	sealing, err := secrets.Generate()
	if err != nil {
		return err
	}
	if variables["ROUNDS_SECRETS_KEY"], err = sealing.Text(); err != nil {
		return err
	}
	token := ""
	if o.Locked {
		token = Token
		variables["ROUNDS_API_TOKEN"] = token
	}
	maps.Copy(variables, o.Settings)
	s.settings = variables
	serving := make(chan string, 1)
	if _, err := s.join(variables["ROUNDS_ROLES"], func(addr string) { serving <- addr }); err != nil {
		return err
	}
	select {
	case addr := <-serving:
		s.URL = "http://" + addr
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.Calls = client.New(s.URL, token)
	if err := s.Await(ctx, func() bool {
		answer, err := http.Get(s.URL + "/readyz")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}); err != nil {
		return fmt.Errorf("the service is not ready: %w", err)
	}
	for range o.Pollers {
		if _, err := s.Join("poller"); err != nil {
			return err
		}
	}
	return nil
}

// Settings returns what a part of the service with some roles is set to, by variable.
func (s *Scene) Settings(roles string) map[string]string {
	variables := maps.Clone(s.settings)
	variables["ROUNDS_ROLES"] = roles
	return variables
}

// Join starts what one more process of the service would be. It leaves with the scene, or once leave is
// called, which waits until it has left.
func (s *Scene) Join(roles string) (leave func(), err error) { return s.join(roles, nil) }

func (s *Scene) join(roles string, serving func(string)) (leave func(), err error) {
	read, lookup, err := read(s.Settings(roles))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	left := make(chan struct{})
	s.group.Go(func() error {
		defer close(left)
		defer cancel()
		return service.Run(ctx, read, service.Options{Version: version, Lookup: lookup, Serving: serving, Kinds: s.options.Kinds, WeChat: s.options.WeChat})
	})
	return func() { cancel(); <-left }, nil
}

// version is what the service says that it is.
const version = "1.0.0"

// read returns the settings, which the service looks up as long as it runs.
func read(variables map[string]string) (settings.Settings, settings.Lookup, error) {
	lookup := func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
	s, err := settings.Read(lookup, nil)
	return s, lookup, err
}

// Poll is a part of a scene's service in a process of its own, with what Settings has returned. It calls
// polling with its name as a replica.
func Poll(ctx context.Context, variables map[string]string, kinds []service.Kind, polling func(replica string)) error {
	s, lookup, err := read(variables)
	if err != nil {
		return err
	}
	return service.Run(ctx, s, service.Options{Version: version, Lookup: lookup, Kinds: kinds, Polling: polling})
}

// Await asks until a condition holds, for at most 90 s.
func (s *Scene) Await(ctx context.Context, so func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

// Key makes a key with a role, bound to labels given as name=value, and returns its text.
func (s *Scene) Key(ctx context.Context, name, role string, labels ...string) (string, error) {
	request := api.KeyRequest{Name: name, Role: role}
	for _, l := range labels {
		if request.Labels == nil {
			request.Labels = make(map[string]string)
		}
		label, value, _ := strings.Cut(l, "=")
		request.Labels[label] = value
	}
	made, err := s.Calls.CreateKey(ctx, request)
	return made.Text, err
}

// webhooksFile names an endpoint that accepts everything, and one that refuses it.
const webhooksFile = `{"endpoints": [
{"name": "crm", "url": "http://crm.example/hooks/rounds", "secrets": [{"secret": "CRM"}], "ordered": true},
{"name": "archive", "url": "http://archive.example/in", "secrets": [{"secret": "ARCHIVE"}], "kinds": ["feed"]}
]}`
