package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
)

const (
	slowPing = 20 * time.Millisecond
	clockOff = 10 * time.Second
	upUnit   = time.Second // Redis says in whole seconds how long it has been up
)

// throughRedis looks at the Redis of the settings, and at the ring in it.
func (d *doctor) throughRedis(ctx context.Context) knowledge {
	server, err := service.OpenServer(d.Settings.Redis)
	if err != nil {
		d.skip("redis", "the settings do not say how to reach it")
		return knowledge{}
	}
	known := knowledge{close: func() { _ = server.Close() }} // nothing was written
	there := false
	d.within(ctx, func(ctx context.Context) { there = d.reach(ctx, server) })
	if !there {
		for _, part := range []string{"namespace", "law", "replicas", "groups"} {
			d.skip(part, "Redis cannot be asked")
		}
		known.source = secretsOf(d.Settings, d.Service, nil)
		return known
	}
	var ring *circulate.Ring
	d.within(ctx, func(ctx context.Context) { ring = d.namespace(ctx, server) })
	known.source = secretsOf(d.Settings, d.Service, ring)
	if ring == nil {
		return known
	}
	known.ring = ring
	checkers, err := service.NewCheckers(d.Settings.Poller, d.Service)
	if err != nil {
		d.fault("settings", err.Error(), "")
		return known
	}
	registry := accounts.NewRegistry(ring, checkers)
	known.list = func(ctx context.Context) ([]accounts.View, error) {
		page, err := registry.List(ctx, accounts.Query{Limit: accounts.MaxListLimit})
		return page.Views, err
	}
	d.within(ctx, func(ctx context.Context) { d.ring(ctx, ring, registry) })
	d.files(ctx, ring)
	if d.Audit {
		d.audit(ctx, func(ctx context.Context, cursor string) (accounts.Audited, error) {
			return registry.Audit(ctx, accounts.AuditQuery{Cursor: cursor})
		})
	}
	return known
}

// reach reports how Redis is, and whether it can be used at all.
func (d *doctor) reach(ctx context.Context, server connect.Server) bool {
	if err := connect.Fit(ctx, server); err != nil {
		do := ""
		if unfit := new(connect.Unfit); !errors.As(err, &unfit) {
			do = fmt.Sprintf("see whether Redis runs at %s and ROUNDS_REDIS_URL names it: %v", server.Name(), err)
		}
		d.fault("redis", err.Error(), do)
		return false
	}
	conn, err := server.Conn(ctx, "")
	if err != nil {
		d.fault("redis", err.Error(), "")
		return false
	}
	defer conn.Close()
	took, off, err := pace(ctx, conn)
	switch {
	case err != nil:
		d.fault("redis", fmt.Sprintf("%s was reached, but does not answer: %v", server.Name(), err), "see Redis' log")
		return false
	case took > slowPing:
		d.warn("redis", fmt.Sprintf("%s answers after %v: each step of a check waits for it", server.Name(), round(took)), "run the service near Redis, and see what keeps Redis busy (SLOWLOG GET)")
	default:
		d.ok("redis", fmt.Sprintf("%s answers after %v", server.Name(), round(took)))
	}
	if off.Abs() > clockOff {
		d.warn("clock", fmt.Sprintf("Redis' clock is %v %s this machine's: accounts are due by Redis' clock, logs and certificates go by this machine's", off.Abs().Round(time.Second), ahead(off)), "set both clocks by NTP")
	} else {
		d.ok("clock", "Redis' clock and this machine's agree within "+clockOff.String())
	}
	nodes, err := connect.Survey(ctx, server)
	if err != nil {
		d.fault("redis", err.Error(), "")
	}
	for i := range nodes {
		d.node(&nodes[i])
		if n := &nodes[i]; n.Version != "" && (!d.upKnown || n.Up < d.up) {
			d.up, d.upKnown = n.Up, true
		}
	}
	return true
}

// pace measures the shortest of several calls, and how far the server's clock is ahead
// of ours.
func pace(ctx context.Context, conn redis.Conn) (least, ahead time.Duration, err error) {
	for i := range 5 {
		began := time.Now()
		now, err := redis.Int64s(redis.DoContext(conn, ctx, "TIME"))
		took := time.Since(began)
		if err != nil || len(now) != 2 {
			return 0, 0, errors.Join(err, ctx.Err())
		}
		if i == 0 || took < least {
			least, ahead = took, time.Unix(now[0], now[1]*1000).Sub(began.Add(took/2))
		}
	}
	return least, ahead, nil
}

func ahead(off time.Duration) string {
	if off < 0 {
		return "behind"
	}
	return "ahead of"
}

func round(took time.Duration) time.Duration { return took.Round(10 * time.Microsecond) }

// node reports what could make a server lose data.
func (d *doctor) node(n *connect.Node) {
	if n.Away {
		return // the error of the survey names it
	}
	if n.Version != "" {
		text := fmt.Sprintf("%s is %s %s, up for %v", n.Name, n.Software, n.Version, n.Up.Round(time.Second))
		switch {
		case n.Limit > 0:
			text += fmt.Sprintf(", and uses %s of %s", size(n.Used), size(n.Limit))
		case n.Used > 0:
			text += fmt.Sprintf(", and uses %s without a limit", size(n.Used))
		}
		d.ok("redis", text)
	}
	for _, c := range n.Concerns {
		switch c.Code {
		case connect.ConcernUnasked:
			d.ok("redis", c.Text)
		case connect.ConcernEviction, connect.ConcernAppendFails, connect.ConcernSnapshot:
			d.fault("redis", c.Text, "")
		default:
			d.warn("redis", c.Text, "")
		}
	}
	for _, c := range n.Remarks {
		d.ok("redis", c.Text)
	}
}

func size(bytes int64) string {
	if bytes < 10<<20 {
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

// namespace opens the ring, which must exist, because the doctor creates nothing.
func (d *doctor) namespace(ctx context.Context, server connect.Server) *circulate.Ring {
	name := d.Settings.Redis.Namespace
	made, err := circulate.Made(ctx, server, name)
	switch {
	case err != nil:
		d.fault("namespace", err.Error(), "")
		return nil
	case !made:
		d.warn("namespace", fmt.Sprintf("%s has nothing in this Redis yet", name), "start a process, which makes the namespace: rounds serve; or correct ROUNDS_NAMESPACE")
		return nil
	}
	ring, err := circulate.Open(ctx, server, circulate.Options{Namespace: name, Shards: d.Settings.Redis.Shards})
	if err != nil {
		d.fault("namespace", err.Error(), "")
		return nil
	}
	d.ok("namespace", shardsOf(ring))
	return ring
}

// shardsOf says how many shards a namespace has. As in stats, shards that accounts leave or have
// left are extra.
func shardsOf(ring *circulate.Ring) string {
	text := ring.Namespace() + " has " + counted(ring.Shards()-ring.Sources(), "shard")
	if old := ring.Sources(); old > 0 {
		text += fmt.Sprintf(", and the %s from before a change that is not over", counted(old, "shard"))
	}
	return text
}

// ring reports what is wrong with the service.
func (d *doctor) ring(ctx context.Context, ring *circulate.Ring, registry *accounts.Registry) {
	stats, err := registry.Stats(ctx)
	var list concern.Concerns
	if err == nil {
		stats.Outage = d.outage(&stats)
		list, err = concern.Collect(ctx, concern.Sources{
			Ring: ring, Registry: registry, DeadAfter: d.Settings.Monitor.DeadAfter, Webhooks: d.Settings.Delivery.WebhooksFile != "", Outage: stats.Outage,
		})
	}
	var l concern.Law
	if err == nil {
		l, err = concern.Read(ctx, ring)
	}
	if err != nil {
		d.fault("law", err.Error(), "")
		return
	}
	var there living
	for i := range stats.Replicas {
		there.replica(stats.Alive(stats.Replicas[i].Beat, d.Settings.Monitor.DeadAfter))
	}
	for i := range stats.Processes {
		there.process(stats.Alive(stats.Processes[i].Beat, d.Settings.Monitor.DeadAfter), stats.Processes[i].Roles)
	}
	d.concerns(list, &l, stats.Registered, there)
}

// outage returns the last outage of Redis. The doctor has only just connected and saw none. But
// the API remembers the outages that it saw, and Redis knows when it started.
func (d *doctor) outage(stats *accounts.Stats) circulate.Outage {
	last := stats.Outage
	if d.seen.Till.After(last.Till) {
		last = d.seen
	}
	if !d.upKnown {
		return last
	}
	restart := circulate.Outage{Till: stats.Now.Add(-d.up - upUnit)}
	heard := func(beat time.Time) {
		if beat.Before(restart.Till) && beat.After(restart.From) {
			restart.From = beat
		}
	}
	for i := range stats.Replicas {
		heard(stats.Replicas[i].Beat)
	}
	for i := range stats.Processes {
		heard(stats.Processes[i].Beat)
	}
	if !restart.From.IsZero() && restart.Till.After(last.Till) {
		last = restart
	}
	return last
}
