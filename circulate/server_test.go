package circulate_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestFrozenServerHoldsNobodyUpAndNothingIsDoubled(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t)
	server := redistest.Connect(t, process)
	ring := openRing(t, server, 1)
	register(t, ring, "a", "b", "c")
	held, err := ring.Claim(t.Context(), 0, alice, 1, 0)
	if err != nil || len(held.Claims) != 1 {
		t.Fatal(held, err)
	}
	found := circulate.Return{Claim: &held.Claims[0], Messages: []circulate.Message{{ID: "once"}}, Cursor: []byte("1")}
	giveBack := func(ctx context.Context) error { _, err := ring.Return(ctx, 0, []circulate.Return{found}); return err }
	calls := map[string]func(ctx context.Context) error{
		"return": giveBack,
		"register": func(ctx context.Context) error {
			_, err := ring.Register(ctx, 0, []circulate.Registration{{ID: "d", Record: []byte("{}")}})
			return err
		},
		"claim": func(ctx context.Context) error { _, err := ring.Claim(ctx, 0, bob, 10, 0); return err },
	}
	// One idle connection for each, of the kind that it uses: what they send waits in
	// Redis' own buffers.
	var conns []redis.Conn
	for name := range calls {
		lend := server.VitalConn
		if name == "register" {
			lend = server.Conn
		}
		conn, err := lend(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}

	if err := process.Freeze(); err != nil {
		t.Fatal(err)
	}
	for name, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		began := time.Now()
		err := call(ctx)
		if took := time.Since(began); took > time.Second || !circulate.Unknown(err) || !circulate.Unavailable(err) {
			t.Errorf("%s: took %v, unknown %v, unavailable %v: %v", name, took, circulate.Unknown(err), circulate.Unavailable(err), err)
		}
		cancel()
	}
	// Now there is no connection left, and a new one gets no answer either.
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := giveBack(ctx); time.Since(began) > time.Second || circulate.Unknown(err) || !circulate.Unavailable(err) {
		t.Errorf("without a connection: took %v, unknown %v: %v", time.Since(began), circulate.Unknown(err), err)
	}
	if err := process.Thaw(); err != nil {
		t.Fatal(err)
	}

	for name, call := range calls {
		until(t, name, call)
	}
	expectLaw(t, server, ring, 4)
	requeueAll(t, ring)
	b, err := ring.Claim(t.Context(), 0, alice, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]int)
	for i := range b.Claims {
		ids[b.Claims[i].ID]++
	}
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(sortedKeys(ids), want) || len(b.Claims) != 4 {
		t.Errorf("claimed %v, want each of %q once", ids, want)
	}
	stream, err := ring.Streams().Messages(t.Context(), 0, circulate.StreamStart, 10)
	if err != nil || len(stream) != 1 {
		t.Errorf("the message is in the stream %d times, %v", len(stream), err)
	}
	expectLaw(t, server, ring, 4)
}

// TestRestartedServerForgetsScriptsAndNothingElse has each step be the first after a
// restart of Redis.
func TestRestartedServerForgetsScriptsAndNothingElse(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t, redistest.WithAOF())
	server := redistest.Connect(t, process)
	ring := openRing(t, server, 1)
	cycle(t, server, ring)
	register(t, ring, "stays")
	if n := scriptsKnown(t, process); n == 0 {
		t.Fatal("no scripts before the restart")
	}
	process.Kill()
	process.Restart(t)
	if n := scriptsKnown(t, process); n != 0 {
		t.Fatalf("%d scripts after the restart", n)
	}
	// The first call finds out that the old connections are gone.
	until(t, "check", ring.Check)
	expectLaw(t, server, ring, 1)
	if n, err := ring.Deregister(t.Context(), 0, []string{"stays"}); n != 1 || err != nil {
		t.Fatalf("deregistered %d, %v", n, err)
	}
	cycle(t, server, ring)
	if n := scriptsKnown(t, process); n == 0 {
		t.Error("the scripts are not kept: every step would be sent whole")
	}
}

func scriptsKnown(t *testing.T, process *redistest.Server) int {
	t.Helper()
	conn, err := process.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	info, err := redis.String(conn.Do("INFO", "memory"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(info, "number_of_cached_scripts:")
	var n int
	if _, err := fmt.Sscanf(rest, "%d", &n); !ok || err != nil {
		t.Fatalf("INFO memory tells no number of scripts: %v", err)
	}
	return n
}

func TestRingOverTLS(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t, redistest.WithTLS())
	server := redistest.Connect(t, process)
	cycle(t, server, openRing(t, server, 4))

	open := func(rawURL string, o connect.Options) error {
		t.Helper()
		o.ConnectTimeout = 2 * time.Second
		server, err := connect.Open(rawURL, o)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		_, err = circulate.Open(t.Context(), server, circulate.Options{Shards: 4})
		return err
	}
	if err := open(process.URL(), connect.Options{}); err == nil || !strings.Contains(err.Error(), "certificate") || circulate.Unknown(err) {
		t.Errorf("whom nobody trusts was trusted: %v", err)
	}
	named := strings.Replace(process.URL(), "127.0.0.1", "localhost", 1)
	if err := open(named, connect.Options{CAFile: process.CAFile()}); err != nil {
		t.Errorf("by its other name: %v", err)
	}
	other := redistest.Start(t, redistest.WithTLS())
	if err := open(process.URL(), connect.Options{CAFile: other.CAFile()}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("another authority was enough: %v", err)
	}
	plain := "redis://" + process.Addr()
	if err := open(plain, connect.Options{}); err == nil || !circulate.Unavailable(err) {
		t.Errorf("without TLS: %v", err)
	}
}

// TestUserWithRightsForTheNamespaceAlone needs no rights beyond its own keys.
func TestUserWithRightsForTheNamespaceAlone(t *testing.T) {
	t.Parallel()
	const password = "p@ss:w/rd?#%41 客"
	process := redistest.Start(t)
	conn, err := process.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, args := range [][]any{
		{"SETUSER", "poller", "on", ">" + password, "resetkeys", "~{rounds:*", "~rounds:*", "resetchannels", "&rounds:wake",
			"-@all", "+@read", "+@write", "+@connection", "+@transaction", "+@scripting", "+@pubsub", "+time", "+xinfo|groups", "-@dangerous", "+client|setname", "+config|get", "+info"},
		{"SETUSER", "default", "off"},
	} {
		if _, err := conn.Do("ACL", args...); err != nil {
			t.Fatal(err)
		}
	}
	withUser := func(user *url.Userinfo) *connect.Single {
		t.Helper()
		u := url.URL{Scheme: "redis", User: user, Host: process.Addr()}
		server, err := connect.OpenSingle(u.String(), connect.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Close() })
		return server
	}
	server := withUser(url.UserPassword("poller", password))
	cycle(t, server, openRing(t, server, 2))
	if strings.Contains(server.Name(), "ss") || server.Name() != process.Addr() {
		t.Errorf("name %q", server.Name())
	}

	if _, err := circulate.Open(t.Context(), server, circulate.Options{Namespace: "other"}); err == nil || !strings.Contains(err.Error(), "NOPERM") || !circulate.Denied(err) || circulate.LockedOut(err) {
		t.Errorf("in another namespace: %v", err)
	}
	for name, test := range map[string]struct {
		user *url.Userinfo
		want string
	}{
		"wrong password": {url.UserPassword("poller", "hunter2hunter2"), "WRONGPASS"},
		"unknown user":   {url.UserPassword("nobody", "hunter2hunter2"), "WRONGPASS"},
		"default user":   {url.UserPassword("", "hunter2hunter2"), "AUTH"},
		"no password":    {nil, "NOAUTH"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := circulate.Open(t.Context(), withUser(test.user), circulate.Options{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %s", err, test.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error holds the password: %v", err)
			}
			if !circulate.LockedOut(err) {
				t.Errorf("not locked out: %v", err)
			}
			// Waiting would not help: the user must learn it at once.
			if circulate.Unavailable(err) || circulate.Unknown(err) {
				t.Errorf("unavailable %v, unknown %v: %v", circulate.Unavailable(err), circulate.Unknown(err), err)
			}
		})
	}
}
