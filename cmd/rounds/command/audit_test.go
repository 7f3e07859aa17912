package command

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// lose removes an account from its place in Redis without the ring's scripts.
func (s *apiServer) lose(server redistest.Redis, id string) {
	s.t.Helper()
	conn, err := server.Conn(s.t.Context(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Do("ZREM", fmt.Sprintf("{rounds:%d}:schedule", s.ring.ShardOf(id)), id); err != nil || n != int64(1) {
		s.t.Fatal(n, err)
	}
}

func TestAudit(t *testing.T) {
	s := startAPI(t)
	for _, id := range []string{"a", "b/c", "d", "e"} {
		s.must("account", "add", id, "--kind", "feed", "--set", "url=u")
	}
	if got := s.must("audit"); got != "4 accounts in 4 shards: nothing found, every account is in one place\n" {
		t.Errorf("a healthy ring: %q", got)
	}
	s.lose(s.redis, "b/c")
	got, err := s.rounds("audit")
	if err == nil || !strings.Contains(err.Error(), "does not hold") || !strings.HasPrefix(got.out, "FINDING  SHARD  REPAIRED  ID\n") ||
		!strings.Contains(got.out, fmt.Sprintf("lost     %d      no        b/c\n", s.ring.ShardOf("b/c"))) ||
		!strings.HasSuffix(got.out, "4 accounts in 4 shards: 1 lost\n") {
		t.Errorf("a lost one: %v\n%s", err, got.out)
	}
	var a api.Audit
	if got, err := s.rounds("audit", "--json"); err == nil || json.Unmarshal([]byte(got.out), &a) != nil ||
		!reflect.DeepEqual(a.Kinds, []api.FindingCount{{Kind: circulate.Lost, Found: 1}}) || len(a.Findings) != 1 || a.Accounts != 4 {
		t.Errorf("as JSON: %v\n%s", err, got.out)
	}
	if got := s.must("audit", "--repair"); !strings.HasSuffix(got, "4 accounts in 4 shards: 1 lost (1 repaired)\n") {
		t.Errorf("repaired:\n%s", got)
	}
	if got := s.must("audit"); strings.Contains(got, "lost") {
		t.Errorf("after the repair:\n%s", got)
	}
}

// An audit shows its progress at a terminal, and nowhere else.
func TestAuditShowsProgressOnATerminal(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=u")
	var out, errs strings.Builder
	env := testEnvironment(map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken})
	env.stdin, env.stdout, env.stderr = strings.NewReader(""), &out, &errs
	env.isTerminal = func(stream any) bool { return reflect.DeepEqual(stream, &errs) }
	if err := run(t.Context(), []string{"audit"}, env); err != nil {
		t.Fatal(err)
	}
	if got := errs.String(); got != "\r\x1b[K1 accounts audited\r\x1b[K" {
		t.Errorf("got %q", got)
	}
}
