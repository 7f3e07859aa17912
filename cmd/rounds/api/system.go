package api

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
)

// shardsNamed is the number of shards of a server from which they are no longer named one by one.
const shardsNamed = 256

// System is what the service runs on. It holds no secret.
type System struct {
	Now       time.Time      `json:"now" doc:"By Redis' clock."`
	Namespace string         `json:"namespace"`
	Store     string         `json:"store,omitempty" doc:"The Redis, without its password."`
	Forgets   bool           `json:"forgets,omitempty" doc:"The data is in the memory of a process of the service, and lost when the process ends."`
	Shards    int            `json:"shards"`
	Nodes     []RedisNode    `json:"nodes" nullable:"false" doc:"The Redis servers that hold data, as they were at most 30 seconds ago."`
	Settings  []SettingValue `json:"settings" nullable:"false" doc:"The settings on which the processes of a role should agree, by name. Secrets, and settings of a single process or machine, are left out."`
	Versions  []Version      `json:"versions" nullable:"false" doc:"The versions of all living processes, the most frequent first."`
	Processes []Running      `json:"processes" nullable:"false" doc:"Processes of all roles, at most 1000, the oldest first. Silent ones are listed for ten minutes."`
}

// RedisNode is a Redis server that holds data.
type RedisNode struct {
	Name     string    `json:"name"`
	Away     bool      `json:"away,omitempty" doc:"It could not be reached."`
	Software string    `json:"software,omitempty" doc:"What it calls itself: Redis, Valkey, Redict or Dragonfly."`
	Version  string    `json:"version,omitempty"`
	Up       float64   `json:"up_seconds,omitempty" doc:"How long ago it started."`
	Used     int64     `json:"memory_used,omitempty" doc:"Bytes in use."`
	Limit    int64     `json:"memory_limit,omitempty" doc:"Its maxmemory in bytes; left out if it has none."`
	Shards   int       `json:"shards" doc:"How many shards it serves."`
	Numbers  []int     `json:"shard_numbers" nullable:"false" doc:"The numbers of these shards; empty for more than 256."`
	Judged   []Verdict `json:"judged" nullable:"false" doc:"Its memory, persistence, eviction and replicas, judged."`
}

// SettingValue is a setting and its values in the living processes.
type SettingValue struct {
	Name   string         `json:"name"`
	Value  string         `json:"value" doc:"The value in most processes. A long value is cut, with a digest of the whole."`
	Differ bool           `json:"differ,omitempty" doc:"Processes have different values."`
	Values []ValueInForce `json:"values,omitempty" doc:"All values, the most frequent first; left out if all processes have the same value."`
}

// ValueInForce is a value of a setting, and the processes that have it.
type ValueInForce struct {
	Value     string   `json:"value"`
	Processes []string `json:"processes" nullable:"false"`
}

// Version is how many processes run a version.
type Version struct {
	Version   string `json:"version" doc:"Empty for versions that do not report it."`
	Processes int    `json:"processes"`
}

// Running is a process of the service.
type Running struct {
	Name          string    `json:"name"`
	Roles         []string  `json:"roles" nullable:"false"`
	Version       string    `json:"version,omitempty"`
	Host          string    `json:"host,omitempty"`
	Since         time.Time `json:"since,omitzero" doc:"When it started, by its own clock."`
	LastHeartbeat time.Time `json:"last_heartbeat"`
	Alive         bool      `json:"alive"`
}

type systemReply struct {
	Body System
}

// addSystem adds the route that shows what the service runs on.
func (r Outlook) addSystem() {
	huma.Register(r.API, huma.Operation{
		OperationID: "get-system", Method: http.MethodGet, Path: "/v1/system", Tags: []string{"service"},
		Summary: "Redis servers, shards, settings and versions",
		Description: "What the service runs on: the Redis servers that hold its data, judged by whether they could lose it, and the shards of each; the settings in force in all processes, and where they differ; processes and their versions. " +
			"It holds no secret.",
		Errors: []int{401, 503},
	}, func(ctx context.Context, _ *struct{}) (*systemReply, error) {
		stats, err := r.Registry(ctx).Reported(ctx)
		if err != nil {
			return nil, r.Problem(ctx, "get system", err)
		}
		return &systemReply{r.system(ctx, &stats)}, nil
	})
}

// system returns what is known. Store is called even if Redis does not answer, because it remembers
// its last answer.
func (r Outlook) system(ctx context.Context, stats *accounts.Stats) System {
	s := System{
		Now: stats.Now.UTC(), Namespace: r.Ring.Namespace(), Shards: stats.Shards,
		Nodes: []RedisNode{}, Processes: make([]Running, len(stats.Processes)),
	}
	if r.Store != nil {
		store := r.Store(ctx)
		s.Store, s.Forgets = store.Name, store.Forgets
		s.Nodes = r.nodes(store.Nodes)
	}
	var living []*accounts.Process
	for i := range stats.Processes {
		p := &stats.Processes[i]
		alive := stats.Alive(p.Beat, r.DeadAfter)
		if alive {
			living = append(living, p)
		}
		s.Processes[i] = Running{
			Name: p.Name, Roles: p.Roles, Version: p.Report.Version, Host: p.Report.Host, Since: p.Report.Since.UTC(),
			LastHeartbeat: p.Beat.Truncate(time.Millisecond).UTC(), Alive: alive,
		}
	}
	s.Settings, s.Versions = settingsOf(living), versionsOf(living)
	return s
}

// nodes returns the servers with the shards that each serves.
func (r Outlook) nodes(known []StoreNode) []RedisNode {
	all := make([]RedisNode, len(known))
	serving := make(map[string][]int)
	for shard := range r.Ring.Shards() {
		node := r.Ring.Node(shard)
		serving[node] = append(serving[node], shard)
	}
	for i := range known {
		n := &known[i]
		shards := serving[n.Name]
		if len(known) == 1 {
			shards = slices.Concat(slices.Collect(maps.Values(serving))...)
			slices.Sort(shards)
		}
		all[i] = RedisNode{
			Name: n.Name, Away: n.Away, Software: n.Software, Version: n.Version, Up: n.Up, Used: n.Used, Limit: n.Limit,
			Shards: len(shards), Numbers: []int{}, Judged: n.judge(),
		}
		if len(shards) <= shardsNamed {
			all[i].Numbers = append(all[i].Numbers, shards...)
		}
	}
	return all
}

// settingsOf returns the settings of processes with all their values.
func settingsOf(living []*accounts.Process) []SettingValue {
	having := make(map[string]map[string][]string) // setting -> value -> processes
	for _, p := range living {
		for name, value := range p.Report.Settings {
			if having[name] == nil {
				having[name] = make(map[string][]string)
			}
			having[name][value] = append(having[name][value], p.Name)
		}
	}
	all := make([]SettingValue, 0, len(having))
	for _, name := range slices.Sorted(maps.Keys(having)) {
		var values []ValueInForce
		for value, processes := range having[name] {
			values = append(values, ValueInForce{value, processes})
		}
		slices.SortFunc(values, func(a, b ValueInForce) int {
			return cmp.Or(len(b.Processes)-len(a.Processes), strings.Compare(a.Value, b.Value))
		})
		one := SettingValue{Name: name, Value: values[0].Value}
		if len(values) > 1 {
			one.Differ, one.Values = true, values
		}
		all = append(all, one)
	}
	return all
}

func versionsOf(living []*accounts.Process) []Version {
	counts := make(map[string]int)
	for _, p := range living {
		counts[p.Report.Version]++
	}
	all := make([]Version, 0, len(counts))
	for version, n := range counts {
		all = append(all, Version{version, n})
	}
	slices.SortFunc(all, func(a, b Version) int {
		return cmp.Or(b.Processes-a.Processes, strings.Compare(a.Version, b.Version))
	})
	return all
}
