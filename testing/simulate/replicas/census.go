package replicas

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
)

// Census is all that Redis holds of the accounts at one moment, read as it
// stands, whatever the ring itself says of it.
type Census struct {
	Now      time.Time // Redis' clock
	Accounts map[string]*Resident
	Held     []circulate.Entry // in processing_list, void ones too
	Leftover []string          // fields and entries of nobody who is registered, and texts that are no entry
	Aside    int               // texts set aside
	Waiting  int               // entries in message_queue, void ones too
}

// Resident is an account that is registered.
type Resident struct {
	ID       string
	Shard    int
	Ticket   int64
	Lane     byte
	Cursor   string
	Record   string
	Places   []string          // where it is under its current ticket
	Due      time.Time         // of schedule
	Queued   []circulate.Entry // in message_queue under its current ticket
	Claims   []circulate.Entry // in processing_list likewise
	Reason   string            // it is parked for
	Failures string            // in a row
	Strikes  string
}

// fields are the HASHes that have a field for some accounts.
func fields() []string {
	return []string{"accounts", "cursors", "failures", "states", "errors", "strikes", "nudges", "park_reasons"}
}

// Queues are the lanes of message_queue.
func Queues() []string { return []string{"message_queue:urgent", "message_queue", "message_queue:low"} }

// Census counts. It gives an error while Redis does not serve.
func (w *World) Census() (*Census, error) {
	var commands []command
	ask := func(name string, args ...any) { commands = append(commands, command{name, args}) }
	ask("TIME")
	for shard := range w.ring.Shards() {
		ask("HGETALL", w.Key(shard, "tickets"))
		for _, name := range fields() {
			ask("HGETALL", w.Key(shard, name))
		}
		for _, name := range []string{"schedule", "parked"} {
			ask("ZRANGE", w.Key(shard, name), 0, -1, "WITHSCORES")
		}
		for _, name := range append(Queues(), "processing_list") {
			ask("LRANGE", w.Key(shard, name), 0, -1)
		}
		ask("LLEN", w.Key(shard, "set_aside"))
	}
	var replies []any
	err := w.past(func(conn redis.Conn) (err error) {
		if err := conn.Send("MULTI"); err != nil {
			return err
		}
		for _, it := range commands {
			if err := conn.Send(it.name, it.args...); err != nil {
				return err
			}
		}
		replies, err = redis.Values(conn.Do("EXEC"))
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &reader{replies: replies}
	c := &Census{Accounts: make(map[string]*Resident)}
	clock := r.texts()
	var s, µs int64
	fmt.Sscan(clock[0], &s)
	fmt.Sscan(clock[1], &µs)
	c.Now = time.Unix(s, µs*1000)
	for shard := range w.ring.Shards() {
		c.count(shard, r)
	}
	return c, r.err
}

type reader struct {
	replies []any
	err     error
}

func (r *reader) next() any {
	reply := r.replies[0]
	r.replies = r.replies[1:]
	if failed, ok := reply.(redis.Error); ok && r.err == nil {
		r.err = failed
	}
	return reply
}

func (r *reader) texts() []string {
	texts, err := redis.Strings(r.next(), nil)
	if err != nil && r.err == nil {
		r.err = err
	}
	return texts
}

func (c *Census) count(shard int, r *reader) {
	tickets := r.texts()
	for i := 0; i+1 < len(tickets); i += 2 {
		behind := tickets[i+1]
		a := &Resident{ID: tickets[i], Shard: shard}
		if _, err := fmt.Sscanf(behind[:14], "%d", &a.Ticket); err != nil || len(behind) < 32 {
			c.Leftover = append(c.Leftover, fmt.Sprintf("ticket %q of %q", behind, a.ID))
			continue
		}
		a.Lane, a.Cursor = behind[14], behind[32:]
		c.Accounts[a.ID] = a
	}
	for _, name := range fields() {
		pairs := r.texts()
		for i := 0; i+1 < len(pairs); i += 2 {
			a, ok := c.Accounts[pairs[i]]
			if !ok {
				c.Leftover = append(c.Leftover, fmt.Sprintf("%s of %q: %.60q", name, pairs[i], pairs[i+1]))
				continue
			}
			a.set(name, pairs[i+1])
		}
	}
	for _, name := range []string{"schedule", "parked"} {
		pairs := r.texts()
		for i := 0; i+1 < len(pairs); i += 2 {
			a, ok := c.Accounts[pairs[i]]
			if !ok {
				c.Leftover = append(c.Leftover, fmt.Sprintf("%s of %q", name, pairs[i]))
				continue
			}
			a.Places = append(a.Places, name)
			var ms float64
			fmt.Sscan(pairs[i+1], &ms)
			if name == "schedule" {
				a.Due = time.UnixMilli(int64(ms))
			}
		}
	}
	for _, name := range append(Queues(), "processing_list") {
		for _, text := range r.texts() {
			e, err := circulate.ParseEntry(text)
			if err != nil {
				c.Leftover = append(c.Leftover, fmt.Sprintf("%s: %q", name, text))
				continue
			}
			a := c.Accounts[e.ID]
			current := a != nil && a.Ticket == e.Ticket
			if current {
				a.Places = append(a.Places, name)
			}
			if name == "processing_list" {
				c.Held = append(c.Held, e)
				if current {
					a.Claims = append(a.Claims, e)
				}
				continue
			}
			c.Waiting++
			if current {
				a.Queued = append(a.Queued, e)
			}
		}
	}
	aside, _ := redis.Int(r.next(), nil)
	c.Aside += aside
}

func (a *Resident) set(name, value string) {
	switch name {
	case "accounts":
		a.Record = value
	case "cursors":
		a.Cursor = value
	case "failures":
		a.Failures = value
	case "strikes":
		a.Strikes = value
	case "park_reasons":
		a.Reason = value
	}
}

// Broken gives the accounts for which the conservation law does not hold. Copies
// of one entry in message_queue, as a monitor leaves that stopped half way, are
// void from the next claim on; with copies they are borne.
func (c *Census) Broken(copies bool) []string {
	var broken []string
	for id, a := range c.Accounts {
		places := slices.Clone(a.Places)
		if copies {
			for i, p := range places {
				if strings.HasPrefix(p, "message_queue") {
					places[i] = "message_queue"
				}
			}
			slices.Sort(places)
			if len(places) > 0 && places[0] == "message_queue" {
				places = slices.Compact(places)
			}
		}
		switch {
		case len(places) != 1:
			broken = append(broken, fmt.Sprintf("%q is in %v, ticket %d", id, a.Places, a.Ticket))
		case places[0] == "parked" && a.Reason == "":
			broken = append(broken, fmt.Sprintf("%q is parked without a reason", id))
		case places[0] != "parked" && a.Reason != "":
			broken = append(broken, fmt.Sprintf("%q is in %v with a reason to be parked: %s", id, a.Places, a.Reason))
		case a.Record == "":
			broken = append(broken, fmt.Sprintf("%q has no record", id))
		}
	}
	slices.Sort(broken)
	return broken
}

// HeldBy counts the current claims of a replica.
func (c *Census) HeldBy(replica string) int {
	n := 0
	for _, a := range c.Accounts {
		for _, e := range a.Claims {
			if e.Replica == replica {
				n++
			}
		}
	}
	return n
}
