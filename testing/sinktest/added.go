package sinktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/dnstest"
)

// Added says how a type is tested whose endpoints may be added while the service runs and have servers.
type Added struct {
	// New returns the type. It reaches what people type by the network, and has secrets from the source.
	New func(network sink.Network, source secrets.Source) sink.Addable
	// List is the field that lists the servers.
	List string
	// Fields are the members of an endpoint besides its name, its type and its servers, without TLS. They
	// begin with a comma and name the secret S.
	Fields string
}

// inner is a name that resolves to this machine.
const inner = "inner.example"

// Run checks that endpoints reach nothing that accounts may not reach, read no files, and send secrets
// to hosts alone to which they are bound.
func (a Added) Run(t *testing.T) {
	// What the resolver remembers for all is made here, and not in a bubble of one test.
	_, _ = (&net.Resolver{PreferGo: true}).LookupHost(t.Context(), "localhost")
	t.Run("refused addresses", func(t *testing.T) {
		for address, want := range map[string]string{
			"127.0.0.1:4711": ": must not be a private address; rounds serve needs ROUNDS_ALLOW_NETWORKS=127.0.0.1:4711", "169.254.169.254:80": ": must not be a private address",
			"[::1]:4711": ": must not be a private address", "localhost:4711": ": must not be a private address", "0x7f.1:4711": "",
			"/var/run/postgresql": ": must be HOST or HOST:PORT", "user:password@db.example.com": ": must be HOST or HOST:PORT",
		} {
			_, err := a.read(client(t, ""), address, "")
			if got := fmt.Sprint(err); want != "" && !strings.Contains(got, a.List+"[0]"+want) || strings.Contains(got, "password@") {
				t.Errorf("%s: %s", address, got)
			}
		}
		if _, err := a.read(client(t, "127.0.0.1:4711"), "127.0.0.1:4711", ""); err != nil {
			t.Error(err)
		}
		if _, err := a.read(nil, "db.example.com:4711", ""); err == nil {
			t.Error("an endpoint was added that nothing reaches")
		}
	})
	t.Run("files", func(t *testing.T) {
		for _, file := range []string{"/etc/passwd", "ca.pem"} {
			_, err := a.read(client(t, ""), "db.example.com:4711", fmt.Sprintf(`,"tls":true,"ca_file":%q`, file))
			if err == nil || !strings.Contains(err.Error(), "ca_file: is only for endpoints of the file: name the certificates as ca_certificate") {
				t.Errorf("got %v", err)
			}
		}
	})
	for name, one := range map[string]struct{ address, more, want string }{
		// An address that was allowed when the endpoint was added.
		"an address":           {"127.0.0.1:4711", "", "refused address: 127.0.0.1 is not among those that may be reached; rounds serve needs ROUNDS_ALLOW_NETWORKS=127.0.0.1:4711"},
		"a name":               {inner + ":4711", "", "the host's name has no address that may be reached"},
		"a number":             {"0x7f.1:4711", "", "refused address"},
		"an unbound secret":    {"unbound.example:4711", `,"tls":true`, "secret S: refused: it is bound to no hosts, and an endpoint that was added"},
		"another host":         {"other.example:4711", `,"tls":true`, "secret S: refused: its binding names other hosts than"},
		"a broken certificate": {inner + ":4711", `,"tls":true,"ca_certificate":{"secret":"S"}`, "secret S: has no certificate in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := client(t, "127.0.0.1:4711")
				to := a.open(t, network, one.address, one.more)
				network.Permit(fetch.Networks{})
				err := to.Handle(t.Context(), Messages(1, "a"))[0]
				var later *delivery.Later
				if got := fmt.Sprint(err); !errors.As(err, &later) || !strings.Contains(got, one.want) || strings.Contains(got, value) {
					t.Errorf("got %s, want %s", got, one.want)
				}
				testable, ok := to.(sink.Testable)
				if !ok {
					t.Fatal("it takes no test events")
				}
				done := testable.Test(t.Context(), sink.TestEvent("added", "id", Messages(1, "a")[0].Message.Time))
				if done.Outcome != sink.Unreachable || !strings.Contains(done.Why, one.want) {
					t.Errorf("test: %+v", done)
				}
				if err := to.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
	t.Run("allowed by name", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		ctx, reached := context.WithCancel(t.Context())
		defer reached()
		came := make(chan error, 1)
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				err = conn.Close()
			}
			came <- err
			reached()
		}()
		to := a.open(t, client(t, inner+":"+port), inner+":"+port, "")
		_ = to.Handle(ctx, Messages(1, "a")) // the listener speaks no protocol
		if err := to.Close(); err != nil {
			t.Error(err)
		}
		select {
		case err := <-came:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("it was not reached")
		}
	})
	t.Run("the form", func(t *testing.T) {
		kind := strict.Describe(a.New(nil, secrets.Source{}).Type(), a.New(nil, secrets.Source{}))
		if err := kind.Validate(); err != nil || len(kind.Fields) == 0 {
			t.Errorf("%d fields: %v", len(kind.Fields), err)
		}
		_, err := a.read(client(t, ""), "db.example.com:4711", `,"nonsense":1`)
		for _, f := range kind.Fields {
			if !strings.Contains(fmt.Sprint(err), " "+f.Name) {
				t.Errorf("the type does not know the field %s of its form: %v", f.Name, err)
			}
		}
	})
}

// value is the secret S.
const value = "hunter2"

// read reads an endpoint that was added.
func (a Added) read(network *fetch.Client, address, more string) (sink.Endpoint, error) {
	source := secrets.Source{Lookup: func(name string) (string, bool) {
		switch name {
		case secrets.ServiceEnvPrefix + "S":
			return value, true
		case secrets.ServiceBindingEnvPrefix + "S":
			host, _, _ := strings.Cut(address, ":")
			switch {
			case host == "unbound.example":
				return "", false
			case host == "other.example":
				host = "another.example"
			}
			return "hosts=" + host, true
		}
		return "", false
	}}
	var reached sink.Network
	if network != nil {
		reached = network
	}
	of := a.New(reached, source)
	return sink.Types{of}.ReadAdded(fmt.Appendf(nil, `{"name":"added","type":%q,%q:[%q]%s%s}`, of.Type(), a.List, address, a.Fields, more), 1)
}

func (a Added) open(t *testing.T, network *fetch.Client, address, more string) delivery.Sink {
	t.Helper()
	e, err := a.read(network, address, more)
	if err != nil {
		t.Fatal(err)
	}
	at, ok := e.Config.(sink.Place)
	if !ok || len(at.Hosts()) != 1 || at.Hosts()[0] != address || len(at.Uses()) == 0 || at.Uses()[0].Name != "S" {
		t.Errorf("it is at %v", at)
	}
	to, err := e.Config.Open()
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// client returns a client that resolves names to this machine, and may reach networks.
func client(t *testing.T, allowed string) *fetch.Client {
	t.Helper()
	networks, err := fetch.ParseNetworks(allowed)
	if err != nil {
		t.Fatal(err)
	}
	c := fetch.New(fetch.Options{Networks: networks, Resolver: dnstest.Resolver(func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })})
	t.Cleanup(c.Close)
	return c
}
