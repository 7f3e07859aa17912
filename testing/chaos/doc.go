// Command chaos breaks a running service on purpose, one fault after the other,
// and judges what came of it:
//
//	go run ./testing/chaos --for 10m --seed 1 [--report FILE] [--on server,sentinel,cluster] [--faults a,b] [--list] [--binary PATH]
//	go run ./testing/chaos --draw FILE [--into PAGE]
//
// The first prints what came of it, and writes it as JSON to a file, with seed, commit,
// time and machine. The second draws the same page from such a file.
//
// There are three worlds, one after the other, and faults of each: a redis-server
// with an append-only file, which every process reaches through a proxy of its own
// (so that a partition may have one side only); a master, its replica and three
// sentinels; and a cluster of three masters with a replica each. The time is divided
// between them by the number of their faults. A run that is long enough for all of
// them, at 5 s each, goes on until each has come once. In each world chaos starts
// an API, three pollers and two monitors as processes of the built binary, and a
// fake third party that numbers each account's messages and writes down when every
// check began and ended. All listen on loopback. While clients register, pause, resume, nudge
// and deregister accounts and note what they were told (done, refused, unknown),
// a schedule drawn from the seed injects faults. The same seed returns the same
// faults in the same order with the same choices; how far a run gets depends on
// its length.
//
// # Recovery
//
// After each fault chaos waits until all processes are ready, every account has been
// checked again, and there are as many checks a second as before: fullShare of them,
// over rateOver. It does nothing for that; nobody is nudged. More than restWithin is a
// violation. Accounts whose checks failed wait out their backoff, half a minute after a
// first failure: the next fault need not wait for them, but they must be back
// wholeWithin the end. Then it reads every shard, each in one transaction: every account
// must be in exactly one place.
//
// What the fault did is computed from what the third party saw. A fault knows which
// accounts it concerns: those of a poller, a shard or a host, or all. One of them is
// interrupted if it waits for a good check longer than its cadence and its usual delay,
// by more than overdue, and back when that check begins. Recovery from the injection,
// and from the end of the fault, is when the last of the interrupted is back.
//
// # Controls
//
// Between the faults there are controls, turns like the others in which nothing is
// injected. What they show is in the table beside what the faults do. A fault must show
// in a metric of the service (where only a spare part of Redis is gone, in one of Redis'),
// and a metric that moves in any control of the run is no sign of a fault.
//
// # The end
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
//   - two checks of one account never overlap, except where one of them is of a live
//     poller that may have been cut from its claims (frozen or partitioned), or began
//     before Redis had rolled back all pollers' claims: such overlaps are counted. A
//     check whose caller went away counts as ended up to 250 ms before the third party
//     saw that;
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
// TestShortRun is a run of some of the faults with a fixed seed. TestBrokenRuleIsFound
// runs a service with a mistake, which must be found.
package main
