package accounts

// Report is what a replica reports about itself with each heartbeat. Its figures cover the
// time since the heartbeat before.
type Report struct {
	Host              string  `json:"host,omitempty"`
	Concurrency       int     `json:"concurrency"`
	InFlight          int     `json:"in_flight"`
	ChecksPerSecond   float64 `json:"checks_per_second"`
	FailuresPerSecond float64 `json:"failures_per_second"`
	MessagesPerSecond float64 `json:"messages_per_second"`
	LatenessP50       float64 `json:"lateness_p50_seconds"`
	LatenessP99       float64 `json:"lateness_p99_seconds"`
	Layout            string  `json:"layout,omitempty"` // the shards that it knows, as circulate.Ring.Layout returns them
}
