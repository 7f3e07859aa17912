package connect

// Concern is a setting or a state of a Redis that can lose what it has acknowledged, or
// soon takes no more.
type Concern struct {
	Node string // which server, as it is configured
	Code ConcernCode
	Text string // what it leads to and what to do, for people
}

// ConcernCode says what a Concern is about.
type ConcernCode string

// The codes of concerns. Metrics and the API have them as they stand here.
const (
	ConcernAppendOnly  ConcernCode = "appendonly"   // there is no append-only file
	ConcernAppendFails ConcernCode = "append_fails" // it cannot be written
	ConcernEviction    ConcernCode = "eviction"     // keys are dropped for want of memory
	ConcernReplicas    ConcernCode = "min_replicas" // a master that is cut off takes writes all the same
	ConcernMemory      ConcernCode = "memory"       // little is left below maxmemory
	ConcernUnasked     ConcernCode = "unasked"      // the server does not tell
)
