package group_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A Redis that restarts from its AOF reports how far a group has read, and too small a
// number of messages that it has read.
func TestLagAfterARestart(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t, redistest.WithAOF())
	server := redistest.Connect(t, process)
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	do := func(args ...any) any {
		t.Helper()
		conn, err := server.Conn(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		reply, err := conn.Do(args[0].(string), args[1:]...)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	stream := ring.Tag(0) + ":messages"
	restart := func() {
		t.Helper()
		process.Kill()
		process.Restart(t)
		for range 100 { // connections of before are in the pool
			if ring.Check(t.Context()) == nil {
				return
			}
		}
		t.Fatal("Redis does not come back")
	}
	sent := 0
	send := func(n int) {
		for range n {
			sent++
			do("XADD", stream, "*", "account", "a", "kind", "k", "id", sent, "type", "t", "time", "", "data", "{}")
		}
	}
	const name = "crm"
	if _, err := ring.Streams().EnsureGroup(t.Context(), 0, name, circulate.StreamStart); err != nil {
		t.Fatal(err)
	}
	groups := group.Of(ring)
	read := func(n int) {
		t.Helper()
		lease, _, err := groups.Member(name, "reader0001", time.Minute).Lease(t.Context(), 0)
		if err != nil || lease == nil {
			t.Fatal(lease, err)
		}
		batch, err := groups.Read(t.Context(), lease, n, 1<<20, false)
		if err != nil || len(batch.Messages) != n {
			t.Fatalf("read %d, %v; want %d", len(batch.Messages), err, n)
		}
	}
	check := func(want int) {
		t.Helper()
		one, err := ring.Streams().GroupState(t.Context(), 0, name)
		survey, surveyErr := groups.Survey(t.Context(), 0, name)
		all, allErr := groups.States(t.Context(), nil)
		if err := errors.Join(err, surveyErr, allErr); err != nil {
			t.Fatal(err)
		}
		if got := []int{one.Lag, survey.Lag, all[0][name].Lag}; fmt.Sprint(got) != fmt.Sprint([]int{want, want, want}) {
			t.Errorf("%d messages wait by state, survey and states, want %d", got, want)
		}
	}
	send(40)
	read(30)
	restart()
	check(10)
	send(5)
	check(15)

	// The survey has set Redis' own count right, so more than can be counted are exact too.
	send(400)
	check(415)
	read(415)
	check(0)

	// Where nobody looked after the restart, there are as many as Redis says at most.
	send(300)
	restart()
	infos, err := redis.Values(do("XINFO", "GROUPS", stream), nil)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := redis.Values(infos[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	var redisLag int
	for i := 0; i < len(fields); i += 2 {
		if string(fields[i].([]byte)) == "lag" {
			redisLag, _ = redis.Int(fields[i+1], nil)
		}
	}
	if redisLag == 0 {
		redisLag = sent // a Redis that does not count
	}
	check(min(redisLag, sent))
}
