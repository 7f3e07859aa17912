package main

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// scene is a world at the end of a run: the ring is in a Redis, nothing runs, and what the
// clients and the third party saw is made up. Its accounts are base, which is there throughout,
// kept, idle, which was paused, and left, which was deregistered. Each has found two messages.
type scene struct {
	*testing.T
	*world
	conn    redis.Conn
	ring    *circulate.Ring
	settled time.Time
	changed time.Time // when idle and left went out of circulation
	allowed []*excuse
	lost    []span
}

func newScene(t *testing.T, server *redistest.Server) *scene {
	t.Helper()
	now := time.Now()
	s := &scene{
		T: t, settled: now.Add(-time.Minute), changed: now.Add(-2 * time.Minute),
		world: &world{
			store: single{server: server}, base: []string{"base"}, log: io.Discard, ailing: ailing{since: make(map[string]ailment)},
			third: &third{Upstream: upstream.New(upstream.Options{}), accounts: make(map[string]*checked)},
		},
	}
	s.clients = newClients("", s.third)
	var err error
	if s.conn, err = server.Dial(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close() })
	s.do("FLUSHALL")
	there, err := connect.Open(server.URL(), connect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = there.Close() })
	if s.ring, err = circulate.Open(t.Context(), there, circulate.Options{Namespace: namespace, Shards: shards}); err != nil {
		t.Fatal(err)
	}
	for id, last := range map[string]time.Time{"base": now, "kept": now, "idle": s.changed, "left": s.changed} {
		s.third.accounts[id] = &checked{last: last, any: last, cursor: 2}
		s.third.PostN(id, 2)
		for n := range 2 {
			s.message(id, upstream.MessageID(id, n+1))
		}
		if id != "base" {
			s.operation(register, id, done, 201, now.Add(-time.Hour))
		}
		if id == "left" {
			continue
		}
		if _, err := s.ring.Register(t.Context(), shardOf(id), []circulate.Registration{{ID: id, Record: []byte("{}"), Due: now.Add(time.Hour)}}); err != nil {
			t.Fatal(err)
		}
	}
	s.operation(pause, "idle", done, 200, s.changed)
	s.park("idle", circulate.ReasonPaused)
	s.operation(deregister, "left", done, 204, s.changed)
	return s
}

func (s *scene) do(name string, args ...any) {
	s.Helper()
	if _, err := s.conn.Do(name, args...); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) key(id, name string) string { return key(shardOf(id), name) }

func (s *scene) message(account, id string) {
	s.Helper()
	s.do("XADD", s.key(account, "messages"), "*", "account", account, "id", id)
}

func (s *scene) operation(kind, id string, as outcome, status int, ended time.Time) {
	s.clients.history = append(s.clients.history, operation{kind: kind, account: id, outcome: as, status: status, began: ended, ended: ended})
}

func (s *scene) park(id, reason string) {
	s.Helper()
	if n, err := s.ring.Park(s.Context(), shardOf(id), reason, []string{id}); n != 1 || err != nil {
		s.Fatalf("parked %d, %v", n, err)
	}
}

// remove takes all of an account out of Redis.
func (s *scene) remove(id string) {
	s.Helper()
	if n, err := s.ring.Deregister(s.Context(), shardOf(id), []string{id}); n != 1 || err != nil {
		s.Fatalf("deregistered %d, %v", n, err)
	}
}

// forget empties the streams, but for some accounts' messages.
func (s *scene) forget(id string) {
	s.Helper()
	s.do("DEL", s.key(id, "messages"))
	for other := range s.third.accounts {
		if other != id && shardOf(other) == shardOf(id) {
			s.Fatalf("%s and %s are in one shard", id, other)
		}
	}
}

// entry is an entry of an account in a list. It is void: no account has that ticket.
func entry(id string) string {
	return circulate.Entry{Ticket: 1 << 20, Stamp: time.Now(), Replica: "0123456789", ID: id}.String()
}

// Each judgement of the whole history condemns what it is there for, and that alone is wrong.
// What is made up here stands for a service that is broken in such a way.
func TestEachJudgementCondemns(t *testing.T) {
	server := redistest.Start(t)
	for _, c := range []struct {
		name  string
		wants []string // one of each violation
		spoil func(s *scene)
	}{
		{"nothing", nil, func(*scene) {}},

		{"an account is lost", []string{`I1: "kept" is in no place`}, func(s *scene) { s.do("ZREM", s.key("kept", "schedule"), "kept") }},
		{"an account is parked without a reason", []string{`I1: "idle" is parked without a reason`, "I1: idle is parked: "}, func(s *scene) { s.do("HDEL", s.key("idle", "park_reasons"), "idle") }},
		{"a stranger is in the schedule", []string{"I1: "}, func(s *scene) { s.do("ZADD", key(0, "schedule"), 1, "stranger") }},
		{"an account is parked", []string{"I1: kept is parked: gone_410", "I5: kept should be active, and is paused gone_410"}, func(s *scene) { s.park("kept", "gone_410") }},
		{"a paused account is parked for another reason", []string{"I1: idle is parked: gone_410"}, func(s *scene) {
			s.do("HSET", s.key("idle", "park_reasons"), "idle", "gone_410")
		}},
		{"an account is not checked on", []string{"I1: kept was not checked on, last at "}, func(s *scene) { s.third.accounts["kept"].any = s.settled }},
		{"an account that stays is not checked on", []string{"I1: base was not checked on, last at "}, func(s *scene) { s.third.accounts["base"].any = s.settled.Add(-time.Second) }},
		{"an account was never checked", []string{"I1: kept was not checked on", "I4: message"}, func(s *scene) {
			delete(s.third.accounts, "kept")
			s.do("XTRIM", s.key("kept", "messages"), "MAXLEN", 1)
		}},

		{"two checks of an account at once", []string{"I3: two checks of kept overlapped by 2s"}, func(s *scene) {
			for _, began := range []time.Time{s.changed, s.changed.Add(time.Second)} {
				s.third.checks = append(s.third.checks, check{account: "kept", began: began, ended: began.Add(3 * time.Second)})
			}
		}},
		{"two checks of an account at once, as they may", nil, func(s *scene) {
			for _, began := range []time.Time{s.changed, s.changed.Add(time.Second)} {
				s.third.checks = append(s.third.checks, check{account: "kept", began: began, ended: began.Add(3 * time.Second)})
			}
			s.allowed = []*excuse{{from: s.changed, to: s.settled, end: s.settled}}
		}},
		{"a paused account is checked", []string{"I3: idle was checked 12.001s after it went out of circulation"}, func(s *scene) {
			s.third.accounts["idle"].any = s.changed.Add(lastCheckAfter + time.Millisecond)
		}},
		{"a deregistered account is checked", []string{"I3: left was checked 12.001s after it went out of circulation"}, func(s *scene) {
			s.third.accounts["left"].any = s.changed.Add(lastCheckAfter + time.Millisecond)
		}},
		{"a paused account is checked by who held it", nil, func(s *scene) { s.third.accounts["idle"].any = s.changed.Add(lastCheckAfter) }},

		{"a message is lost", []string{"I4: message " + upstream.MessageID("kept", 1) + " is lost", "I4: message " + upstream.MessageID("kept", 2) + " is lost"}, func(s *scene) { s.forget("kept") }},
		{"the last message is lost", []string{"I4: message " + upstream.MessageID("kept", 3) + " is lost"}, func(s *scene) { s.third.Post("kept") }},
		{"a message of a paused account is lost", []string{"I4: message " + upstream.MessageID("idle", 1) + " is lost", "I4: message " + upstream.MessageID("idle", 2) + " is lost"}, func(s *scene) { s.forget("idle") }},
		{"a message of a deregistered account is lost", []string{"I4: message " + upstream.MessageID("left", 1) + " is lost", "I4: message " + upstream.MessageID("left", 2) + " is lost"}, func(s *scene) { s.forget("left") }},
		{"a message that a paused account had not come to", nil, func(s *scene) { s.third.Post("idle") }},
		{"a message of a paused account that Redis lost", nil, func(s *scene) {
			s.forget("idle")
			s.lost = []span{{from: s.changed.Add(-time.Hour), to: s.changed.Add(-time.Minute)}}
		}},
		{"a message of an active account, though Redis lost some", []string{"I4: message " + upstream.MessageID("kept", 3) + " is lost"}, func(s *scene) {
			s.third.Post("kept")
			s.lost = []span{{from: s.changed.Add(-time.Minute), to: s.changed.Add(-time.Second)}}
		}},
		{"a message twice", []string{"I4: message " + upstream.MessageID("kept", 2) + " is in the streams 2 times"}, func(s *scene) { s.message("kept", upstream.MessageID("kept", 2)) }},
		{"a message twice, of an account that was registered twice", nil, func(s *scene) {
			s.message("kept", upstream.MessageID("kept", 2))
			s.clients.history = slices.Insert(s.clients.history, 0, operation{kind: register, account: "kept", outcome: done, status: 201, ended: s.changed.Add(-3 * time.Hour)},
				operation{kind: deregister, account: "kept", outcome: done, status: 204, ended: s.changed.Add(-2 * time.Hour)})
		}},
		{"a message that nobody had", []string{`I4: message x of "kept", which the third party never had`}, func(s *scene) { s.message("kept", "x") }},
		{"a message of an account that nobody had", []string{`I4: message x of "stranger", which the third party never had`}, func(s *scene) { s.message("stranger", "x") }},
		{"a message of an account that always has more", nil, func(s *scene) { s.message(endlessPrefix+"1", "x") }},

		{"a registration is lost", []string{"I5: kept should be active, and is absent"}, func(s *scene) { s.remove("kept") }},
		{"an account that stays is lost", []string{"I5: base should be active, and is absent"}, func(s *scene) { s.remove("base") }},
		{"a registration that Redis lost", nil, func(s *scene) {
			s.remove("kept")
			s.lost = []span{{from: time.Now().Add(-2 * time.Hour), to: s.changed.Add(-time.Minute)}}
		}},
		{"a deregistration is lost", []string{"I5: left should be absent, and is active", "I1: left was not checked on"}, func(s *scene) {
			if _, err := s.ring.Register(s.Context(), shardOf("left"), []circulate.Registration{{ID: "left", Record: []byte("{}"), Due: time.Now().Add(time.Hour)}}); err != nil {
				s.Fatal(err)
			}
		}},
		{"a pause is lost", []string{"I5: idle should be paused, and is active", "I1: idle was not checked on"}, func(s *scene) {
			if _, err := s.ring.ResumeAll(s.Context(), shardOf("idle"), []circulate.Resumption{{ID: "idle", Due: time.Now().Add(time.Hour)}}); err != nil {
				s.Fatal(err)
			}
		}},
		{"a resumption is lost", []string{"I5: idle should be active, and is paused"}, func(s *scene) { s.operation(resume, "idle", done, 200, s.changed.Add(time.Second)) }},
		{"an answer that another one rules out", []string{"I5: deregister of kept answered 404, which earlier answers rule out"}, func(s *scene) {
			s.operation(deregister, "kept", refused, 404, s.changed)
		}},

		{"a claim is left", []string{"I6: 1 entries are left in processing_list"}, func(s *scene) { s.do("LPUSH", s.key("kept", "processing_list"), entry("kept")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, server)
			c.spoil(s)
			v, err := s.judge(s.allowed, s.lost, s.settled)
			if err != nil {
				t.Fatal(err)
			}
			expectEach(t, textsOf(v.violations), c.wants)
		})
	}
}

func textsOf(found []violation) (texts []string) {
	for _, v := range found {
		texts = append(texts, v.what)
	}
	return texts
}

// expectEach expects a text for each thing that is wanted, and no other.
func expectEach(t *testing.T, texts, wants []string) {
	t.Helper()
	left := slices.Clone(texts)
	for _, want := range wants {
		i := slices.IndexFunc(left, func(text string) bool { return strings.Contains(text, want) })
		if i < 0 {
			t.Errorf("%q is not among %q", want, texts)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	if len(left) > 0 {
		t.Errorf("nobody wanted %q", left)
	}
}

// The ring is looked at after each turn, too, while the service runs.
func TestALookCondemns(t *testing.T) {
	s := newScene(t, redistest.Start(t))
	turn := &turn{Context: t.Context(), world: s.world}
	if turn.look(); len(turn.faults) > 0 {
		t.Errorf("nothing is wrong, and there is %q", turn.faults)
	}
	s.do("ZREM", s.key("kept", "schedule"), "kept")
	turn.look()
	expectEach(t, turn.faults, []string{`I1: "kept" is in no place`})
}

// away is a Redis that nobody reaches.
type away struct{ store }

func (away) serving() ([]*redistest.Server, error) { return nil, errors.New("nobody is there") }

// moves is a sign that grows each time that it is compared, and rests one that never does.
func moves() sign {
	n := 0.0
	return sign{name: "moves", of: func(snapshot) reading { n--; return reading{"api-0": n} }} // what is now is asked for first
}

func rests() sign {
	return sign{name: "rests", of: func(snapshot) reading { return reading{"api-0": 1} }}
}

// What a turn judges by itself: that its fault was injected and is over, that operators see it,
// and that everything is as before within its time. The times are fake.
func TestATurnCondemns(t *testing.T) {
	nothing := func(*turn) (func() error, error) { return nil, nil }
	fails := func() error { return errors.New("it failed") }
	well := func(w *world) { w.third.accounts["base"].last = time.Now().Add(time.Hour) }
	for _, c := range []struct {
		name  string
		wants []string
		fault fault
		world func(w *world)
	}{
		{"nothing", nil, fault{sign: moves(), inject: nothing}, well},
		{"it cannot be injected", []string{"not injected: it failed"}, fault{sign: moves(), inject: func(*turn) (func() error, error) { return nil, fails() }}, well},
		{"it does not end", []string{"not injected: it failed"}, fault{sign: moves(), inject: func(*turn) (func() error, error) { return fails, nil }}, well},
		{"what it broke stays broken", []string{"not restored: it failed"}, fault{sign: moves(), inject: nothing, mend: func(*turn) error { return fails() }}, well},
		{"nobody sees it", []string{"I7: rests did not move"}, fault{sign: rests(), inject: nothing}, well},
		{"an account is not checked again", []string{"I6: not recovered after 20s: not checked again: base"}, fault{sign: moves(), inject: nothing}, func(*world) {}},
		{"or not for long", []string{"I6: not recovered after 40s: not checked again: base"}, fault{sign: moves(), inject: nothing, within: 40 * time.Second}, func(*world) {}},
		{"it is checked too seldom", []string{"I6: not recovered after 20s: 0 checks a second, of 5 usual ones"}, fault{sign: moves(), inject: nothing}, func(w *world) {
			well(w)
			w.usual["base"] = usual{cadence: time.Second, rate: 5}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{
					store: away{}, base: []string{"base"}, log: io.Discard, ailing: ailing{since: make(map[string]ailment)}, usual: make(map[string]usual),
					third: &third{Upstream: upstream.New(upstream.Options{}), accounts: map[string]*checked{"base": {}}},
				}
				c.world(w)
				turn := &turn{Context: t.Context(), world: w, fault: &c.fault}
				if err := turn.play(); err != nil {
					t.Fatal(err)
				}
				// There is no ring here.
				expectEach(t, turn.faults, append([]string{"the ring could not be read: nobody is there"}, c.wants...))
			})
		})
	}
}

// In a control the signs count that move, although nothing is broken.
func TestAControlTellsWhatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: away{}, log: io.Discard, ailing: ailing{since: make(map[string]ailment)}, usual: make(map[string]usual), third: &third{accounts: make(map[string]*checked)}}
		f := control(onServer)
		turn := &turn{Context: t.Context(), world: w, fault: f, signs: []sign{moves(), rests()}, random: rand.New(rand.NewPCG(1, 1))}
		if err := turn.play(); err != nil || !slices.Equal(turn.moved, []string{"moves"}) {
			t.Errorf("%q moved, %v", turn.moved, err)
		}
	})
}

// A process that has ended, or does not say that it is ready, is no recovery.
func TestAnUnreadyProcessIsMissed(t *testing.T) {
	asleep, err := processes.Start("poller-0", "/bin/sleep", nil, "600")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{members: []*member{{name: "poller-0", addr: "127.0.0.1:1", process: &instance{Process: asleep}}}}
	turn := &turn{Context: t.Context(), world: w}
	if why := turn.missing(); !strings.HasPrefix(why, "poller-0 is not ready: ") {
		t.Errorf("it sleeps: %q", why)
	}
	asleep.Kill()
	if why := turn.missing(); !strings.HasPrefix(why, "poller-0 has ended: ") {
		t.Errorf("it was killed: %q", why)
	}
}

func TestLeaksAreCounted(t *testing.T) {
	before := map[string]float64{roleAPI: 40, rolePoller: 100}
	for most, wants := range map[float64][]string{
		100 + spareGoroutines:     nil,
		100 + spareGoroutines + 1: {"I6: a process with role poller has 251 goroutines, and had 100"},
	} {
		now := maps.Clone(before)
		now[rolePoller] = most
		expectEach(t, textsOf(leaked(before, now)), wants)
	}
}
