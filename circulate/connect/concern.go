package connect

// Concern is a setting or a state of a Redis that can lose what it has acknowledged, or
// will soon refuse writes.
type Concern struct {
	Node string // the server, as it is configured
	Code ConcernCode
	Text string // what it leads to and what to do, for people

	// Value is the policy of ConcernEviction, the percentage in use of ConcernMemory, and what
	// other codes say; empty for those that say nothing.
	Value string
}

// The codes of remarks.
const (
	RemarkEverySecond ConcernCode = "everysec"  // the append-only file is synced once a second
	RemarkMayEvict    ConcernCode = "may_evict" // keys would be evicted if there were a memory limit
	RemarkSettings    ConcernCode = "settings"  // the server does not tell its settings
	RemarkPasswords   ConcernCode = "passwords" // the server tells its passwords; Value: the settings
)

// ConcernCode names what a Concern is about.
type ConcernCode string

// The codes of concerns. Metrics and the API use these texts.
const (
	ConcernAppendOnly  ConcernCode = "appendonly"     // there is no append-only file
	ConcernAppendFails ConcernCode = "append_fails"   // it cannot be written
	ConcernEviction    ConcernCode = "eviction"       // keys are evicted when memory is short
	ConcernReplicas    ConcernCode = "min_replicas"   // a master that is cut off still accepts writes
	ConcernMemory      ConcernCode = "memory"         // little is left below maxmemory
	ConcernUnasked     ConcernCode = "unasked"        // the server does not answer the question; Value: the command
	ConcernNoSync      ConcernCode = "no_fsync"       // the system alone decides when the append-only file is on disk
	ConcernSnapshot    ConcernCode = "snapshot_fails" // the last snapshot failed, and writes are refused
	ConcernUnsaved     ConcernCode = "unsaved"        // a process that has everything itself cannot save it; Value: why
	ConcernDamaged     ConcernCode = "damaged"        // what it had saved was damaged; Value: the file that was set aside
	ConcernLarge       ConcernCode = "large"          // it has so much that saving takes long
)
