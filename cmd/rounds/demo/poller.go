package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// orders are what a poller of the demo gets through its pipe: one line of JSON. They hold
// passwords.
type orders struct {
	Redis  string `json:"redis"` // its URL
	Limits string `json:"limits"`
	Login  string `json:"login"` // the password for the sites of members
	Token  string `json:"token"` // of WeChat's first account
	Key    string `json:"key"`   // opens stored secrets
	Files  string `json:"files"` // the directory with the files of sends
}

// named is what a poller writes to its output each time, as one line of JSON.
type named struct {
	Replica string `json:"replica"`
}

const (
	maxOrders = 64 << 10 // bytes
	// leaveWithin is how long a poller may take to end after its pipe has ended.
	leaveWithin = 5 * time.Second
)

// RunPoller runs a poller of the demo, at the other end of Run's pipes. It reads its orders from
// in, and ends when in ends or ctx is done. If it cannot end in time, it ends the process. A by
// that is not nil changes its settings.
func RunPoller(ctx context.Context, in io.Reader, out io.Writer, o service.Options, by func(*settings.Settings)) error {
	reader := bufio.NewReaderSize(in, maxOrders)
	line, err := reader.ReadSlice('\n')
	var given orders
	if err != nil || json.Unmarshal(line, &given) != nil || given.Redis == "" {
		return errors.New("only rounds demo starts this: it gives orders on standard input")
	}
	s, err := settings.Read(nil, nil)
	if err != nil {
		return err
	}
	s.API.Roles = settings.Roles{settings.RolePoller}
	s.Redis.URL = given.Redis
	s.Poller.AllowNetworks = allowed
	s.Poller.Limits = given.Limits
	s.Seal.PrivateKeys = given.Key
	s.Poller.GracePeriod = grace
	s.FileStore.Place = given.Files
	change(by, &s)

	o.Lookup = with(o.Lookup, map[string]string{secrets.EnvPrefix + loginSecret: given.Login, secrets.EnvPrefix + tokenSecret: given.Token})
	o.Polling = func(replica string) { _ = json.NewEncoder(out).Encode(named{replica}) } // without a name the poller only cannot be killed
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, reader) // which lasts until the demo ends, in whatever way
		cancel()
	}()
	// A goroutine that waits for a Redis that has ended with the demo must not wait for ever.
	context.AfterFunc(ctx, func() { time.AfterFunc(leaveWithin, func() { os.Exit(1) }) })
	return service.Run(ctx, s, o)
}
