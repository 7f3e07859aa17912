package api

import (
	"strconv"

	"github.com/rounds-dev/rounds/circulate"
)

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
