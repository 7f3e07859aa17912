package api

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/budget"
	"github.com/rounds-dev/rounds/accounts/history"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// shardsNamed is the number of shards of a server from which they are no longer named one by one.
const shardsNamed = 256

// System is what the service runs on. It holds no secret.
type System struct {
	Now       time.Time          `json:"now" doc:"By Redis' clock."`
	Namespace string             `json:"namespace"`
	Store     string             `json:"store,omitempty" doc:"The Redis, without its password."`
	Forgets   bool               `json:"forgets,omitempty" doc:"The data is in the memory of a process of the service, and lost when the process ends."`
	Shards    int                `json:"shards"`
	Nodes     []RedisNode        `json:"nodes" nullable:"false" doc:"The Redis servers that hold data, as they were at most 30 seconds ago."`
	Settings  []SettingValue     `json:"settings" nullable:"false" doc:"The settings on which the processes of a role should agree, by name. Secrets, and settings of a single process or machine, are left out."`
	Versions  []Version          `json:"versions" nullable:"false" doc:"The versions of all living processes, the most frequent first."`
	Memory    *MemoryOutlook     `json:"memory,omitempty" doc:"How Redis' memory grows, of all servers together. Left out while less than a day is known of it."`
	Capacity  *accounts.Capacity `json:"capacity,omitempty" doc:"How many more accounts fit, if they are like those that there are: as large, checked as often, by checks that take as long. It covers Redis' memory, the places of pollers and the budget of adaptive accounts; not processors, networks, disks, and what third parties allow. Left out if none of these is known."`
	Processes []Running          `json:"processes" nullable:"false" doc:"Processes of all roles, at most 1000, the oldest first. Silent ones are listed for ten minutes."`
}

// MemoryOutlook is how Redis' memory grows, judged by at most the last week.
type MemoryOutlook struct {
	Used   int64   `json:"used_bytes"`
	Limit  int64   `json:"limit_bytes,omitempty" doc:"maxmemory; left out if a server has none."`
	PerDay int64   `json:"per_day_bytes" doc:"By how much it grows a day; negative: it falls; 0: neither can be told."`
	Over   float64 `json:"over_seconds" doc:"The time by which that was judged."`
	Full   float64 `json:"full_seconds,omitempty" doc:"In so many seconds it is full, at this rate. Left out: not within a year."`
}

// memory returns how memory grows, or nil if too little is known.
func (s *Server) memory(ctx context.Context) *MemoryOutlook {
	m, ok, err := s.history.Memory(ctx)
	if err != nil || !ok { // the rest of the reply is as good without it
		return nil
	}
	return &MemoryOutlook{Used: int64(m.Used), Limit: int64(m.Limit), PerDay: int64(m.PerDay), Over: m.Over.Seconds(), Full: m.Full.Seconds()}
}

// load returns what the accounts use, as far as it is known.
func (s *Server) load(ctx context.Context, stats *accounts.Stats, nodes []RedisNode) accounts.Load {
	l := accounts.Load{MemoryMark: s.options.MemoryMark}
	l.Memory, l.MemoryLimit = fullest(nodes)
	for i := range stats.Replicas {
		if r := &stats.Replicas[i]; stats.Alive(r.Beat, s.options.DeadAfter) {
			l.InFlight += float64(r.Report.InFlight)
			l.Places += float64(r.Report.Concurrency)
			l.Held += float64(r.Report.Held)
			l.HeldPlaces += float64(r.Report.HeldChecks)
		}
	}
	if state, ok, err := budget.Current(ctx, s.options.Ring); err == nil && ok {
		l.Spent, l.Budget = state.Firm()
	}
	day, err := s.history.Look(ctx, history.Query{Before: 24 * time.Hour, Step: busyFor, Fields: []history.Field{history.Claimed, history.Overdue}})
	if err != nil {
		return l // what is used at this moment says something too
	}
	for i, claimed := range day.Curves[0].Mean {
		if l.Held == 0 && claimed > l.InFlight { // otherwise the claimed accounts are also held ones
			l.InFlight = claimed
		}
		if overdue := day.Curves[1].Mean[i]; !math.IsNaN(overdue) { // the last one that is known decides
			l.Late = overdue >= circulate.Late.Seconds()
		}
	}
	l.InFlight = min(l.InFlight, l.Places)
	return l
}

// fullest returns the memory of the server that is full first, or zeros if no server has a limit.
func fullest(nodes []RedisNode) (used, limit float64) {
	for i := range nodes {
		n := &nodes[i]
		if n.Limit > 0 && float64(n.Used)*limit >= used*float64(n.Limit) {
			used, limit = float64(n.Used), float64(n.Limit)
		}
	}
	return used, limit
}

// busyFor is how long the busiest time of a day lasts by which places are judged.
const busyFor = 10 * time.Minute

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

// systemRoutes adds the route that shows what the service runs on.
func (s *Server) systemRoutes(api huma.API) {
	answer(s, api, "get system", huma.Operation{
		OperationID: "get-system", Method: http.MethodGet, Path: "/v1/system", Tags: []string{"service"},
		Summary: "Redis servers, shards, settings and versions",
		Description: "What the service runs on: the Redis servers that hold its data, judged by whether they could lose it, and the shards of each; the settings in force in all processes, and where they differ; processes and their versions. " +
			"It holds no secret.",
		Errors: []int{401, 503},
	}, s.getSystem)
}

func (s *Server) getSystem(ctx context.Context, _ *struct{}) (System, error) {
	stats, err := s.registry(ctx).Reported(ctx)
	if err != nil {
		return System{}, err
	}
	reply := System{
		Now: stats.Now.UTC(), Namespace: s.options.Ring.Namespace(), Shards: stats.Shards,
		Nodes: []RedisNode{}, Processes: make([]Running, len(stats.Processes)),
	}
	if s.options.Store != nil {
		store := s.options.Store(ctx) // while servers do not answer, it returns what it last knew
		reply.Store, reply.Forgets = store.Name, store.Forgets
		reply.Nodes = s.nodes(store.Nodes)
	}
	var living []*accounts.Process
	for i := range stats.Processes {
		p := &stats.Processes[i]
		alive := stats.Alive(p.Beat, s.options.DeadAfter)
		if alive {
			living = append(living, p)
		}
		reply.Processes[i] = Running{
			Name: p.Name, Roles: p.Roles, Version: p.Report.Version, Host: p.Report.Host, Since: p.Report.Since.UTC(),
			LastHeartbeat: p.Beat.Truncate(time.Millisecond).UTC(), Alive: alive,
		}
	}
	reply.Settings, reply.Versions, reply.Memory = settingsOf(living), versionsOf(living), s.memory(ctx)
	reply.Capacity = accounts.CapacityOf(s.load(ctx, &stats, reply.Nodes))
	return reply, nil
}

// nodes returns the servers with the shards that each serves.
func (s *Server) nodes(known []StoreNode) []RedisNode {
	all := make([]RedisNode, len(known))
	serving := make(map[string][]int)
	for shard := range s.options.Ring.Shards() {
		node := s.options.Ring.Node(shard)
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

// Store says where everything is stored, and in which Redis servers.
type Store struct {
	Name    string // the Redis, without its password
	Forgets bool   // the data is in the memory of a process of the service, and lost when the process ends
	Nodes   []StoreNode
}

// StoreNode is a Redis server that holds data. Fields that the server does not report are empty or
// zero.
type StoreNode struct {
	Name string // its address in a cluster
	Away bool   // it cannot be reached

	Software string  // such as Valkey
	Version  string  // of the software
	Up       float64 // seconds since its start

	Used, Limit  int64  // bytes of memory; Limit 0: there is none
	Policy       string // maxmemory-policy
	AppendOnly   string // yes or no
	AppendStatus string // of the last write of the append-only file: ok, or an error
	Fsync        string // always, everysec or no
	Replicas     int    // that are connected
	Guarded      bool   // min-replicas-to-write is not 0
}

// Verdict judges one property of a Redis server.
type Verdict struct {
	About string `json:"about" enum:"memory,persistence,eviction,replicas"`
	Level string `json:"level" enum:"good,note,warn,bad"`
	Code  string `json:"code" enum:"within,unlimited,filling,full,appends,append_fails,no_fsync,no_append,keeps,may_evict,evicts,none,waits_for_replicas,may_forget,unknown" doc:"memory: within, filling (from 80 %) or full (from 95 %) of maxmemory, or unlimited. persistence: appends (an append-only file is written), append_fails, no_fsync (only the system decides when writes reach the disk), no_append. eviction: keeps (noeviction), evicts (keys are dropped when memory is full), may_evict (they would be dropped, but there is no maxmemory). replicas: none, waits_for_replicas (min-replicas-to-write is 1 or more), may_forget (it is 0: a master that is cut off accepts writes that a failover forgets). unknown: the server does not say."`
	Value string `json:"value,omitempty" doc:"The percentage in use, the policy, the error, or the number of replicas."`
}

// These are the marks of memory in use, in per cent of maxmemory.
const (
	fillingFrom = 80
	fullFrom    = 95
)

// judge returns the verdicts about a server.
func (n *StoreNode) judge() []Verdict {
	if n.Away {
		return []Verdict{}
	}
	return []Verdict{n.memory(), n.persistence(), n.eviction(), n.replicas()}
}

func (n *StoreNode) memory() Verdict {
	v := Verdict{About: "memory", Level: "good", Code: "within"}
	switch share := share(n.Used, n.Limit); {
	case n.Used == 0:
		v.Level, v.Code = "note", "unknown"
	case n.Limit == 0:
		v.Level, v.Code = "note", "unlimited"
	default:
		v.Value = strconv.Itoa(int(100 * share))
		if 100*share >= fillingFrom {
			v.Level, v.Code = "warn", "filling"
		}
		if 100*share >= fullFrom {
			v.Level, v.Code = "bad", "full"
		}
	}
	return v
}

func share(used, limit int64) float64 { return circulate.Memory{Used: used, Limit: limit}.Share() }

func (n *StoreNode) persistence() Verdict {
	switch {
	case n.AppendOnly == "yes" && n.AppendStatus != "" && n.AppendStatus != "ok":
		return Verdict{About: "persistence", Level: "bad", Code: "append_fails", Value: n.AppendStatus}
	case n.AppendOnly == "yes" && n.Fsync == "no":
		return Verdict{About: "persistence", Level: "warn", Code: "no_fsync"}
	case n.AppendOnly == "yes":
		return Verdict{About: "persistence", Level: "good", Code: "appends"}
	case n.AppendOnly == "no":
		return Verdict{About: "persistence", Level: "warn", Code: "no_append"}
	}
	return Verdict{About: "persistence", Level: "note", Code: "unknown"}
}

func (n *StoreNode) eviction() Verdict {
	switch {
	case n.Policy == "":
		return Verdict{About: "eviction", Level: "note", Code: "unknown"}
	case n.Policy == "noeviction":
		return Verdict{About: "eviction", Level: "good", Code: "keeps"}
	case n.Limit == 0:
		return Verdict{About: "eviction", Level: "note", Code: "may_evict", Value: n.Policy}
	}
	return Verdict{About: "eviction", Level: "bad", Code: "evicts", Value: n.Policy}
}

func (n *StoreNode) replicas() Verdict {
	v := Verdict{About: "replicas", Level: "note", Value: strconv.Itoa(n.Replicas)}
	switch {
	case n.Replicas == 0:
		v.Code, v.Value = "none", ""
	case !n.Guarded:
		v.Level, v.Code = "warn", "may_forget"
	default:
		v.Level, v.Code = "good", "waits_for_replicas"
	}
	return v
}

// Reloaded is the result of reading settings again.
type Reloaded struct {
	Changed []string `json:"changed" nullable:"false" doc:"Changes that have taken effect: variables, including secrets in the settings file, and contents of files."`
	Restart []string `json:"restart" nullable:"false" doc:"Changed variables that take effect after a restart."`
}

// reloadRoute adds the route if the process can read its settings again.
func (s *Server) reloadRoute(api huma.API) {
	if s.options.Reload == nil {
		return
	}
	answer(s, api, "reload", huma.Operation{
		OperationID: "reload", Method: http.MethodPost, Path: "/v1/reload", Tags: []string{"service"},
		Summary: "Read settings and their files again",
		Description: "Only for the process that answers: each process has its own settings and files. Everything is judged before any of it takes effect. If there is a fault, " +
			"422 names every fault and nothing changes.",
		Errors: []int{401, 422, 503},
	}, s.reload)
}

func (s *Server) reload(ctx context.Context, _ *struct{}) (Reloaded, error) {
	done, err := s.options.Reload(ctx)
	var faults accounts.Faults
	if errors.As(err, &faults) {
		return Reloaded{}, newErrorReply(http.StatusUnprocessableEntity, "the settings are refused, and nothing has changed", detailsOf(faults, "")...)
	}
	if err != nil {
		return Reloaded{}, err
	}
	trail.Of(ctx).Fields(done.Changed)
	done.Changed, done.Restart = append([]string{}, done.Changed...), append([]string{}, done.Restart...)
	return done, nil
}
