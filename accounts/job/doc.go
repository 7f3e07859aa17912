// Package job does changes of many accounts as jobs: stored in Redis, done step by step by any
// process of the API, and visible to all. A job outlives the request that ordered it and the
// process that works on it. It can be stopped, resumed, and for an hour taken back.
//
// # A step
//
// A step changes up to accounts.BulkStep accounts of one shard, which it finds among some 10,000. The process that holds the job's
// lease notes the step in Redis, together with the counts so far, does it, and counts it with the
// note of the next step. A process that is killed in between leaves a noted step of which nobody
// knows how much was done. The next holder looks at each account of that step first: what was done
// counts as changed once, and only the rest is done. So each account is changed once, with one
// exception: up to a step of accounts may be nudged twice.
//
// # A lease
//
// A process that works on a job holds its lease, which is a part of the job's document. Each
// write renews it for 15 seconds, and fails if another process wrote the document since. A job
// whose holder is gone is taken over within 20 seconds. At most four jobs are under way at once.
// After the first five seconds, each rests after a step as long as the step took.
//
// # Taking back
//
// The notes of a job that pauses accounts or sets values are kept for an hour after its end:
// they say how each account was. Taking the job back is another job, which goes through the notes
// and leaves out accounts that somebody changed since. A job that changes more than MostUndo
// accounts, or needs more than MostUndoBytes for its notes, cannot be taken back.
//
// # Bounds
//
// A namespace has at most document.MostJobs jobs. An ended job is removed a day after its end,
// and a stopped one after a week. Notes take about 150 bytes for each account, 16 MiB for a job,
// and 64 MiB for all jobs; a job of a million accounts, which has no notes to keep, takes some
// 20 KiB. A version that does not know jobs leaves them alone.
package job
