package circulate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var replicasScript = wire.NewVitalScript("replicas", lua("replicas"))

// Replica is one running poller process.
type Replica struct {
	Name   string
	Beat   time.Time // its last heartbeat, by Redis' clock
	Report []byte    // what it reported then; opaque to the ring
}

// Heartbeat reports that a replica is alive, with a report of its own. It returns all
// replicas with a heartbeat within the window.
func (r *Ring) Heartbeat(ctx context.Context, replica string, report []byte, window time.Duration) (alive []string, err error) {
	if err := ValidateReplica(replica); err != nil {
		return nil, err
	}
	alive, err = r.wire.Beat(ctx, r.presence(), replica, report, window)
	if err != nil {
		return nil, fmt.Errorf("heartbeat: %w", err)
	}
	return alive, nil
}

func (r *Ring) presence() wire.Presence {
	return wire.Presence{Beats: replicasKey(r.namespace), Reports: reportsKey(r.namespace)}
}

// Retire removes a replica that has released all its claims.
func (r *Ring) Retire(ctx context.Context, replica string) error {
	if err := r.wire.Retire(ctx, r.presence(), replica); err != nil {
		return fmt.Errorf("retire: %w", err)
	}
	return nil
}

// Replicas returns the known replicas, and the time by the same clock.
func (r *Ring) Replicas(ctx context.Context) ([]Replica, time.Time, error) {
	results, err := redis.Values(r.wire.Eval(ctx, replicasScript, []string{replicasKey(r.namespace), reportsKey(r.namespace)}, nil))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("replicas: %w", err)
	}
	if len(results) != 3 {
		return nil, time.Time{}, fmt.Errorf("replicas: %w", wire.ErrReply)
	}
	ms, err := redis.Int64(results[0], nil)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("replicas: %w", err)
	}
	now := time.UnixMilli(ms)
	beats, err := redis.ByteSlices(results[1], nil)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("replicas: %w", err)
	}
	reports, err := redis.StringMap(results[2], nil)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("replicas: %w", err)
	}
	replicas := make([]Replica, 0, len(beats)/2)
	for i := 0; i+1 < len(beats); i += 2 {
		beat, err := score(beats[i+1])
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("replicas: %w", err)
		}
		name := string(beats[i])
		replicas = append(replicas, Replica{Name: name, Beat: beat, Report: []byte(reports[name])})
	}
	return replicas, now, nil
}

// Preferred returns the replica that a shard belongs to, by rendezvous hashing: the one
// with the highest hash. So a replica that comes or goes moves only its own shards. It
// returns "" if there are no replicas.
func Preferred(shard int, replicas []string) string {
	best, highest := "", uint64(0)
	for _, replica := range replicas {
		if h := rendezvous(replica, shard); best == "" || h > highest {
			best, highest = replica, h
		}
	}
	return best
}

// rendezvous is FNV-1a over the replica, finished with the shard by the mixer of
// SplitMix64, in which every bit depends on all bits.
func rendezvous(replica string, shard int) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(replica) {
		h = (h ^ uint64(replica[i])) * 1099511628211
	}
	h += uint64(shard+1) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

var (
	attendScript  = wire.NewScript("attend", lua("attend"))
	rosterScript  = wire.NewScript("roster", lua("roster"))
	membersScript = wire.NewScript("members", lua("members"))
)

const (
	processMemory = 24 * time.Hour // after this a silent process is forgotten even if no monitor looks
	processesLeft = 1000           // the most that no monitor has read yet
	processSeen   = 10 * time.Minute
	rosterMost    = 1000
)

// Process is a running process of the service.
type Process struct {
	Name  string // unique among processes
	Roles string // what it does: names joined by commas
}

func (p Process) member() string { return p.Roles + "|" + p.Name }

func processOf(member string) Process {
	roles, name, _ := strings.Cut(member, "|")
	return Process{Name: name, Roles: roles}
}

// Member is a process of the roster, as it last reported itself.
type Member struct {
	Process
	Said  time.Time // when it last reported itself, by Redis' clock
	About []byte    // its report; opaque to the ring, empty from an earlier version
}

// Roster lists the running processes of any role. It shows operators which processes are
// gone, including processes without accounts. No account depends on it.
type Roster struct{ ring *Ring }

// Roster returns the roster of the ring's namespace.
func (r *Ring) Roster() Roster { return Roster{r} }

// Attend reports that a process runs. Its report is stored, and need only be passed at
// first, when it has changed, and after known was false.
func (r Roster) Attend(ctx context.Context, p Process, about []byte) (known bool, err error) {
	return r.say(ctx, p, 0, about)
}

// Depart says that a process ends properly, and removes it from the roster.
func (r Roster) Depart(ctx context.Context, p Process) error {
	_, err := r.say(ctx, p, 1, nil)
	return err
}

func (r Roster) say(ctx context.Context, p Process, leaves int, about []byte) (known bool, err error) {
	known, err = redis.Bool(r.ring.wire.Eval(ctx, attendScript, rosterKeys(r.ring.namespace),
		[]any{p.member(), leaves, processMemory.Milliseconds(), processesLeft, processSeen.Milliseconds(), about}))
	if err != nil {
		return false, fmt.Errorf("attend: %w", err)
	}
	return known, nil
}

// Members returns the processes of any role that run or went silent within the last ten
// minutes, the latest 1000 at most. It also returns the time by the same clock.
func (r Roster) Members(ctx context.Context) ([]Member, time.Time, error) {
	keys := rosterKeys(r.ring.namespace)
	replies, err := redis.Values(r.ring.wire.Eval(ctx, membersScript, []string{keys[0], keys[2], keys[3]}, []any{rosterMost, processSeen.Milliseconds()}))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("roster: %w", err)
	}
	if len(replies) == 0 {
		return nil, time.Time{}, fmt.Errorf("roster: %w", wire.ErrReply)
	}
	ms, err := redis.Int64(replies[0], nil)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("roster: %w", err)
	}
	members := make([]Member, 0, len(replies)/3)
	for rest := replies[1:]; len(rest) > 0; {
		var name string
		var said []byte
		var m Member
		if rest, err = redis.Scan(rest, &name, &said, &m.About); err == nil {
			m.Said, err = score(said)
		}
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("roster: %w: %w", wire.ErrReply, err)
		}
		m.Process = processOf(name)
		members = append(members, m)
	}
	return members, time.UnixMilli(ms), nil
}

// Look returns the processes that have reported, with the times of their last reports by
// Redis' clock, and the processes that have left since the last Look.
func (r Roster) Look(ctx context.Context) (there map[Process]time.Time, left []Process, err error) {
	replies, err := redis.Values(r.ring.wire.Eval(ctx, rosterScript, rosterKeys(r.ring.namespace)[:2], []any{rosterMost}))
	if err != nil {
		return nil, nil, fmt.Errorf("roster: %w", err)
	}
	if len(replies) != 2 {
		return nil, nil, fmt.Errorf("roster: %w", wire.ErrReply)
	}
	said, err := redis.ByteSlices(replies[0], nil)
	if err != nil {
		return nil, nil, fmt.Errorf("roster: %w", err)
	}
	there = make(map[Process]time.Time, len(said)/2)
	for i := 0; i+1 < len(said); i += 2 {
		at, err := score(said[i+1])
		if err != nil {
			return nil, nil, fmt.Errorf("roster: %w", err)
		}
		there[processOf(string(said[i]))] = at
	}
	gone, err := redis.Strings(replies[1], nil)
	if err != nil {
		return nil, nil, fmt.Errorf("roster: %w", err)
	}
	for _, member := range gone {
		left = append(left, processOf(member))
	}
	return there, left, nil
}

// Forget removes a process from the roster, and reports whether it was there. If several
// monitors find a process silent, one of them gets true.
func (r Roster) Forget(ctx context.Context, p Process) (bool, error) {
	key := rosterKeys(r.ring.namespace)[0]
	replies, err := r.ring.wire.Pipeline(ctx, key, wire.Command{"ZREM", key, p.member()})
	if err != nil {
		return false, fmt.Errorf("roster: %w", err)
	}
	return redis.Bool(replies[0], nil)
}

var dutyScript = wire.NewScript("duty", lua("duty"))

// OnDuty asks for the duty that one monitor has at a time, for ttl from now. It reports
// whether the caller has it. The duty saves work and protects nothing: for a moment two
// callers may both be on duty, and their work must allow for that. A ttl of zero or less
// gives the duty up.
func (r *Ring) OnDuty(ctx context.Context, who string, ttl time.Duration) (bool, error) {
	mine, err := redis.Bool(r.wire.Eval(ctx, dutyScript, []string{dutiesKey(r.namespace)}, []any{who, ttl.Milliseconds()}))
	if err != nil {
		return false, fmt.Errorf("duty: %w", err)
	}
	return mine, nil
}
