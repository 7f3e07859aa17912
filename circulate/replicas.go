package circulate

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	//go:embed replicas.lua
	replicasLua string

	replicasScript = wire.NewVitalScript("replicas", replicasLua)
)

// Replica is one running poller process.
type Replica struct {
	Name   string
	Beat   time.Time // its last heartbeat, by Redis' clock
	Report []byte    // what it reported then; opaque to the ring
}

// Heartbeat reports that a replica is alive, with a report of its own. It returns all
// replicas that beat within the window.
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

// Retire forgets a replica that has released everything it held.
func (r *Ring) Retire(ctx context.Context, replica string) error {
	if err := r.wire.Retire(ctx, r.presence(), replica); err != nil {
		return fmt.Errorf("retire: %w", err)
	}
	return nil
}

// Replicas returns the replicas that are known, and the time now by the same clock.
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

// Preferred returns which of several replicas a shard belongs to, by rendezvous hashing:
// the one with the highest hash. So a replica that comes or goes moves only its own
// shards. It returns "" if there are no replicas.
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
