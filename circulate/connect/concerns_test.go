package connect_test

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestConcerns(t *testing.T) {
	t.Parallel()
	expect := func(server connect.Server, want ...string) {
		t.Helper()
		got, err := connect.Concerns(t.Context(), server)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %q, %v, want %q", server.Name(), got, err, want)
		}
		for i := range want {
			if !strings.Contains(string(got[i].Code)+": "+got[i].Text, want[i]) {
				t.Errorf("%s: %q, want %q", server.Name(), got[i], want[i])
			}
		}
	}
	expect(redistest.Embedded(t))
	expect(redistest.Connect(t, redistest.Start(t, redistest.WithAOF())))
	expect(redistest.Connect(t, redistest.Start(t)), "appendonly is no, and no snapshots are made")
	expect(redistest.Connect(t, redistest.Start(t, redistest.WithArgs("--save", "3600", "1"))), "since the last snapshot")
	expect(redistest.Connect(t, redistest.Start(t, redistest.WithArgs("--appendonly", "yes", "--appendfsync", "no"))), "no_fsync: redis")
	expect(redistest.Connect(t, redistest.Start(t, redistest.WithAOF(), redistest.WithArgs("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"))), "maxmemory-policy is allkeys-lru")
	expect(redistest.Connect(t, redistest.Start(t, redistest.WithArgs("--rename-command", "CONFIG", ""))), "since the last snapshot")
	expect(redistest.Connect(t, redistest.Start(t, redistest.WithAOF(), redistest.WithArgs("--rename-command", "CONFIG", "", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"))), "maxmemory-policy is allkeys-lru")
	expect(redistest.StartSentinels(t, redistest.WithAOF()).Connect(t), "min-replicas-to-write is 0")
	expect(redistest.StartCluster(t, 0).Connect(t), "appendonly is no", "appendonly is no", "appendonly is no")
	expect(redistest.Connect(t, redistest.Start(t, redistest.WithAOF(), redistest.WithArgs("--maxmemory", "850kb"))), "memory: redis")
	away := redistest.Start(t)
	server := redistest.Connect(t, away)
	away.Kill()
	if got, err := connect.Concerns(t.Context(), server); err == nil || len(got) > 0 {
		t.Errorf("a server that is away: %q, %v", got, err)
	}
}

// A survey has, for each server, the settings that decide how safe its data is, and names
// servers that are away.
func TestSurvey(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t, redistest.WithAOF(), redistest.WithArgs("--maxmemory", "100mb"))
	server := redistest.Connect(t, process)
	nodes, err := connect.Survey(t.Context(), server)
	if err != nil || len(nodes) != 1 {
		t.Fatalf("%+v, %v", nodes, err)
	}
	n := nodes[0]
	if n.Software == "" || n.Fsync != "always" || len(n.Concerns) > 0 || len(n.Remarks) > 0 {
		t.Errorf("%+v", n)
	}
	if n.Name != server.Name() || n.Away || n.Version == "" || n.Used <= 0 || n.Limit != 100<<20 || n.Policy != "noeviction" ||
		n.AppendOnly != "yes" || n.AppendStatus != "ok" || n.Replicas != 0 || n.Guarded || n.Up < 0 {
		t.Errorf("%+v", n)
	}
	process.Kill()
	if nodes, err = connect.Survey(t.Context(), server); err == nil || len(nodes) != 1 || !nodes[0].Away || nodes[0].Name != server.Name() {
		t.Errorf("away: %+v, %v", nodes, err)
	}
	if nodes, err = connect.Survey(t.Context(), redistest.Embedded(t)); err != nil || len(nodes) != 1 || nodes[0].Away || nodes[0].Version != "" {
		t.Errorf("embedded: %+v, %v", nodes, err)
	}
}

// A user that lacks the permission to ask is reported, because silence does not mean that
// all is well.
func TestConcernsMayNotBeAsked(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t, redistest.WithAOF())
	server := redistest.Connect(t, process)
	conn, err := server.Conn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Do("ACL", "SETUSER", "default", "-config", "-info"); err != nil {
		t.Fatal(err)
	}
	got, err := connect.Concerns(t.Context(), server)
	if err != nil || len(got) != 1 || got[0].Code != connect.ConcernUnasked || !strings.Contains(got[0].Text, "INFO may not be asked") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := conn.Do("ACL", "SETUSER", "default", "+info"); err != nil {
		t.Fatal(err)
	}
	nodes, err := connect.Survey(t.Context(), server)
	if err != nil || len(nodes[0].Concerns) > 0 || len(nodes[0].Remarks) != 1 || nodes[0].Remarks[0].Code != connect.RemarkSettings || nodes[0].AppendOnly != "yes" {
		t.Errorf("without CONFIG: %+v, %v", nodes, err)
	}
	// A user that may ask for settings may ask for passwords.
	if _, err := conn.Do("ACL", "SETUSER", "default", "+config"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Do("CONFIG", "SET", "masterauth", "correct-horse"); err != nil {
		t.Fatal(err)
	}
	nodes, err = connect.Survey(t.Context(), server)
	if err != nil || len(nodes[0].Remarks) != 1 || nodes[0].Remarks[0].Code != connect.RemarkPasswords || nodes[0].Remarks[0].Value != "masterauth" || strings.Contains(nodes[0].Remarks[0].Text, "horse") {
		t.Errorf("with a password among the settings: %+v, %v", nodes, err)
	}
}

// An allowed setting is no concern, but is reported all the same.
func TestRemarks(t *testing.T) {
	t.Parallel()
	server := redistest.Connect(t, redistest.Start(t, redistest.WithArgs("--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "allkeys-lfu")))
	nodes, err := connect.Survey(t.Context(), server)
	if err != nil || len(nodes) != 1 || len(nodes[0].Concerns) > 0 || len(nodes[0].Remarks) != 2 {
		t.Fatalf("%+v, %v", nodes, err)
	}
	for i, want := range []string{"everysec: redis " + server.Name() + ": appendfsync is everysec", "may_evict: redis " + server.Name() + ": maxmemory-policy is allkeys-lfu"} {
		if r := nodes[0].Remarks[i]; !strings.HasPrefix(string(r.Code)+": "+r.Text, want) {
			t.Errorf("%q, want %q", r, want)
		}
	}
}

// A server that loads its append-only file says that it has none. That is no verdict on its settings.
func TestAServerThatLoadsIsNotJudged(t *testing.T) {
	t.Parallel()
	for loading, want := range map[string]int{"0": 1, "1": 0} {
		s := claiming(t, "", map[string]handler{
			"INFO":   says("# Persistence\r\nloading:" + loading + "\r\naof_enabled:0\r\naof_last_write_status:ok\r\n"),
			"CONFIG": func(c *server.Peer, args []string) { c.WriteStrings([]string{args[1], ""}) },
		})
		got, err := connect.Concerns(t.Context(), s)
		if err != nil || len(got) != want || want > 0 && got[0].Code != connect.ConcernAppendOnly {
			t.Errorf("loading %s: %+v, %v", loading, got, err)
		}
	}
}

// A server whose last snapshot failed refuses writes, unless its settings say otherwise.
func TestFailedSnapshot(t *testing.T) {
	t.Parallel()
	info := says("# Persistence\r\naof_enabled:1\r\nrdb_last_bgsave_status:err\r\naof_last_write_status:ok\r\n")
	for stops, want := range map[string]int{"yes": 1, "no": 0, "": 1} {
		settings := map[string]string{"appendonly": "yes", "appendfsync": "always", "save": "60 1", "stop-writes-on-bgsave-error": stops}
		s := claiming(t, "", map[string]handler{"INFO": info, "CONFIG": func(c *server.Peer, args []string) {
			if stops == "" {
				c.WriteError("NOPERM this user has no permissions to run the 'config|get' command")
				return
			}
			c.WriteStrings([]string{args[1], settings[args[1]]})
		}})
		got, err := connect.Concerns(t.Context(), s)
		if err != nil || len(got) != want || want > 0 && got[0].Code != connect.ConcernSnapshot {
			t.Errorf("%s: %+v, %v", stops, got, err)
		}
	}
}
