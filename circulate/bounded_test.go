package circulate_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// calls returns how often a server has done a command, including those in scripts.
func calls(t *testing.T, server circulate.Server, command string) int {
	t.Helper()
	conn, err := server.Conn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stats, err := redis.String(conn.Do("INFO", "commandstats"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(stats)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1])
	return n
}

// Each LREM of an entry that is not there walks through the whole list.
func TestLostClaimsDoNotEachWalkThroughTheList(t *testing.T) {
	t.Parallel()
	server := redistest.Connect(t, redistest.Start(t))
	ring := openRing(t, server, 1)
	var ids []string
	for i := range 2000 {
		ids = append(ids, fmt.Sprintf("%04d", i))
	}
	register(t, ring, ids...)
	lost := make([]*circulate.Claim, 0, 100)
	b, err := ring.Claim(t.Context(), 0, alice, 100, 0)
	if err != nil || len(b.Claims) != 100 {
		t.Fatal(len(b.Claims), err)
	}
	for i := range b.Claims {
		lost = append(lost, &b.Claims[i])
	}
	requeueAll(t, ring)
	for range 19 {
		if _, err := ring.Claim(t.Context(), 0, bob, 100, 0); err != nil {
			t.Fatal(err)
		}
	}
	items := make([]circulate.Return, len(lost))
	for i, c := range lost {
		items[i].Claim = c
	}
	before := calls(t, server, "lrem")
	if _, err := ring.Return(t.Context(), 0, items); err != nil {
		t.Fatal(err)
	}
	if _, err := ring.Release(t.Context(), 0, lost); err != nil {
		t.Fatal(err)
	}
	if n := calls(t, server, "lrem") - before; n > 8 {
		t.Errorf("%d walks through the list for 200 claims that were lost", n)
	}
}

func TestManyMessagesAreTrimmedInSteps(t *testing.T) {
	t.Parallel()
	server := redistest.Connect(t, redistest.Start(t))
	ring := openRing(t, server, 1)
	conn, err := server.Conn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const many = 35_050
	fill := redis.NewScript(1, `for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], i .. '-0', 'id', i) end`)
	if _, err := fill.Do(conn, "{rounds:0}:messages", many); err != nil {
		t.Fatal(err)
	}
	if n, held, err := ring.Streams().Trim(t.Context(), 0, time.Now()); n != many || held || err != nil {
		t.Errorf("dropped %d, held back %v, %v", n, held, err)
	}
	if n := calls(t, server, "xtrim"); n < many/10_000 {
		t.Errorf("%d messages dropped in %d steps", many, n)
	}
}
