package ringtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/census"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// The replicas of the suite.
const (
	alice = "alice00000"
	bob   = "bob0000000"
)

// fixture is a ring of one shard in a namespace of its own.
type fixture struct {
	*testing.T
	ring   *circulate.Ring
	server redistest.Redis
	ns     string
}

func newFixture(t *testing.T, server redistest.Redis) *fixture {
	t.Helper()
	ns := strings.NewReplacer("/", ".", "#", ".", " ", "_", ",", "", "'", "").Replace(t.Name())
	if len(ns) > 60 {
		ns = ns[len(ns)-60:]
	}
	ring, err := circulate.Open(context.Background(), server, circulate.Options{Namespace: ns, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, ring: ring, server: server, ns: ns}
	if server.Name() == "embedded" { // which sorts all keys each millisecond
		t.Cleanup(func() {
			for _, pattern := range []string{"{" + ns + ":*", ns + ":*"} {
				for _, key := range f.strings("KEYS", pattern) {
					f.do("DEL", key)
				}
			}
		})
	}
	return f
}

func (f *fixture) key(name string) string { return "{" + f.ns + ":0}:" + name }

// do runs a command as another client would, on the server that has its first key.
func (f *fixture) do(name string, args ...any) any {
	f.Helper()
	if c, ok := f.server.(nodes); ok && (name == "KEYS" || name == "SCRIPT") {
		return f.everywhere(c, name, args...)
	}
	key := ""
	for _, a := range args {
		if text, ok := a.(string); ok && strings.Contains(text, f.ns) {
			key = text
			break
		}
	}
	conn, err := f.server.Conn(context.Background(), key)
	return f.on(conn, err, name, args...)
}

func (f *fixture) on(conn redis.Conn, err error, name string, args ...any) any {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
	defer conn.Close()
	reply, err := conn.Do(name, args...)
	if err != nil {
		f.Fatalf("%s %v: %v", name, args, err)
	}
	return reply
}

// nodes is a server that consists of several.
type nodes interface {
	Nodes(ctx context.Context) ([]string, error)
	ConnTo(ctx context.Context, address string) (redis.Conn, error)
}

// everywhere does a command without keys on each node, and joins the replies.
func (f *fixture) everywhere(c nodes, name string, args ...any) any {
	f.Helper()
	addresses, err := c.Nodes(context.Background())
	if err != nil {
		f.Fatal(err)
	}
	var all []any
	for _, address := range addresses {
		conn, err := c.ConnTo(context.Background(), address)
		if several, ok := f.on(conn, err, name, args...).([]any); ok {
			all = append(all, several...)
		}
	}
	return all
}

func (f *fixture) strings(name string, args ...any) []string {
	f.Helper()
	texts, err := redis.Strings(f.do(name, args...), nil)
	if err != nil {
		f.Fatal(err)
	}
	return texts
}

func (f *fixture) text(name string, args ...any) string {
	f.Helper()
	reply := f.do(name, args...)
	if reply == nil {
		return ""
	}
	text, err := redis.String(reply, nil)
	if err != nil {
		f.Fatal(err)
	}
	return text
}

func (f *fixture) number(name string, args ...any) int {
	f.Helper()
	n, err := redis.Int(f.do(name, args...), nil)
	if err != nil {
		f.Fatal(err)
	}
	return n
}

// register registers accounts that are due at once.
func (f *fixture) register(ids ...string) {
	f.Helper()
	items := make([]circulate.Registration, len(ids))
	for i, id := range ids {
		items[i] = circulate.Registration{ID: id, Record: []byte(`{"id":"` + id + `"}`)}
	}
	outcomes, err := f.ring.Register(context.Background(), 0, items)
	if err != nil {
		f.Fatal(err)
	}
	for i, o := range outcomes {
		if o != circulate.Created {
			f.Fatalf("register %q: %c", ids[i], o)
		}
	}
}

func (f *fixture) batch(replica string, n int) circulate.Batch {
	f.Helper()
	b, err := f.ring.Claim(context.Background(), 0, replica, n, 0)
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// claim claims and expects the ids, in that order.
func (f *fixture) claim(replica string, want ...string) []*circulate.Claim {
	f.Helper()
	b := f.batch(replica, max(1, len(want)))
	claims := make([]*circulate.Claim, len(b.Claims))
	var got []string
	for i := range b.Claims {
		claims[i] = &b.Claims[i]
		got = append(got, b.Claims[i].ID)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.Fatalf("claimed %q, want %q", got, want)
	}
	return claims
}

// ret returns a claim and expects the outcome.
func (f *fixture) ret(want circulate.Outcome, item circulate.Return) {
	f.Helper()
	outcomes, err := f.ring.Return(context.Background(), 0, []circulate.Return{item})
	if err != nil {
		f.Fatal(err)
	}
	if outcomes[0] != want {
		f.Fatalf("return of %q: %v, want %v", item.Claim.ID, outcomes[0], want)
	}
}

func (f *fixture) look(id string) circulate.View {
	f.Helper()
	views, err := f.ring.Look(context.Background(), 0, []string{id})
	if err != nil {
		f.Fatal(err)
	}
	if len(views) != 1 {
		f.Fatalf("%q is not registered", id)
	}
	return views[0]
}

// oldest reads processing_list as a monitor does.
func (f *fixture) oldest() []circulate.ClaimedEntry {
	f.Helper()
	entries, _, err := f.ring.Oldest(context.Background(), 0, 0, 100)
	if err != nil {
		f.Fatal(err)
	}
	return entries
}

func (f *fixture) requeue(want circulate.Requeued, h circulate.ClaimedEntry) {
	f.Helper()
	got, _, err := f.ring.Requeue(context.Background(), 0, h)
	if err != nil {
		f.Fatal(err)
	}
	if got != want {
		f.Fatalf("requeue of %q: %v, want %v", h.Entry.ID, got, want)
	}
}

// placed expects an account in a place, and the law to hold for all.
func (f *fixture) placed(id string, want circulate.Place) {
	f.Helper()
	if got := f.look(id).Place; got != want {
		f.Fatalf("%q is %s, want %s", id, got, want)
	}
	f.conserved()
}

// found returns what is in the stream, the oldest first.
func (f *fixture) found() []circulate.Found {
	f.Helper()
	found, err := f.ring.Streams().Messages(context.Background(), 0, circulate.StreamStart, 1000)
	if err != nil {
		f.Fatal(err)
	}
	return found
}

func (f *fixture) messages() []string {
	f.Helper()
	var ids []string
	for _, m := range f.found() {
		ids = append(ids, m.Account+"/"+m.Message.ID)
	}
	return ids
}

func message(id string) circulate.Message {
	return circulate.Message{ID: id, Type: "text", Time: time.UnixMilli(1795226313819), Data: []byte(`{"n":1}`)}
}

func soon(c *circulate.Claim) time.Time { return c.Due.Add(time.Hour) }

// count reads the whole shard itself and does not ask the ring.
func (f *fixture) count() *census.Census {
	f.Helper()
	conn, err := f.server.Conn(context.Background(), f.key("tickets"))
	if err != nil {
		f.Fatal(err)
	}
	defer conn.Close()
	c := census.New()
	if err := c.ReadAtRest(conn, strings.TrimSuffix(f.key(""), ":")); err != nil {
		f.Fatal(err)
	}
	return c
}

// conserved expects every account in exactly one place under its current ticket, and a
// reason for every parked one.
func (f *fixture) conserved() {
	f.Helper()
	f.check(census.Once)
}

// conservedOnceClaimed is conserved, but allows copies of one entry in message_queue. A
// monitor that stopped half way leaves them, and the account's next claim makes them
// void.
func (f *fixture) conservedOnceClaimed() {
	f.Helper()
	f.check(func(places []string) bool {
		return census.OnceInALane(places) && (len(places) == 1 || places[0] == "message_queue")
	})
}

func (f *fixture) check(lawful func(places []string) bool) {
	f.Helper()
	c := f.count()
	if broken := append(c.Broken(lawful), c.Strays...); len(broken) > 0 {
		slices.Sort(broken)
		f.Fatalf("the conservation law does not hold:\n%v", strings.Join(broken, "\n"))
	}
}

// counted counts the shard, in both ways.
func (f *fixture) counted() circulate.Count {
	f.Helper()
	ctx := context.Background()
	count, err := f.ring.Count(ctx, 0)
	if err != nil {
		f.Fatalf("count: %v", err)
	}
	all, err := f.ring.CountAll(ctx)
	if err != nil || len(all) != 1 {
		f.Fatalf("count all: %v, %v", all, err)
	}
	if later := all[0].Overdue - count.Overdue; later < 0 || later > time.Minute {
		f.Errorf("overdue for %v, and then for %v", count.Overdue, all[0].Overdue)
	}
	if all[0].Overdue = count.Overdue; all[0] != count {
		f.Errorf("counted %+v, and then %+v", count, all[0])
	}
	return count
}
