package connect_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// claiming returns a server whose INFO is a text.
func claiming(t *testing.T, info string, others map[string]handler) *connect.Single {
	t.Helper()
	handlers := map[string]handler{"INFO": says(strings.ReplaceAll(info, "\n", "\r\n"))}
	for name, handle := range others {
		handlers[name] = handle
	}
	s, err := connect.OpenSingle("redis://"+startFake(t, handlers).address(), connect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// INFO decides whether the ring can work on a server. Missing fields of INFO decide
// nothing.
func TestFitByWhatAServerSays(t *testing.T) {
	t.Parallel()
	size := func(n int) map[string]handler {
		return map[string]handler{"CLUSTER": func(c *server.Peer, _ []string) {
			c.Block(func(w *server.Writer) {
				w.WriteLen(n)
				for i := range n {
					w.WriteLen(3)
					w.WriteInt(16384 * i / n)
					w.WriteInt(16384*(i+1)/n - 1)
					w.WriteLen(2)
					w.WriteBulk("127.0.0.1")
					w.WriteInt(7000 + i)
				}
			})
		}}
	}
	for name, test := range map[string]struct {
		info   string
		others map[string]handler
		want   string // in the error; empty: it is fit
	}{
		"oldest":                {"# Server\nredis_version:6.2.0\nredis_mode:standalone\n# Replication\nrole:master", nil, ""},
		"newer":                 {"redis_version:10.0.1", nil, ""},
		"older":                 {"redis_version:6.0.16\nredis_mode:standalone", nil, "is Redis 6.0.16, and rounds needs Redis 6.2 or newer"},
		"much older":            {"redis_version:2.8.24", nil, "is Redis 2.8.24"},
		"Valkey":                {"redis_version:7.2.4\nserver_name:valkey\nvalkey_version:8.1.1", nil, ""},
		"Dragonfly":             {"redis_version:7.4.0\ndragonfly_version:df-v1.27.1", nil, ""},
		"an old likeness":       {"redis_version:6.0.2\nredict_version:9.9.9", nil, "is Redict 9.9.9"},
		"no version":            {"# Server\nuptime_in_seconds:3", nil, ""},
		"a strange version":     {"redis_version:unstable", nil, ""},
		"nothing":               {"", nil, ""},
		"a Sentinel":            {"redis_version:7.0.15\nredis_mode:sentinel", nil, "is a Sentinel"},
		"a replica":             {"redis_version:7.0.15\nrole:slave\nmaster_host:10.0.0.1\nmaster_port:6379", nil, "is a replica of 10.0.0.1:6379"},
		"one of a cluster":      {"redis_version:7.0.15\nredis_mode:cluster", size(3), "redis+cluster://"},
		"of Valkey":             {"redis_version:7.2.4\nserver_mode:cluster", size(2), "redis+cluster://"},
		"a cluster of one":      {"redis_version:7.0.15\nredis_mode:cluster", size(1), ""},
		"a cluster not told of": {"redis_version:7.0.15\nredis_mode:cluster", map[string]handler{"CLUSTER": refuses("NOPERM no")}, ""},
		"INFO refused":          {"", map[string]handler{"INFO": refuses("NOPERM this user has no permissions to run the 'info' command")}, ""},
		"INFO unknown":          {"", map[string]handler{"INFO": refuses("ERR unknown command 'INFO'")}, ""},
		"garbage":               {"", map[string]handler{"INFO": func(c *server.Peer, _ []string) { c.WriteInt(7) }}, ""},
	} {
		s := claiming(t, test.info, test.others)
		err := connect.Fit(t.Context(), s)
		var unfit *connect.Unfit
		switch {
		case test.want == "":
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case !errors.As(err, &unfit) || unfit.Node != s.Name() || !strings.HasPrefix(err.Error(), "redis "+s.Name()+" is ") || !strings.Contains(err.Error(), test.want):
			t.Errorf("%s: %v, want %q", name, err, test.want)
		case unfit.Passing != (name == "a replica"):
			t.Errorf("%s: passing %v", name, unfit.Passing)
		}
	}
}

// The real servers of the tests are fit, however they are reached. Servers that need
// another form of URL are not.
func TestFitOfServers(t *testing.T) {
	t.Parallel()
	fits := func(server connect.Server) {
		t.Helper()
		if err := connect.Fit(t.Context(), server); err != nil {
			t.Errorf("%s: %v", server.Name(), err)
		}
	}
	unfit := func(process *redistest.Server, want string) {
		t.Helper()
		if err := connect.Fit(t.Context(), redistest.Connect(t, process)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", process.Addr(), err, want)
		}
	}
	fits(redistest.Embedded(t))
	cluster := redistest.StartCluster(t, 1)
	fits(cluster.Connect(t))
	unfit(cluster.Masters[0], "redis+cluster://")
	sentinels := redistest.StartSentinels(t)
	fits(sentinels.Connect(t))
	fits(redistest.Connect(t, sentinels.Servers[0]))
	unfit(sentinels.Servers[1], "is a replica of "+sentinels.Servers[0].Addr())
	unfit(sentinels.Sentinels[0], "is a Sentinel")
	cluster.Masters[1].Kill()
	fits(cluster.Connect(t))

	away := redistest.Start(t)
	server := redistest.Connect(t, away)
	fits(server)
	away.Kill()
	for _, want := range []string{server.Name(), "cannot be reached"} { // with a connection from before, and a new one
		err := connect.Fit(t.Context(), server)
		if unfit := new(connect.Unfit); err == nil || errors.As(err, &unfit) || !strings.Contains(err.Error(), want) {
			t.Errorf("a server that is away: %v, want %q", err, want)
		}
	}
}
