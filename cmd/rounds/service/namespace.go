package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/namespace"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// aliveWithin is how long a process may be silent and still count as a user of its
// namespace: six times as long as the default after which a replica counts as dead.
const aliveWithin = time.Minute

// Namespace is everything that a service has in one Redis, for callers that look at it or
// remove it.
type Namespace struct {
	server connect.Server
	name   string
	dir    string // where the Redis inside a process stores its data; empty: it is another Redis
}

// NamespaceUser is a process that uses a namespace.
type NamespaceUser = namespace.Process

// OpenNamespace prepares connections to the Redis of the settings, or opens the directory in which
// the Redis inside a process stores its data. The settings must name one of them. OpenNamespace
// creates nothing there. The caller must close it and check the error, because closing a directory
// saves its changes.
func OpenNamespace(ctx context.Context, s settings.Redis, name string) (*Namespace, error) {
	switch {
	case s.InDataDir() && s.DataGiven:
		own, err := openOwn(ctx, s, "", "a rounds command", slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, err
		}
		return &Namespace{own, name, s.DataDir}, nil
	case s.URL == "":
		return nil, errors.New("ROUNDS_REDIS_URL must say in which Redis it is, or --data in which directory")
	}
	server, err := openRedis(s, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, err
	}
	return &Namespace{server: server, name: name}, nil
}

// Close closes the connections, or saves the changes in a directory.
func (n *Namespace) Close() error { return n.server.Close() }

// Redis names the Redis, without a password.
func (n *Namespace) Redis() string { return n.server.Name() }

// Keys returns the keys of the service's API.
func (n *Namespace) Keys() *key.Keyring { return key.NewKeyringAt(n.server, n.name) }

// AddToTrail stores an entry in the namespace's trail, for a command that bypasses the API. Its principal
// is the operating system's user.
func (n *Namespace) AddToTrail(ctx context.Context, e trail.Entry) error {
	t, err := trail.At(n.server, n.name, trail.Options{})
	if err != nil {
		return err
	}
	e.By, e.Via = SystemUser(), "system"
	t.Add(ctx, e)
	return nil
}

// Fill creates the namespace with the given number of shards, and calls fill to write its content.
// The namespace must have no keys in this Redis. Until fill has succeeded, programs refuse to work with
// the namespace.
func (n *Namespace) Fill(ctx context.Context, shards int, fill func(context.Context, *circulate.Ring) error) error {
	found, err := n.Look(ctx)
	if err != nil {
		return err
	}
	if found.Keys > 0 && n.dir != "" {
		return fmt.Errorf("the directory %s is not empty: it has %d accounts and %d messages in %d keys; choose another with --data",
			n.dir, found.Accounts, found.Messages, found.Keys)
	}
	if found.Keys > 0 {
		return fmt.Errorf("namespace %s in Redis at %s is not empty: it has %d accounts and %d messages in %d keys; choose another with ROUNDS_NAMESPACE, or remove it with rounds namespace rm",
			n.name, n.Redis(), found.Accounts, found.Messages, found.Keys)
	}
	ring, err := openFit(ctx, n.server, circulate.Options{Namespace: n.name, Shards: shards, Restoring: true})
	if err != nil {
		return err
	}
	if err := ring.Archive().Begin(ctx); err != nil {
		return err
	}
	if err := fill(ctx, ring); err != nil {
		return fmt.Errorf("%w (remove namespace %s before you try again)", err, n.name)
	}
	return ring.Archive().End(ctx)
}

// SystemUser returns the operating system's user who runs the process.
func SystemUser() string {
	who, err := user.Current()
	if err != nil {
		return fmt.Sprint("uid ", os.Getuid())
	}
	return who.Username
}

// Look returns what the namespace has, and which of its users reported within a minute, without
// the former names of others.
func (n *Namespace) Look(ctx context.Context) (namespace.Found, error) {
	found, err := namespace.Look(ctx, n.server, n.name, aliveWithin)
	if err != nil {
		return found, fmt.Errorf("namespace %s: %w", n.name, err)
	}
	found.Alive = withoutFormer(found.Alive, time.Now())
	return found, nil
}

const (
	// replacedAfter is how long a process must be silent for another one to replace it.
	replacedAfter = 10 * time.Second
	// startSlack is by how much the clocks of a process and of Redis may differ, and a process
	// reports in whole seconds when it began.
	startSlack = 2 * time.Second
)

// withoutFormer returns the processes without former names. A process has changed its name if
// another one on its host began at the same moment and was heard of later: it is the same, with
// other shards. It was replaced if it went silent, and another one with its roles began there
// after that.
func withoutFormer(all []NamespaceUser, now time.Time) []NamespaceUser {
	reports := make([]accounts.ProcessReport, len(all))
	for i := range all {
		_ = json.Unmarshal(all[i].About, &reports[i]) // one of another version is shown
	}
	var left []NamespaceUser
	for i, p := range all {
		former := false
		for j, by := range all {
			if p.Roles != by.Roles || p.Roles == "" || reports[i].Host != reports[j].Host || reports[j].Since.IsZero() || by.Silent >= p.Silent {
				continue
			}
			renamed := reports[i].Since.Equal(reports[j].Since)
			replaced := p.Silent >= replacedAfter && !reports[j].Since.Before(now.Add(-p.Silent-startSlack))
			former = former || renamed || replaced
		}
		if !former {
			left = append(left, p)
		}
	}
	return left
}

// Remove removes everything, and calls progress with the number of removed keys.
func (n *Namespace) Remove(ctx context.Context, progress func(removed int)) (removed int, err error) {
	return namespace.Remove(ctx, n.server, n.name, progress)
}
