package connect_test

import (
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestDurability(t *testing.T) {
	t.Parallel()
	expect := func(server connect.Server, want ...string) {
		t.Helper()
		got := connect.Durability(t.Context(), server)
		if len(got) != len(want) {
			t.Fatalf("%s: %q, want %q", server.Name(), got, want)
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%s: %q, want %q", server.Name(), got[i], want[i])
			}
		}
	}
	expect(redistest.Embedded(t))
	expect(redistest.Connect(t, redistest.Start(t, redistest.WithAOF())))
	expect(redistest.Connect(t, redistest.Start(t)), "appendonly is no")
	expect(redistest.Connect(t, redistest.Start(t, redistest.WithAOF(), redistest.WithArgs("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"))), "maxmemory-policy is allkeys-lru")
	expect(redistest.Connect(t, redistest.Start(t, redistest.WithArgs("--rename-command", "CONFIG", ""))))
	expect(redistest.StartSentinels(t, redistest.WithAOF()).Connect(t), "min-replicas-to-write is 0")
	expect(redistest.StartCluster(t, 0).Connect(t), "appendonly is no", "appendonly is no", "appendonly is no")
	away := redistest.Start(t)
	server := redistest.Connect(t, away)
	away.Kill()
	expect(server)
}
