package api

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rounds-dev/rounds/accounts/job"
)

// JobMetrics counts the jobs of the namespace, and what came of those on which this process worked.
type JobMetrics struct {
	jobs  *prometheus.GaugeVec
	done  *prometheus.CounterVec
	steps prometheus.Counter
}

// NewJobMetrics registers the metrics. With a nil registry they are not exported.
func NewJobMetrics(registry prometheus.Registerer) *JobMetrics {
	with := promauto.With(registry)
	m := &JobMetrics{
		jobs: with.NewGaugeVec(prometheus.GaugeOpts{Namespace: "rounds", Name: "jobs",
			Help: "Jobs in Redis by state, as this process saw them when it last could look: running, stopping, stopped, ended (in the last day). Each process with role api has the same number."},
			[]string{"state"}),
		done: with.NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "jobs_done_total",
			Help: "Jobs that this process brought to an end, by result: ended; stopped, by somebody after a step; unknown, ended, and of some accounts nobody knows whether they were changed."},
			[]string{"result"}),
		steps: with.NewCounter(prometheus.CounterOpts{Namespace: "rounds", Name: "job_steps_failed_total",
			Help: "Steps of jobs that failed in this process, because Redis refused or could not be reached. A job goes on once Redis works again."}),
	}
	m.looked(nil)
	for _, result := range []string{jobEnded, jobStopped, jobUnknown} {
		m.done.WithLabelValues(result)
	}
	return m
}

// The results of jobs.
const jobEnded, jobStopped, jobUnknown = "ended", "stopped", "unknown"

func (m *JobMetrics) looked(states map[job.State]int) {
	for _, state := range []job.State{job.Running, job.Stopping, job.Stopped, job.Ended} {
		m.jobs.WithLabelValues(string(state)).Set(float64(states[state]))
	}
}

func (m *JobMetrics) ended(j job.Job) {
	result := jobEnded
	switch {
	case j.State == job.Stopped:
		result = jobStopped
	case j.Unknown > 0:
		result = jobUnknown
	}
	m.done.WithLabelValues(result).Inc()
}

func (m *JobMetrics) failed() { m.steps.Inc() }
