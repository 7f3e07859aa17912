package history

// Field is one of the figures of a sample.
type Field int

// The figures. Rates and lateness cover the time since the sample before. The others are
// the latest findings.
const (
	ChecksPerSecond   Field = iota // checks that ended
	MessagesPerSecond              // messages that checks found
	FailingShare                   // the part of the checks that failed, 0 to 1
	LatenessP50                    // in seconds, of the checks that began
	LatenessP99                    // the same
	StalenessP99                   // in seconds, as the last scan found it
	StalenessMax                   // the same
	Overdue                        // seconds that the longest overdue account has waited to be claimed
	Registered                     // accounts
	Scheduled                      // accounts
	Waiting                        // accounts in all lanes
	Urgent                         // accounts in the urgent lane
	Low                            // accounts in the low lane
	Claimed                        // accounts
	Parked                         // accounts
	Failing                        // accounts whose last check failed, as the last scan found them
	Replicas                       // pollers that are alive
	MemoryUsed                     // bytes, of all nodes of Redis together
	MemoryLimit                    // the same; missing if a node has no limit

	fields = int(iota)
)

// names are the figures' names in the API.
func names() [fields]string {
	return [fields]string{
		ChecksPerSecond: "checks_per_second", MessagesPerSecond: "messages_per_second", FailingShare: "failing_share",
		LatenessP50: "lateness_p50_seconds", LatenessP99: "lateness_p99_seconds",
		StalenessP99: "staleness_p99_seconds", StalenessMax: "staleness_max_seconds", Overdue: "overdue_seconds",
		Registered: "registered", Scheduled: "scheduled", Waiting: "waiting", Urgent: "waiting_urgent", Low: "waiting_low",
		Claimed: "claimed", Parked: "parked", Failing: "failing_accounts", Replicas: "replicas",
		MemoryUsed: "memory_used_bytes", MemoryLimit: "memory_limit_bytes",
	}
}

// Fields returns all figures.
func Fields() []Field {
	all := make([]Field, fields)
	for i := range all {
		all[i] = Field(i)
	}
	return all
}

// String returns the figure's name, such as checks_per_second.
func (f Field) String() string {
	if f < 0 || int(f) >= fields {
		return "unknown"
	}
	return names()[f]
}

// FieldNamed returns the figure with a name, and whether there is one.
func FieldNamed(name string) (Field, bool) {
	for i, known := range names() {
		if known == name {
			return Field(i), true
		}
	}
	return 0, false
}

// hasMin reports whether the least value of a time matters besides the mean.
func (f Field) hasMin() bool { return f == ChecksPerSecond || f == Replicas }

// hasMax reports whether the greatest value of a time matters besides the mean.
func (f Field) hasMax() bool {
	switch f {
	case ChecksPerSecond, MessagesPerSecond, FailingShare, LatenessP99, Overdue, Waiting, MemoryUsed:
		return true
	}
	return false
}
