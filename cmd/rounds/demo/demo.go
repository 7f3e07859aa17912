// Package demo shows the service at work, with nothing to set up: a Redis inside the process, a
// small internet on loopback, some dozens of accounts, some of which fail on purpose, and pollers
// that are processes of their own, so that a visitor may kill them.
//
// The pollers are the same program, started again. They reach the Redis on loopback with a password
// that is made for the run and that they get through a pipe. They end when the pipe does, so none
// outlives this process, however it ends.
package demo

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/sample"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	pollers = 3
	shards  = 16 // enough to see, and few enough for a laptop that does other things
	// auditEvery is how often the demo audits its accounts, so that the law is never
	// older than a visitor's patience.
	auditEvery = 10 * time.Second
	grace      = time.Second

	office        = "office" // a webhook endpoint
	loginSecret   = "DEMO_LOGIN"
	tokenSecret   = "DEMO_WEIXIN"
	webhookSecret = "DEMO_WEBHOOK"
)

// Options are what a demo needs. All fields are required, except SignIn and Change.
type Options struct {
	// Service has the options that the service gets from its surroundings. Lookup finds
	// secrets besides the demo's.
	Service service.Options
	// Program returns a command that runs this program with other arguments, as a process
	// of its own.
	Program func(args ...string) (*exec.Cmd, error)
	// Command is how people call this program.
	Command string
	// Arguments make Program call RunPoller.
	Arguments []string
	// Ready waits until the service at a URL is ready. It returns an error only if ctx is
	// done first.
	Ready func(ctx context.Context, base string) error
	// Show shows a message.
	Show func(api.Message) error

	// SignIn signs a WeChat account in at the API at a URL and shows that, while the phone scans by
	// itself; nil: no account is signed in this way.
	SignIn func(ctx context.Context, base, id string) error

	// Change changes the settings of a process; nil: nothing does.
	Change func(*settings.Settings)

	Out, Err io.Writer
}

// Run runs the demo until ctx is done, and then returns nil.
func Run(ctx context.Context, o Options) error {
	world, err := sample.Start()
	if err != nil {
		return err
	}
	defer world.Close()
	redis := connect.NewEmbedded()
	defer func() { _ = redis.Close() }() // nothing in it is stored
	password := rand.Text()
	addr, err := redis.Listen(password)
	if err != nil {
		return fmt.Errorf("the Redis of the demo: %w", err)
	}
	dir, err := os.MkdirTemp("", "rounds-demo")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	own, err := prepare(world, dir)
	if err != nil {
		return err
	}
	change(o.Change, &own)
	key, err := secrets.Generate() // it seals the tokens of signed-in accounts
	if err != nil {
		return err
	}
	private, err := key.Text()
	if err != nil {
		return err
	}
	own.Seal.PublicKey = key.Public().String()
	at := url.URL{Scheme: "redis", User: url.UserPassword("", password), Host: addr.String()}
	crew, err := newCrew(o, orders{Redis: at.String(), Limits: own.Poller.Limits, Login: sample.Password, Token: sample.FirstToken, Key: private, Files: own.FileStore.Place})
	if err != nil {
		return err
	}

	listener, err := open(own.API.Addr)
	if err != nil {
		return fmt.Errorf("the API of the demo: %w", err)
	}
	defer func() { _ = listener.Close() }() // the service has closed it, if it began
	own.API.Addr = listener.Addr().String()

	group, ctx := errgroup.WithContext(ctx)
	// The service ends after everything that uses it.
	used, unused := context.WithCancel(context.WithoutCancel(ctx))
	serving := make(chan string, 1)
	group.Go(func() error {
		options := o.Service
		options.Redis, options.Listener = redis, listener
		options.Serving = func(addr string) { serving <- addr }
		options.Lookup = with(o.Service.Lookup, map[string]string{
			secrets.ServiceEnvPrefix + webhookSecret: signingKey(), secrets.EnvPrefix + loginSecret: sample.Password,
		})
		options.WeChat = world.URL(sample.WeChat, "")
		options.Demo = &api.Demo{Pollers: crew.list, Kill: crew.kill}
		return service.Run(used, own, options)
	})
	group.Go(func() error {
		defer unused()
		select {
		case <-ctx.Done():
			return nil
		case addr := <-serving:
			base := "http://" + addr
			if o.Ready(ctx, base) != nil {
				return nil
			}
			users, ctx := errgroup.WithContext(ctx)
			users.Go(func() error { return crew.run(ctx) })
			users.Go(func() error { return present(ctx, o, base, world) })
			return users.Wait()
		}
	})
	return group.Wait()
}

// prepare returns the settings of the process, which has all roles except the poller's. They name
// files in dir: one with webhooks, and a folder for what messages carry.
func prepare(world *sample.Upstream, dir string) (settings.Settings, error) {
	// The environment is for the real service. The demo must run even if a real service
	// uses its address.
	s, err := settings.Read(nil, nil)
	if err != nil {
		return s, err
	}
	s.API.Roles = settings.Roles{settings.RoleAPI, settings.RoleMonitor, settings.RoleDelivery}
	s.Redis.Shards = shards
	s.Poller.AllowNetworks = allowed
	s.Poller.GracePeriod = grace
	// The shops need four checks a second. When more are due at once, some are denied for
	// a moment.
	s.Poller.Limits = fmt.Sprintf("http/%s rate=5/s burst=3", world.Host(sample.Shops))
	s.Monitor.AuditInterval = auditEvery
	s.FileStore.Place = filepath.Join(dir, "files")
	s.Delivery.WebhooksFile = filepath.Join(dir, "webhooks.json")
	return s, os.WriteFile(s.Delivery.WebhooksFile, webhooks(world), 0o600)
}

func change(by func(*settings.Settings), s *settings.Settings) {
	if by != nil {
		by(s)
	}
}

// allowed is the address that the demo's checks and webhooks may reach. The sample's sites are
// there.
const allowed = "127.0.0.1"

// webhooks returns the file with the endpoints.
func webhooks(world *sample.Upstream) []byte {
	return fmt.Appendf(nil, `{"endpoints":[{"name":%q,"url":%q,"kinds":["http"],"secrets":[{"secret":%q}]}]}`,
		office, world.URL(sample.Office, "/hook"), webhookSecret)
}

func signingKey() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	return base64.StdEncoding.EncodeToString(key)
}

// with returns a lookup that finds these variables first, and otherwise only secrets of
// others.
func with(others settings.Lookup, variables map[string]string) settings.Lookup {
	return func(name string) (string, bool) {
		if value, ok := variables[name]; ok {
			return value, true
		}
		if others == nil || !strings.HasPrefix(name, secrets.EnvPrefix) && !strings.HasPrefix(name, secrets.BindingEnvPrefix) {
			return "", false
		}
		return others(name)
	}
}

// open listens at an address, or at any free port of loopback if it is in use.
func open(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	return l, err
}
