//go:build !race

package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/census"
	"github.com/rounds-dev/rounds/testing/simulate/replicas"
)

// spoiled is a world at rest in which one account is spoiled.
type spoiled struct {
	*simulation
	*testing.T
	victim *census.Account
}

func (s *spoiled) do(name string, args ...any) any {
	s.Helper()
	reply, err := s.world.Do(name, args...)
	if err != nil {
		s.Fatalf("%s %v: %v", name, args, err)
	}
	return reply
}

func (s *spoiled) key(name string) string { return s.victim.Tag + ":" + name }

func (s *spoiled) entry(age time.Duration, replica string) string {
	return circulate.Entry{Ticket: s.victim.Ticket, Stamp: s.world.Now().Add(-age), Replica: replica, ID: s.victim.ID}.String()
}

func (s *spoiled) ticket() string {
	text, err := redis.String(s.do("HGET", s.key("tickets"), s.victim.ID), nil)
	if err != nil {
		s.Fatal(err)
	}
	return text
}

// An oracle that sees nothing proves nothing. It must find whatever is spoiled behind the
// ring's back, and must find nothing where nothing is.
func TestTheOracleSees(t *testing.T) {
	stream := func(s *spoiled) []any {
		last, err := redis.Values(s.do("XREVRANGE", s.key("messages"), "+", "-", "COUNT", 1), nil)
		if err != nil || len(last) != 1 {
			s.Fatalf("no message: %v", err)
		}
		one, _ := redis.Values(last[0], nil)
		return one
	}
	for _, tt := range []struct {
		name  string
		sees  string
		spoil func(s *spoiled)
	}{
		{"nothing", "", func(*spoiled) {}},
		{"an account lost", "I1", func(s *spoiled) { s.do("ZREM", s.key("schedule"), s.victim.ID) }},
		{"an account doubled", "I1", func(s *spoiled) { s.do("LPUSH", s.key("message_queue"), s.entry(0, "")) }},
		{"an account in two lanes", "I1", func(s *spoiled) {
			s.do("ZREM", s.key("schedule"), s.victim.ID)
			s.do("LPUSH", s.key("message_queue:low"), s.entry(0, ""))
			s.do("LPUSH", s.key("message_queue:urgent"), s.entry(0, ""))
		}},
		{"parked without a reason", "I1", func(s *spoiled) {
			s.do("ZREM", s.key("schedule"), s.victim.ID)
			s.do("ZADD", s.key("parked"), 1, s.victim.ID)
		}},
		{"held for too long", "I2", func(s *spoiled) {
			s.do("ZREM", s.key("schedule"), s.victim.ID)
			s.do("LPUSH", s.key("processing_list"), s.entry(time.Minute, "nobodyelse"))
		}},
		{"waiting for too long", "I6", func(s *spoiled) {
			s.do("ZREM", s.key("schedule"), s.victim.ID)
			s.do("LPUSH", s.key("message_queue"), s.entry(time.Minute, ""))
		}},
		{"due much too late", "I6", func(s *spoiled) {
			s.do("ZADD", s.key("schedule"), s.world.Now().Add(2*time.Hour).UnixMilli(), s.victim.ID)
		}},
		{"a message twice", "I4", func(s *spoiled) {
			fields, _ := redis.Values(stream(s)[1], nil)
			s.do("XADD", append([]any{s.key("messages"), "*"}, fields...)...)
		}},
		{"a message lost", "I4", func(s *spoiled) { s.do("XDEL", s.key("messages"), stream(s)[0]) }},
		{"a cursor forgotten", "I4", func(s *spoiled) {
			s.do("HSET", s.key("tickets"), s.victim.ID, s.ticket()[:32])
			time.Sleep(10 * time.Minute)
		}},
		{"a cursor ahead", "I4", func(s *spoiled) {
			s.do("HSET", s.key("tickets"), s.victim.ID, s.ticket()+"0")
		}},
		{"a registration lost", "I5", func(s *spoiled) {
			s.do("ZREM", s.key("schedule"), s.victim.ID)
			s.do("HDEL", s.key("tickets"), s.victim.ID)
			s.do("HDEL", s.key("accounts"), s.victim.ID)
		}},
		{"a change lost", "I5", func(s *spoiled) {
			s.do("HSET", s.key("accounts"), s.victim.ID, strings.Replace(s.victim.Record, `"life":`, `"life":9`, 1))
		}},
		{"a registration that nobody made", "I5", func(s *spoiled) {
			s.do("HSET", s.key("tickets"), "stranger", s.ticket()[:32])
			s.do("HSET", s.key("accounts"), "stranger", s.victim.Record)
			s.do("ZADD", s.key("schedule"), s.world.Now().Add(time.Minute).UnixMilli(), "stranger")
		}},
		{"something left over", "I6", func(s *spoiled) { s.do("HSET", s.key("strikes"), "stranger", 1) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spoil(t, tt.sees, tt.spoil)
		})
	}
}

func spoil(t *testing.T, sees string, how func(s *spoiled)) {
	t.Helper()
	result := newSummary()
	p := plan{seed: 1, replicas: 1, monitors: 1, shards: 1, accounts: 4}
	replicas.Run(t, replicas.Options{Seed: 1, Shards: 1}, func(w *replicas.World) {
		s := &simulation{plan: p, world: w, summary: result, random: rand.New(rand.NewPCG(1, 1)), up: newUpstream(1)}
		defer s.end()
		s.begin()
		time.Sleep(7 * time.Minute)
		victim := s.someoneScheduled()
		if result.expectNone(t); victim == nil {
			t.Fatal("nobody is scheduled")
		}
		how(&spoiled{simulation: s, T: t, victim: victim})
		s.judge()
	})
	if sees == "" {
		result.expectNone(t)
		return
	}
	if !strings.Contains(strings.Join(result.violations, "\n"), sees) {
		t.Errorf("it sees %q, want %s", result.violations, sees)
	}
}

// someoneScheduled returns an account that has found something and is not due soon.
func (s *simulation) someoneScheduled() *census.Account {
	for range 100 {
		c, err := s.world.Census()
		if err != nil {
			s.violated("%v", err)
			return nil
		}
		for _, a := range c.Accounts {
			if a.Cursor != "" && a.Due.After(c.Now.Add(4*time.Second)) {
				return a
			}
		}
		time.Sleep(time.Second)
	}
	return nil
}

// What the registrar believes follows from the answers that it got, and from nothing
// else.
func TestBelief(t *testing.T) {
	unknown := belief{{}}.perhaps(created("r1"))
	if got := fmt.Sprint(unknown); !unknown.mayBe(state{}) || !unknown.mayBe(state{there: true, record: "r1"}) || len(unknown) != 2 {
		t.Errorf("after a registration of unknown outcome: %s", got)
	}
	for _, tt := range []struct {
		name string
		got  belief
		want belief
	}{
		{"it exists: so it was done", unknown.all(present), belief{{there: true, record: "r1"}}},
		{"not found: so it was not", unknown.all(absent), belief{{}}},
		{"created again: so it was not", unknown.all(created("r2")), belief{{there: true, record: "r2"}}},
		{"paused", unknown.all(paused), belief{{true, true, "r1"}}},
		{"a change of what is paused leaves it so", belief{{true, true, "r1"}}.all(put("r2")), belief{{true, true, "r2"}}},
		{"a deletion that cannot have been", belief{{}}.all(deleted), nil},
	} {
		if fmt.Sprint(tt.got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}
