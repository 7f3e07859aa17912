package census

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Census is everything that Redis holds about accounts at one moment.
type Census struct {
	Now      time.Time // Redis' clock
	Accounts map[string]*Account
	Claims   []Entry  // in processing_list, including void ones
	Strays   []string // texts that are no ticket, and members of schedule or parked that are not registered
	Leftover []string // other keys' fields of ids that are not registered, and texts that are no entry
	Aside    int      // texts set aside
	Waiting  int      // entries in message_queue, including void ones
	Claimed  int      // texts in processing_list, whatever they are
}

// Account is a registered account.
type Account struct {
	ID       string
	Tag      string // what the keys of its shard begin with
	Ticket   int64
	Lane     byte
	Cursor   string
	Record   string
	Places   []string  // where it is under its current ticket
	Due      time.Time // of schedule
	Queued   []Entry   // in message_queue under its current ticket
	Claims   []Entry   // in processing_list under its current ticket
	Reason   string    // why it is parked
	Failures string    // in a row
	Strikes  string
}

// The keys of a shard that accounts are in, without their tag.
func fields() []string {
	return []string{"accounts", "cursors", "failures", "states", "errors", "strikes", "nudges", "park_reasons"}
}

func sets() []string { return []string{"schedule", "parked"} }

func lists() []string {
	return []string{"message_queue:urgent", "message_queue", "message_queue:low", "processing_list"}
}

// byKind is the lane that is a ZSET: its members are KIND, a tab, a rank, | and an entry.
const byKind = "message_queue:by_kind"

// New returns an empty census.
func New() *Census { return &Census{Accounts: make(map[string]*Account)} }

// Read adds shards, all as of one moment. Tags are what their keys begin with, such as
// "{rounds:0}". One server must hold all of them. After an error nothing was added.
func (c *Census) Read(conn redis.Conn, tags ...string) error {
	if err := conn.Send("MULTI"); err != nil {
		return err
	}
	for _, command := range commands(tags) {
		if err := conn.Send(command.name, command.args...); err != nil {
			return err
		}
	}
	replies, err := redis.Values(conn.Do("EXEC"))
	if err != nil {
		return err
	}
	return c.take(replies, tags)
}

// ReadAtRest is Read without a transaction, for when nobody writes. A Redis that is out
// of memory refuses transactions, but answers this.
func (c *Census) ReadAtRest(conn redis.Conn, tags ...string) error {
	var replies []any
	for _, command := range commands(tags) {
		reply, err := conn.Do(command.name, command.args...)
		if err != nil {
			return err
		}
		replies = append(replies, reply)
	}
	return c.take(replies, tags)
}

type command struct {
	name string
	args []any
}

// commands reads the time and each shard; take reads the replies in the same order.
func commands(tags []string) []command {
	all := []command{{"TIME", nil}}
	ask := func(name string, args ...any) { all = append(all, command{name, args}) }
	for _, tag := range tags {
		ask("HGETALL", tag+":tickets")
		for _, name := range fields() {
			ask("HGETALL", tag+":"+name)
		}
		for _, name := range sets() {
			ask("ZRANGE", tag+":"+name, 0, -1, "WITHSCORES")
		}
		for _, name := range lists() {
			ask("LRANGE", tag+":"+name, 0, -1)
		}
		ask("ZRANGE", tag+":"+byKind, 0, -1)
		ask("LLEN", tag+":set_aside")
	}
	return all
}

// take adds what the replies hold, unless one of the commands failed.
func (c *Census) take(replies []any, tags []string) error {
	for _, reply := range replies {
		if failed, ok := reply.(redis.Error); ok {
			return failed
		}
	}
	r := &reader{replies: replies}
	clock := r.texts()
	var s, µs int64
	r.scan(strings.Join(clock, " "), &s, &µs)
	c.Now = time.Unix(s, µs*1000)
	for _, tag := range tags {
		c.add(tag, r)
	}
	return r.err
}

// reader returns one reply after the other.
type reader struct {
	replies []any
	err     error
}

func (r *reader) next() any {
	if len(r.replies) == 0 {
		return nil
	}
	reply := r.replies[0]
	r.replies = r.replies[1:]
	return reply
}

func (r *reader) texts() []string {
	texts, err := redis.Strings(r.next(), nil)
	if err != nil && r.err == nil {
		r.err = err
	}
	return texts
}

// scan reads numbers from a text.
func (r *reader) scan(text string, into ...any) {
	if _, err := fmt.Sscan(text, into...); err != nil && r.err == nil {
		r.err = err
	}
}

func (c *Census) add(tag string, r *reader) {
	for name, value := range pairs(r.texts()) {
		c.register(tag, name, value)
	}
	for _, name := range fields() {
		for id, value := range pairs(r.texts()) {
			if a, ok := c.Accounts[id]; ok {
				a.set(name, value)
			} else {
				c.Leftover = append(c.Leftover, fmt.Sprintf("%s of %q: %.60q", name, id, value))
			}
		}
	}
	for _, name := range sets() {
		for id, score := range pairs(r.texts()) {
			a, ok := c.Accounts[id]
			if !ok {
				c.Strays = append(c.Strays, fmt.Sprintf("%s of %q", name, id))
				continue
			}
			a.Places = append(a.Places, name)
			if name == "schedule" {
				var ms float64
				r.scan(score, &ms)
				a.Due = time.UnixMilli(int64(ms))
			}
		}
	}
	for _, name := range lists() {
		for _, text := range r.texts() {
			c.enter(name, text)
		}
	}
	for _, member := range r.texts() {
		text := member
		if _, rest, ok := strings.Cut(member, "\t"); ok {
			_, text, _ = strings.Cut(rest, "|")
		}
		c.enter(byKind, text)
	}
	aside, _ := redis.Int(r.next(), nil)
	c.Aside += aside
}

// pairs calls a function for names and values that follow one another.
func pairs(texts []string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for i := 0; i+1 < len(texts); i += 2 {
			if !yield(texts[i], texts[i+1]) {
				return
			}
		}
	}
}

// register adds an account from its value in tickets: ticket, lane, the ring's own
// fields, and then the cursor.
func (c *Census) register(tag, id, value string) {
	const head = 32
	a := &Account{ID: id, Tag: tag}
	ok := len(value) >= head
	if ok {
		a.Ticket, ok = number(value[:ticketWidth])
	}
	if !ok {
		c.Strays = append(c.Strays, fmt.Sprintf("ticket %q of %q", value, id))
		return
	}
	a.Lane, a.Cursor = value[ticketWidth], value[head:]
	c.Accounts[id] = a
}

// enter adds the entries of a list.
func (c *Census) enter(list, text string) {
	claimed := list == "processing_list"
	if claimed {
		c.Claimed++
	}
	e, ok := parse(text)
	if !ok {
		c.Leftover = append(c.Leftover, fmt.Sprintf("%s: %q", list, text))
		return
	}
	if claimed {
		c.Claims = append(c.Claims, e)
	} else {
		c.Waiting++
	}
	a := c.Accounts[e.ID]
	if a == nil || a.Ticket != e.Ticket {
		return // void
	}
	a.Places = append(a.Places, list)
	if claimed {
		a.Claims = append(a.Claims, e)
	} else {
		a.Queued = append(a.Queued, e)
	}
}

func (a *Account) set(name, value string) {
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

// ClaimsOf counts the current claims of a replica.
func (c *Census) ClaimsOf(replica string) int {
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
