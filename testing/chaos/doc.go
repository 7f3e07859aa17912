// Command chaos breaks a running service on purpose, one fault after the other,
// and judges what came of it:
//
//	go run ./testing/chaos --for 10m --seed 1 [--on server,sentinel,cluster] [--faults a,b] [--json] [--list] [--binary PATH]
//
// There are three worlds, one after the other, and faults of each: a redis-server
// with an append-only file, which every process reaches through a proxy of its own
// (so that a partition may have one side only); a master, its replica and three
// sentinels; and a cluster of three masters with a replica each. The time is divided
// between them by the number of their faults. A run that is long enough for all of
// them, at 6.5 s each, goes on until each has come once. In each world chaos starts
// an API, three pollers and two monitors as processes of the built binary, and a
// fake third party that numbers each account's messages and writes down when every
// check began and ended. All listen on loopback. While clients register, pause, resume, nudge
// and deregister accounts and note what they were told (done, refused, unknown),
// a schedule drawn from the seed injects faults. The same seed gives the same
// faults in the same order with the same choices; how far a run gets depends on
// its length.
//
// After each fault chaos waits until all processes are ready, the checks of a
// second are as many as before and every account has been checked again; that is
// the recovery time, and too much of it a violation. Then it reads every shard,
// each in one transaction: every account must be in exactly one place. It also
// expects the metric or log line that the table names to have moved.
//
// At the end everything is told to stop and the whole history is judged, apart
// from what the service says of itself:
//
//   - each acknowledged registration, pause and deregistration holds; one of
//     unknown outcome may have happened or not; one that Redis itself lost (the
//     last second of appendfsync everysec at a power failure, what a replica had
//     not got when it took its master's place) may be undone, which the run counts;
//   - each account is in one place under its current ticket, parked ones with a
//     reason, processing_list is empty and no replica is left;
//   - each message that the third party gave out and that the account's cursor has
//     passed is in the streams exactly once;
//   - two checks of one account never overlap, except while a live poller may have
//     been cut from its claims (frozen, partitioned, or its claim rolled back by
//     Redis): there overlaps are counted. A check whose caller went away counts as
//     ended up to 250 ms before the third party saw that;
//   - no check of an account begins long after it was paused or deregistered;
//   - no process has many more goroutines at the end than after the start.
//
// Where a replica takes its master's place, Redis forgets what the replica had not
// got, whether that was acknowledged or not. The table marks these faults. They are
// judged by what is promised of them: every shard is an earlier state of itself, with
// each account in one place; what was found and forgotten is found again, under the
// same account and message id, and is in the stream once. What may be undone is what
// was acknowledged from a second before the fault until the old master was silent. In
// all other faults of these worlds replicas may not take over, and every
// acknowledged operation must hold. Sentinels and replicas wait 30 s or for ever
// between such faults, so that a busy machine is no fault.
//
// A slot that is moved to another node while a master of the two fails over is not
// injected: Redis itself then loses keys.
//
// It exits with 1 on any violation. Not injected, because no clock can be changed
// here without privileges: skewed clients and jumps of Redis' clock (package
// simulate has both); a full disk, on which Redis ends itself under appendfsync
// always, as redis-kill does. A checker that panics cannot be had from outside
// the process either: malformed, oversized and cut answers take its place.
//
// TestShortRun is a run of some of the faults with a fixed seed.
package main
