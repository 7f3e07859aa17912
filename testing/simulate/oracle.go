package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/census"
	"github.com/rounds-dev/rounds/testing/simulate/replicas"
)

// lateness is how late a check may be when all is well. A replica waits a while before it
// takes over another's shard.
const lateness = 5 * time.Second

// oracle judges a world when it is at rest.
type oracle struct {
	world    *replicas.World
	up       *upstream
	reg      *registrar
	violated func(format string, args ...any)

	position []string       // how far each shard's stream was read
	recent   [][]mark       // of each shard: how far it was read in the last hour, the oldest first
	last     map[string]int // account and line -> its last message in the stream
	lines    map[string]int // account and life -> lines in the stream
	messages int
}

// recentFor is for how long no message is dropped. It is far below the monitors' retention, as
// steps of Redis' clock of some minutes count as time that has passed.
const recentFor = time.Hour

// mark is how far a stream was read at a time.
type mark struct {
	at       time.Time
	position string
}

func newOracle(w *replicas.World, up *upstream, reg *registrar, violated func(string, ...any)) *oracle {
	o := &oracle{world: w, up: up, reg: reg, violated: violated, last: make(map[string]int), lines: make(map[string]int)}
	for range w.Ring().Shards() {
		o.position, o.recent = append(o.position, circulate.StreamStart), append(o.recent, nil)
	}
	return o
}

// glance checks what must hold at every moment, whatever is under way: that no account is
// lost or in two places, and the streams.
func (o *oracle) glance() {
	if !o.world.Serves() {
		return
	}
	c, err := o.world.Census()
	if err != nil {
		o.violated("census: %v", err)
		return
	}
	for _, text := range c.Broken(census.OnceInTheQueue) {
		o.violated("I1: %s", text)
	}
	o.read()
	o.windows()
}

// judge checks everything, after all faults have healed and their effects have been
// repaired.
func (o *oracle) judge() *census.Census {
	o.read()
	c, err := o.world.Census()
	if err != nil {
		o.violated("census: %v", err)
		return nil
	}
	for _, text := range c.Broken(census.Once) {
		o.violated("I1: %s", text)
	}
	for _, text := range slices.Concat(c.Strays, c.Leftover) {
		o.violated("I6: left over: %s", text)
	}
	if c.Aside > 0 {
		o.violated("I1: %d texts were set aside", c.Aside)
	}
	if n := len(c.Accounts); c.Waiting > 2*n || len(c.Claims) > 2*n {
		o.violated("I6: %d entries wait and %d are held, of %d accounts", c.Waiting, len(c.Claims), n)
	}
	o.registrations(c)
	o.sends(c)
	for _, a := range c.Accounts {
		o.onCadence(c, a)
		o.committed(a)
	}
	return c
}

// registrations compares what is registered with what must be.
func (o *oracle) registrations(c *census.Census) {
	o.reg.mu.Lock()
	defer o.reg.mu.Unlock()
	for _, id := range o.reg.ids {
		var is state
		if a, ok := c.Accounts[id]; ok {
			record, _ := accounts.SplitRevision([]byte(a.Record))
			is = state{true, strings.HasPrefix(a.Reason, circulate.ReasonPaused), string(record)}
		}
		if !o.reg.beliefs[id].mayBe(is) {
			o.violated("I5: %q is %v, and must be %v", id, belief{is}, o.reg.beliefs[id])
		}
		o.reg.beliefs[id] = belief{is}
	}
	for id := range c.Accounts {
		if _, ok := o.reg.beliefs[id]; !ok {
			o.violated("I5: %q was never registered", id)
		}
	}
}

// onCadence checks that an account is due when it must be.
func (o *oracle) onCadence(c *census.Census, a *census.Account) {
	var record accounts.Account
	if err := json.Unmarshal([]byte(a.Record), &record); err != nil {
		o.violated("I5: the record of %q: %v", a.ID, err)
		return
	}
	every, err := cadence.Parse(record.Cadence)
	if err != nil {
		o.violated("I5: the record of %q: %v", a.ID, err)
		return
	}
	held := holdsOf(&record)
	// The upstream may ask to wait for longer than the interval.
	longest := max(every.Interval(), 3*time.Minute)
	if held {
		longest += holdOf // a step of the clock may take an account from its call, which is made again
	}
	if a.Failures != "" {
		longest = time.Hour
	}
	for _, e := range a.Queued {
		if late := c.Now.Sub(e.Stamp); late > lateness {
			o.violated("I6: %q has been waiting for %v", a.ID, late)
		}
	}
	for _, e := range a.Claims {
		if age := c.Now.Sub(e.Stamp); age > lateness && !(held && age < renewedBy+lateness) {
			o.violated("I2: %q has been held by %s for %v", a.ID, e.Replica, age)
		}
	}
	if !a.Due.IsZero() {
		if late := c.Now.Sub(a.Due); late > lateness {
			o.violated("I6: %q has been due for %v", a.ID, late)
		}
		if ahead := a.Due.Sub(c.Now); ahead > longest+time.Second {
			o.violated("I6: %q, %s, is due in %v: %s", a.ID, every, ahead, o.reg.why(a.ID))
		}
	}
	if held && a.Reason == "" && a.Failures == "" {
		o.isHeld(a)
	}
	if a.Reason == "" && a.Failures == "" && every.Interval() <= time.Minute {
		o.up.mu.Lock()
		last := o.up.last[a.ID]
		o.up.mu.Unlock()
		if since := time.Since(last); since > longest+lateness && !o.reg.touchedSince(a.ID, last) {
			o.violated("I6: %q, %s, was last checked %v ago", a.ID, every, since)
		}
	}
}

// read reads what is new in the streams: each line of an account's messages must continue
// where it ended.
func (o *oracle) read() {
	for shard := range o.position {
		for {
			found, err := o.world.Ring().Streams().Messages(context.Background(), shard, o.position[shard], 1000)
			if err != nil {
				o.violated("stream: %v", err)
				return
			}
			for i := range found {
				o.take(&found[i])
			}
			if len(found) < 1000 {
				break
			}
		}
		o.keeps(shard)
	}
}

// keeps checks that no message of the last hour was dropped from a shard's stream, whatever
// Redis' clock says.
func (o *oracle) keeps(shard int) {
	recent := append(o.recent[shard], mark{time.Now(), o.position[shard]})
	for time.Since(recent[0].at) > recentFor {
		recent = recent[1:]
	}
	o.recent[shard] = recent
	if recent[0].position == circulate.StreamStart {
		return
	}
	first, err := o.world.Ring().Streams().Messages(context.Background(), shard, circulate.StreamStart, 1)
	if err != nil {
		o.violated("stream: %v", err)
		return
	}
	was, err := circulate.ParseStreamID(recent[0].position)
	if err != nil {
		o.violated("stream: %v", err)
		return
	}
	if len(first) > 0 {
		if is, err := circulate.ParseStreamID(first[0].Position); err != nil || !was.Before(is) {
			return
		}
	}
	o.violated("I4: message %s of shard %d was dropped %v after it was read at the latest", recent[0].position, shard, time.Since(recent[0].at))
	o.recent[shard] = nil
}

func (o *oracle) take(f *circulate.Found) {
	o.position[f.Shard] = f.Position
	o.messages++
	var life, line, n int
	if _, err := fmt.Sscanf(f.Message.ID, "%d.%d.%d", &life, &line, &n); err != nil {
		o.violated("I4: a message %q that nobody found", f.Message.ID)
		return
	}
	key := fmt.Sprintf("%s %d.%d", f.Account, life, line)
	was, known := o.last[key]
	if !known {
		of := fmt.Sprintf("%s %d", f.Account, life)
		o.lines[of]++
		o.up.mu.Lock()
		most := 1 + o.up.dropped[of]
		o.up.mu.Unlock()
		if o.lines[of] > most {
			o.violated("I4: %q began anew without a reason: %s", f.Account, f.Message.ID)
		}
	}
	if n != was+1 {
		o.violated("I4: message %d of %s follows %d", n, key, was)
	}
	o.last[key] = n
}

// committed compares an account's cursor with the stream.
func (o *oracle) committed(a *census.Account) {
	if a.Cursor == "" {
		return
	}
	o.read() // what was added since
	dot := strings.LastIndexByte(a.Cursor, '.')
	var n int
	if _, err := fmt.Sscan(a.Cursor[dot+1:], &n); err != nil || dot < 0 {
		o.violated("I4: the cursor of %q is %q", a.ID, a.Cursor)
		return
	}
	if last := o.last[a.ID+" "+a.Cursor[:dot]]; last < n {
		o.violated("I4: the cursor of %q is %s, and the last message %d", a.ID, a.Cursor, last)
	}
}
