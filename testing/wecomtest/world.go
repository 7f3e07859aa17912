// Package wecomtest is a world of WeCom corporations for tests and measurements: the
// fake of WeCom, a redis-server, and the program's own processes between them.
package wecomtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/rounds-dev/rounds/testing/ports"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
	"github.com/rounds-dev/rounds/testing/upstream/wecomseal"
)

// Corp is a corporation.
type Corp struct {
	ID       string
	Known    string // the secret that the program gets; empty: the right one
	Accounts int
}

// Account returns the open_kfid of the n-th account, from 0, and its id.
func (c Corp) Account(n int) string { return fmt.Sprintf("wk-%s-%05d", c.ID, n) }

// Options say what a world has.
type Options struct {
	Corps    []Corp
	Every    time.Duration // the cadence of all accounts
	Fake     wecom.Options
	Pollers  int // processes that only poll; 0: one process has all roles
	Settings []string
	OnSync   func(openKfID, token string) // called for each sync_msg; nil: nothing is
	Redis    []redistest.Option
	Binary   string // of the program; empty: it is built
}

// World is what runs. Tests may use and break Fake, Redis and the processes.
type World struct {
	Fake    *wecom.WeCom
	Redis   *redistest.Server
	Main    *processes.Process   // API and monitor, and pollers if there are no others
	Pollers []*processes.Process // processes that only poll

	options  Options
	binary   string
	settings []string
	api      string
	base     string // where the fake is
	crypts   map[string]*wecomseal.Crypt
	client   *http.Client
	closing  []func()
}

// Open starts a world in a directory and registers its accounts. Close ends what was
// started, even after an error.
func Open(ctx context.Context, dir string, o Options) (*World, error) {
	w := &World{options: o, crypts: make(map[string]*wecomseal.Crypt), client: &http.Client{Timeout: 10 * time.Second}}
	for _, step := range []func(context.Context, string) error{w.serveFake, w.configure, w.startProcesses, w.register} {
		if err := step(ctx, dir); err != nil {
			return w, err
		}
	}
	return w, nil
}

// Close ends all that was started.
func (w *World) Close() {
	for i := len(w.closing) - 1; i >= 0; i-- {
		w.closing[i]()
	}
	w.closing = nil
}

func (w *World) serveFake(context.Context, string) error {
	w.Fake = wecom.New(w.options.Fake)
	for _, c := range w.options.Corps {
		w.Fake.AddCorp(c.ID, secretOf(c.ID))
		for n := range c.Accounts {
			w.Fake.AddAccount(c.ID, c.Account(n))
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: watched(w.Fake, w.options.OnSync), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	w.closing = append(w.closing, func() { _ = server.Close() })
	w.base = "http://" + listener.Addr().String()
	return nil
}

func secretOf(corp string) string { return "the-secret-of-" + corp }

// configure starts Redis and writes the configuration.
func (w *World) configure(_ context.Context, dir string) error {
	path, err := redistest.Find()
	if err != nil {
		return err
	}
	if w.Redis, err = redistest.Launch(path, dir, w.options.Redis...); err != nil {
		return err
	}
	w.closing = append(w.closing, w.Redis.Kill)
	if w.binary = w.options.Binary; w.binary == "" {
		if w.binary, err = processes.Build(dir); err != nil {
			return err
		}
	}
	addr, err := ports.Address()
	if err != nil {
		return err
	}
	w.api = "http://" + addr
	w.settings = append([]string{
		"ROUNDS_REDIS_URL=" + w.Redis.URL(), "ROUNDS_API_ADDR=" + addr, "ROUNDS_API_URL=" + w.api, "ROUNDS_ALLOW_PRIVATE_ADDRESSES=true",
		"ROUNDS_CALLBACKS_FILE=" + filepath.Join(dir, "callbacks.json"), "ROUNDS_LOG_FORMAT=json",
	}, w.options.Settings...)
	type ref struct {
		Secret string `json:"secret"`
	}
	type callback struct {
		Name   string `json:"name"`
		CorpID string `json:"corp_id"`
		Token  ref    `json:"token"`
		AESKey ref    `json:"aes_key"`
	}
	var file struct {
		Callbacks []callback `json:"callbacks"`
	}
	for _, c := range w.options.Corps {
		token, key := rand.Text(), (rand.Text() + rand.Text())[:43]
		if w.crypts[c.ID], err = wecomseal.New(token, key, c.ID); err != nil {
			return err
		}
		known := c.Known
		if known == "" {
			known = secretOf(c.ID)
		}
		w.settings = append(w.settings, "ROUNDS_SECRET_"+c.ID+"="+known, "ROUNDS_SERVICE_SECRET_"+c.ID+"_TOKEN="+token, "ROUNDS_SERVICE_SECRET_"+c.ID+"_KEY="+key)
		file.Callbacks = append(file.Callbacks, callback{c.ID, c.ID, ref{c.ID + "_TOKEN"}, ref{c.ID + "_KEY"}})
	}
	text, err := json.Marshal(file)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "callbacks.json"), text, 0o600)
}

func (w *World) startProcesses(ctx context.Context, _ string) error {
	roles := "api,monitor"
	if w.options.Pollers == 0 {
		roles = "api,monitor,poller"
	}
	var err error
	if w.Main, err = w.start("main", roles); err != nil {
		return err
	}
	for i := range w.options.Pollers {
		p, err := w.start(fmt.Sprint("poller ", i), "poller")
		if err != nil {
			return err
		}
		w.Pollers = append(w.Pollers, p)
	}
	return w.awaitReady(ctx)
}

// Restart starts a poller again that has ended.
func (w *World) Restart(i int) (err error) {
	w.Pollers[i], err = w.start(w.Pollers[i].Name, "poller")
	return err
}

func (w *World) start(name, roles string) (*processes.Process, error) {
	p, err := processes.Start(name, w.binary, w.settings, "serve", "--roles", roles)
	if err == nil {
		w.closing = append(w.closing, p.Kill)
	}
	return p, err
}

func (w *World) awaitReady(ctx context.Context) error {
	for deadline := time.Now().Add(20 * time.Second); ; {
		answer, err := w.client.Get(w.api + "/readyz")
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		if time.Now().After(deadline) || w.Main.Ended() {
			return fmt.Errorf("the API is not ready: %w\n%s", err, w.Main.Log())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// register imports all accounts.
func (w *World) register(ctx context.Context, _ string) error {
	var records bytes.Buffer
	total := 0
	for _, c := range w.options.Corps {
		for n := range c.Accounts {
			fmt.Fprintf(&records, `{"id":%q,"kind":"wecom-kf","config":{"corp_id":%q,"open_kfid":%[1]q,"secret":{"secret":%[2]q},"base_url":%q},"cadence":"every %v"}`+"\n",
				c.Account(n), c.ID, w.base, w.options.Every)
			total++
		}
	}
	return w.Import(ctx, &records, total)
}

// Import registers accounts, one a line, of which there are so many.
func (w *World) Import(ctx context.Context, records io.Reader, total int) error {
	load := exec.CommandContext(ctx, w.binary, "account", "import", "-")
	load.Env, load.Stdin = w.settings, records
	out, err := load.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(fmt.Sprint(total))) {
		return errors.Join(fmt.Errorf("import said %s", out), err)
	}
	return nil
}
