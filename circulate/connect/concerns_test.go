package connect_test

import (
	"strings"
	"testing"

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
	expect(redistest.Connect(t, redistest.Start(t)), "appendonly is no")
	expect(redistest.Connect(t, redistest.Start(t, redistest.WithAOF(), redistest.WithArgs("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"))), "maxmemory-policy is allkeys-lru")
	expect(redistest.Connect(t, redistest.Start(t, redistest.WithArgs("--rename-command", "CONFIG", ""))), "unasked: redis")
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

// A survey tells of each server what matters for whether it keeps data, and names those that
// are away.
func TestSurvey(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t, redistest.WithAOF(), redistest.WithArgs("--maxmemory", "100mb"))
	server := redistest.Connect(t, process)
	nodes, err := connect.Survey(t.Context(), server)
	if err != nil || len(nodes) != 1 {
		t.Fatalf("%+v, %v", nodes, err)
	}
	n := nodes[0]
	if n.Name != server.Name() || n.Away || n.Version == "" || n.Used <= 0 || n.Limit != 100<<20 || n.Policy != "noeviction" ||
		n.AppendOnly != "yes" || n.AppendStatus != "ok" || n.Replicas != 0 || n.MinReplicas != "" || n.Up < 0 {
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
	if err != nil || len(got) != 1 || got[0].Code != connect.ConcernUnasked || !strings.Contains(got[0].Text, "CONFIG and INFO may not be asked") {
		t.Errorf("%q, %v", got, err)
	}
}
