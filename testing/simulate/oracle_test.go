package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/census"
	"github.com/rounds-dev/rounds/testing/simulate/replicas"
)

// spoiled is a world at rest in which one account is spoiled.
type spoiled struct {
	*simulation
	*testing.T
	victim *census.Account
	sent   *asked // of the victim, if the test is about sends
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

// messages are the newest of the victim's shard, newest first: the position and the fields of each.
func (s *spoiled) messages(n int) [][]any {
	s.Helper()
	last, err := redis.Values(s.do("XREVRANGE", s.key("messages"), "+", "-", "COUNT", n), nil)
	if err != nil || len(last) != n {
		s.Fatalf("%d messages: %v", len(last), err)
	}
	all := make([][]any, n)
	for i := range last {
		all[i], _ = redis.Values(last[i], nil)
	}
	return all
}

// moves takes the victim out of the schedule, to the head of a list.
func (s *spoiled) moves(list string, age time.Duration, replica string) {
	s.Helper()
	s.do("ZREM", s.key("schedule"), s.victim.ID)
	s.do("LPUSH", s.key(list), s.entry(age, replica))
}

// voids adds entries to a list that are void, because the victim has another ticket.
func (s *spoiled) voids(list string, n int) {
	for range n {
		s.do("LPUSH", s.key(list), circulate.Entry{Ticket: s.victim.Ticket + 1000, Stamp: s.world.Now(), Replica: "nobodyelse", ID: s.victim.ID}.String())
	}
}

// rerecord changes the victim's record.
func (s *spoiled) rerecord(old, new string) {
	s.Helper()
	if !strings.Contains(s.victim.Record, old) {
		s.Fatalf("%s has no %s", s.victim.Record, old)
	}
	s.do("HSET", s.key("accounts"), s.victim.ID, strings.Replace(s.victim.Record, old, new, 1))
}

// drops drops what the victim's stream has, after a while in which more came.
func (s *spoiled) drops(after time.Duration) {
	s.oracle.read()
	time.Sleep(after)
	s.oracle.read()
	s.do("XTRIM", s.key("messages"), "MINID", s.messages(1)[0][0])
}

func (s *spoiled) reads() { s.oracle.read() }

// lastChecked sets when all accounts were last checked.
func (s *spoiled) lastChecked(ago time.Duration) {
	s.up.set(func() {
		for id := range s.up.last {
			s.up.last[id] = time.Now().Add(-ago)
		}
	})
}

// An oracle that sees nothing proves nothing. It must find whatever is spoiled behind the
// ring's back, and must find nothing where nothing is. So must what else the simulation judges.
func TestTheOracleSees(t *testing.T) {
	for i, tt := range []struct {
		name  string
		sees  string
		spoil func(s *spoiled)
		by    func(s *spoiled) // nil: by the judgement of a world at rest
	}{
		{"nothing", "", func(*spoiled) {}, nil},
		{"an account lost", "I1: ", func(s *spoiled) { s.do("ZREM", s.key("schedule"), s.victim.ID) }, nil},
		{"an account doubled", "I1: ", func(s *spoiled) { s.do("LPUSH", s.key("message_queue"), s.entry(0, "")) }, nil},
		{"an account in two lanes", "I1: ", func(s *spoiled) {
			s.moves("message_queue:low", 0, "")
			s.moves("message_queue:urgent", 0, "")
		}, nil},
		{"an account in two lanes at a glance, as may be", "", func(s *spoiled) {
			s.moves("message_queue:low", 0, "")
			s.moves("message_queue:urgent", 0, "")
		}, (*spoiled).glances},
		{"an account lost at a glance", "is in no place", func(s *spoiled) { s.do("ZREM", s.key("schedule"), s.victim.ID) }, (*spoiled).glances},
		{"an account doubled at a glance", "I1: ", func(s *spoiled) { s.do("LPUSH", s.key("processing_list"), s.entry(0, "nobodyelse")) }, (*spoiled).glances},
		{"a message that nobody found, at a glance", "that nobody found", func(s *spoiled) { s.do("XADD", s.key("messages"), "*", "account", s.victim.ID, "id", "x") }, (*spoiled).glances},
		{"parked without a reason", "is parked without a reason", func(s *spoiled) {
			s.do("ZREM", s.key("schedule"), s.victim.ID)
			s.do("ZADD", s.key("parked"), 1, s.victim.ID)
		}, nil},
		{"something was set aside", "I1: 1 texts were set aside", func(s *spoiled) { s.do("LPUSH", s.key("set_aside"), "x") }, nil},

		{"held for too long", "has been held by nobodyelse for 6s", func(s *spoiled) { s.moves("processing_list", 6*time.Second, "nobodyelse") }, nil},
		{"held for a moment", "", func(s *spoiled) { s.moves("processing_list", 4*time.Second, "nobodyelse") }, nil},
		{"waiting for too long", "has been waiting for 6s", func(s *spoiled) { s.moves("message_queue", 6*time.Second, "") }, nil},
		{"waiting for a moment", "", func(s *spoiled) { s.moves("message_queue", 4*time.Second, "") }, nil},
		{"due for too long", "has been due for 6s", func(s *spoiled) {
			s.do("ZADD", s.key("schedule"), s.world.Now().Add(-6*time.Second).UnixMilli(), s.victim.ID)
		}, nil},
		{"due much too late", "is due in 2h0m0s", func(s *spoiled) {
			s.do("ZADD", s.key("schedule"), s.world.Now().Add(2*time.Hour).UnixMilli(), s.victim.ID)
		}, nil},
		{"due in an hour, after a failure", "", func(s *spoiled) {
			s.do("ZADD", s.key("schedule"), s.world.Now().Add(time.Hour).UnixMilli(), s.victim.ID)
			s.do("HSET", s.key("failures"), s.victim.ID, 1)
		}, nil},
		{"not checked for too long", "was last checked 3m6s ago", func(s *spoiled) { s.lastChecked(3*time.Minute + 6*time.Second) }, nil},
		{"last checked a while ago", "", func(s *spoiled) { s.lastChecked(3*time.Minute + 4*time.Second) }, nil},
		{"not checked for long, but changed meanwhile", "", func(s *spoiled) {
			s.lastChecked(3*time.Minute + 6*time.Second)
			for id := range s.reg.touched {
				s.reg.touched[id] = time.Now()
			}
		}, nil},
		{"too much waits that is void", "I6: 9 entries wait", func(s *spoiled) { s.voids("message_queue", 9) }, nil},
		{"too much is held that is void", "and 9 are held", func(s *spoiled) { s.voids("processing_list", 9) }, nil},
		{"as much is void as may be", "", func(s *spoiled) { s.voids("message_queue", 8); s.voids("processing_list", 8) }, nil},
		{"something left over", "I6: left over: ", func(s *spoiled) { s.do("HSET", s.key("strikes"), "stranger", 1) }, nil},
		{"a stranger is due", "I6: left over: ", func(s *spoiled) { s.do("ZADD", s.key("schedule"), s.world.Now().UnixMilli(), "stranger") }, nil},

		{"a message twice", "I4: message ", func(s *spoiled) {
			fields, _ := redis.Values(s.messages(1)[0][1], nil)
			s.do("XADD", append([]any{s.key("messages"), "*"}, fields...)...)
		}, nil},
		{"the last message lost", "and the last message ", func(s *spoiled) { s.do("XDEL", s.key("messages"), s.messages(1)[0][0]) }, nil},
		{"a message lost before others", " follows ", func(s *spoiled) {
			first, err := redis.Values(s.do("XRANGE", s.key("messages"), "-", "+", "COUNT", 1), nil)
			if err != nil || len(first) != 1 {
				s.Fatal(err)
			}
			one, _ := redis.Values(first[0], nil)
			s.do("XDEL", s.key("messages"), one[0])
		}, nil},
		{"messages dropped within the hour", "was dropped 59m0s after it was read", func(s *spoiled) { s.drops(59 * time.Minute) }, (*spoiled).reads},
		{"messages dropped after the hour", "", func(s *spoiled) { s.drops(61 * time.Minute) }, (*spoiled).reads},
		{"a message that nobody found", `I4: a message "x" that nobody found`, func(s *spoiled) { s.do("XADD", s.key("messages"), "*", "account", s.victim.ID, "id", "x") }, nil},
		{"a cursor forgotten", "began anew without a reason", func(s *spoiled) {
			s.do("HSET", s.key("tickets"), s.victim.ID, s.ticket()[:32])
			time.Sleep(10 * time.Minute)
		}, nil},
		{"a cursor ahead", "and the last message ", func(s *spoiled) { s.do("HSET", s.key("tickets"), s.victim.ID, s.ticket()+"0") }, nil},
		{"a cursor that nobody wrote", `is "x"`, func(s *spoiled) { s.do("HSET", s.key("tickets"), s.victim.ID, s.ticket()[:32]+"x") }, nil},

		{"a registration lost", "and must be", func(s *spoiled) {
			s.do("ZREM", s.key("schedule"), s.victim.ID)
			s.do("HDEL", s.key("tickets"), s.victim.ID)
			s.do("HDEL", s.key("accounts"), s.victim.ID)
		}, nil},
		{"a change lost", "and must be", func(s *spoiled) { s.rerecord(`"life":`, `"life":9`) }, nil},
		{"a pause lost", "paused=true", func(s *spoiled) {
			record, _ := accounts.SplitRevision([]byte(s.victim.Record))
			s.reg.beliefs[s.victim.ID] = belief{{true, true, string(record)}}
		}, nil},
		{"a pause that nobody made", "paused=true", func(s *spoiled) {
			s.do("ZREM", s.key("schedule"), s.victim.ID)
			s.do("ZADD", s.key("parked"), 1, s.victim.ID)
			s.do("HSET", s.key("park_reasons"), s.victim.ID, circulate.ReasonPaused)
		}, nil},
		{"a registration that nobody made", `I5: "stranger" was never registered`, func(s *spoiled) {
			s.do("HSET", s.key("tickets"), "stranger", s.ticket()[:32])
			s.do("HSET", s.key("accounts"), "stranger", s.victim.Record)
			s.do("ZADD", s.key("schedule"), s.world.Now().Add(time.Minute).UnixMilli(), "stranger")
		}, nil},
		{"a record that nobody can read", "I5: the record of ", func(s *spoiled) { s.rerecord(`{`, `[`) }, nil},
		{"a cadence that nobody knows", "I5: the record of ", func(s *spoiled) { s.rerecord(`"cadence":"`, `"cadence":"x`) }, nil},
		{"an answer that cannot be", "I5: deleted of ", func(*spoiled) {}, func(s *spoiled) { s.reg.learn(s.victim.ID, "deleted", nil) }},

		{"two checks at once, in peace", "two checks of ", func(s *spoiled) { s.setQuiet(time.Now().Add(-time.Minute)) }, func(s *spoiled) { s.up.overlap(s.victim.ID, time.Now()) }},
		{"two checks at once, since a fault", "", func(s *spoiled) { s.setQuiet(time.Now()) }, func(s *spoiled) { s.up.overlap(s.victim.ID, time.Now().Add(-time.Second)) }},
		{"two checks at once, under faults", "", func(*spoiled) {}, func(s *spoiled) { s.up.overlap(s.victim.ID, time.Now()) }},
		{"a monitor finds an account lost", " audit: ", func(s *spoiled) { s.do("ZREM", s.key("schedule"), s.victim.ID) }, func(*spoiled) { time.Sleep(10 * time.Minute) }},
		{"fewer checks than the cadence says", "was checked 0 times in 10m0s", func(*spoiled) {}, func(s *spoiled) {
			c, err := s.world.Census()
			if err != nil {
				s.Fatal(err)
			}
			s.throughput(c, s.up.checked(), s.up.checked())
		}},
		{"an account was taken from its holder", "was taken 1 times from a replica that held it", func(s *spoiled) { s.do("HSET", s.key("strikes"), s.victim.ID, 1) }, func(s *spoiled) { s.noneStruck() }},
		{"no call is held", "has no call, here", func(*spoiled) {}, func(s *spoiled) { s.allHeld("here") }},
		{"a replica does not give back", "I2: ", func(s *spoiled) { s.moves("processing_list", 0, s.fleet.replicas[0].Replica) }, func(s *spoiled) {
			s.untilFree(s.fleet.replicas[0], 0)
		}},
	} {
		if i%oracleOneOf != 0 {
			continue // the first row, in which nothing is wrong, is tried in any case
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := plan{seed: 1, replicas: 1, shards: 1, accounts: 4} // a monitor has nothing to do, and takes half of the time
			if tt.sees == " audit: " {
				p.monitors = 1
			}
			spoil(t, p, (*simulation).someoneScheduled, tt.sees, tt.spoil, tt.by)
		})
	}
}

// The oracle must find whatever is wrong about sends.
func TestTheOracleSeesSends(t *testing.T) {
	again := func(s *spoiled, peer string, takes bool) {
		s.up.sends.called(poller.SendRequest{ID: s.sent.id, Account: s.sent.account, Peer: peer, Data: []byte(strconv.Itoa(s.sent.number)), Attempt: 1}, takes)
	}
	is := func(state string) func(s *spoiled) {
		return func(s *spoiled) {
			record, err := redis.String(s.do("HGET", s.key("sends"), s.sent.id), nil)
			if err != nil {
				s.Fatal(err)
			}
			s.do("HSET", s.key("sends"), s.sent.id, strings.Replace(record, "|y", "|"+state, 1))
			time.Sleep(2 * time.Minute)
		}
	}
	for _, tt := range []struct {
		name  string
		sees  string
		spoil func(s *spoiled)
	}{
		{"nothing", "", func(*spoiled) {}},
		{"a send twice", "arrived twice", func(s *spoiled) { again(s, "peer0", true) }},
		{"a call that is refused, and one that is not", "", func(s *spoiled) { again(s, "peer0", false) }},
		{"a send that nobody asked for", "nobody asked for that", func(s *spoiled) { again(s, "stranger", true) }},
		{"a send lost", "is not there", func(s *spoiled) {
			s.do("HDEL", s.key("sends"), s.sent.id)
		}},
		{"a send lost with its account", "", func(s *spoiled) {
			s.do("HDEL", s.key("sends"), s.sent.id)
			s.do("DEL", s.key("sends:index"))
			s.reg.deleted[s.sent.account] = time.Now()
		}},
		{"accepted, and not there", "never arrived, and is accepted", func(s *spoiled) { s.sent.arrived = 0 }},
		{"there, and canceled", "arrived, and is canceled", is("c")},
		{"there, and rejected", "arrived, and is rejected", is("n")},
		{"failed", "is failed, and nobody said so", is("f")},
		{"attempted for too long", "has been under an attempt of ", is("a")},
		{"queued for too long", "has been queued for ", is("q")},
		{"overtaken", "arrived after number 1000", func(s *spoiled) {
			s.up.sends.set(func() { s.up.sends.last[s.sent.line()] = 1000 })
			s.caller.queue(s.Context(), s.sent.account, s.sent.peer)
			time.Sleep(time.Minute)
		}},
		{"a count below none", "the window of ", func(s *spoiled) { s.do("HSET", s.key("windows"), s.victim.ID+"\x00peer0", "9|-1|x") }},
		{"a place without a send", "an audit finds", func(s *spoiled) {
			s.do("ZADD", s.key("sends:line"), 0, s.victim.ID+"\x00peer0\x000000000001"+s.sent.id)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spoil(t, plan{seed: 1, replicas: 1, shards: 1, accounts: 8}, (*simulation).someoneAnswered, tt.sees, tt.spoil, nil)
		})
	}
}

// A message of a windowed account allows so many calls, for a while, and no others.
func TestTheOracleSeesWindows(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, tt := range []struct {
		name  string
		token string
		calls int
		later time.Duration
		steps bool
		sees  string
	}{
		{"in time", "m", windowCount, windowFor, false, ""},
		{"too often", "m", windowCount + 1, windowFor, false, "is answer 5 to m, of 4"},
		{"too late", "m", 1, windowFor + windowSlack + time.Second, false, "came "},
		{"too late by a clock that was changed", "m", 1, windowFor + windowSlack + time.Second, true, ""},
		{"without a message", "", 1, 0, false, "has the token"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seen []string
			l := newLedger()
			l.violated = func(format string, args ...any) { seen = append(seen, fmt.Sprintf(format, args...)) }
			l.now = func() time.Time { return now }
			account := "a"
			for n := 0; !mannerOf(account).windowed; n++ {
				account = fmt.Sprint("account", n)
			}
			l.grants(account, "m", 0)
			l.now = func() time.Time { return now.Add(tt.later) }
			if tt.steps {
				l.stepped = time.Now()
			}
			for range tt.calls {
				a := l.ask(account, "peer0")
				l.called(poller.SendRequest{ID: a.id, Account: account, Peer: "peer0", Data: []byte(strconv.Itoa(a.number)), Attempt: 1, Token: tt.token}, true)
			}
			if text := strings.Join(seen, "\n"); (text == "") != (tt.sees == "") || !strings.Contains(text, tt.sees) {
				t.Errorf("it sees %q, want %q", text, tt.sees)
			}
		})
	}
}

// What is judged of accounts whose calls are held.
func TestTheOracleSeesCallsThatAreHeld(t *testing.T) {
	older := func(age time.Duration) func(s *spoiled) {
		return func(s *spoiled) {
			replica := s.victim.Claims[0].Replica
			s.do("DEL", s.key("processing_list"))
			s.do("LPUSH", s.key("processing_list"), s.entry(age, replica))
		}
	}
	ended := func(ago time.Duration) func(s *spoiled) {
		return func(s *spoiled) {
			s.up.set(func() {
				delete(s.up.running, s.victim.ID)
				s.up.last[s.victim.ID] = time.Now().Add(-ago)
			})
		}
	}
	for _, tt := range []struct {
		name  string
		sees  string
		spoil func(s *spoiled)
	}{
		{"nothing", "", func(*spoiled) {}},
		{"not renewed", " for 2m51s", older(renewedBy + lateness + time.Second)},
		{"renewed late", "", older(renewedBy + lateness - time.Second)},
		{"no call", "I6: no call of ", ended(usualEnd + time.Second)},
		{"no call for a moment", "", ended(usualEnd - time.Second)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spoil(t, plan{seed: 1, replicas: 1, shards: 1, accounts: 1, held: 1, places: 16}, (*simulation).someoneHeld, tt.sees, tt.spoil, nil)
		})
	}
}

func (s *spoiled) glances() { s.oracle.glance() }

func spoil(t *testing.T, p plan, whom func(*simulation) *census.Account, sees string, how, by func(s *spoiled)) {
	t.Helper()
	result := newSummary()
	replicas.Run(t, replicas.Options{Seed: 1, Shards: 1}, func(w *replicas.World) {
		s := &simulation{plan: p, world: w, summary: result, random: rand.New(rand.NewPCG(1, 1)), up: newUpstream(1)}
		defer s.end()
		s.begin()
		time.Sleep(7 * time.Minute)
		victim := whom(s)
		if result.expectNone(t); victim == nil {
			t.Fatal("there is no such account")
		}
		spoiled := &spoiled{simulation: s, T: t, victim: victim, sent: s.up.sends.lastOf(victim.ID)}
		how(spoiled)
		if by != nil {
			by(spoiled)
			return
		}
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

// someoneHeld returns an account with a call that has just begun to be held.
func (s *simulation) someoneHeld() *census.Account {
	for range 1000 {
		c, err := s.world.Census()
		if err != nil {
			s.violated("%v", err)
			return nil
		}
		for _, a := range c.Accounts {
			if len(a.Claims) == 1 && s.up.calls(a.ID) == 1 {
				return a
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// someoneAnswered returns an account that is scheduled, and one of whose sends has arrived.
func (s *simulation) someoneAnswered() *census.Account {
	for _, id := range s.reg.ids {
		if m := mannerOf(id); m == (manner{}) {
			s.caller.queue(s.world.Context(), id, "peer0")
			time.Sleep(10 * time.Second)
			c, err := s.world.Census()
			if err != nil {
				s.violated("%v", err)
				return nil
			}
			if a := s.up.sends.lastOf(id); a != nil && s.up.sends.has(a.id) {
				return c.Accounts[id]
			}
		}
	}
	return nil
}

// lastOf returns the last send of an account that was asked for, or nil.
func (l *ledger) lastOf(account string) *asked {
	for _, a := range l.open {
		if a.account == account {
			return a
		}
	}
	return nil
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
