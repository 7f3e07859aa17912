// Command chaos breaks a running service on purpose, one fault after the other, and
// judges the result:
//
//	go run -C testing/chaos . --for 10m --seed 1 [--report FILE] [--on server,sentinel,cluster] [--faults a,b] [--list] [--binary PATH]
//	go run -C testing/chaos . --draw FILE [--into PAGE]
//
// The first command prints the result, and writes it as JSON to a file, with seed,
// commit, time and machine. The second draws the same page from such a file.
//
// There are three worlds, one after the other, each with its faults: a redis-server with
// an append-only file, which every process reaches through a proxy of its own (so that a
// partition may have one side only); a master, its replica and three sentinels; and a
// cluster of three masters with a replica each. The time is divided between them by the
// number of their faults. A run that is long enough for all of them, at 5 s each, goes on
// until each has come once. In each world chaos starts an API, three pollers and two
// monitors as processes of the built binary. A fake third party numbers each account's
// messages and records when every check began and ended. All listen on loopback. Clients
// register, pause, resume, nudge and deregister accounts and record the outcome (done,
// refused, unknown). Callers ask for sends, and repeat each request until somebody
// answers. Meanwhile a schedule drawn from the seed injects faults. The same
// seed produces the same faults in the same order with the same choices; how far a run
// gets depends on its length.
//
// # Recovery
//
// After each fault chaos waits until all processes are ready, every account has been
// checked again, and there are as many checks a second as before: fullShare of them, over
// rateOver. It does nothing to help: no account is nudged. Taking longer than restWithin
// is a violation. Accounts whose checks failed wait out their backoff, about one interval
// after a first failure, or wait at their host. The next fault need not wait for them, but they must be back
// wholeWithin the end. Then chaos reads every shard, each in one transaction: every
// account must be in exactly one place.
//
// What the fault did is computed from what the third party saw. A fault knows which
// accounts it concerns: those of a poller, a shard or a host, or all. An account is
// interrupted if it waits for a good check longer than its cadence and its usual delay,
// by more than overdue. It is back when that check begins. Recovery from the injection,
// and from the end of the fault, is when the last interrupted account is back.
//
// # Controls
//
// Between the faults there are controls: turns like the others in which nothing is
// injected. The table shows what they measure beside what the faults do. A fault must
// show in a metric of the service (where only a spare part of Redis is gone, in one of
// Redis'). A metric that moves in any control of the run is no sign of a fault.
//
// # The end
//
// At the end all processes are told to stop. The whole history is judged independently of
// what the service reports:
//
//   - each acknowledged registration, pause and deregistration holds; one of
//     unknown outcome may have happened or not; one that Redis itself lost (the
//     last second of appendfsync everysec at a power failure, what a replica had
//     not received when it took its master's place) may be undone, which the run
//     counts;
//   - each account is in one place under its current ticket, parked ones with a
//     reason, processing_list is empty and no replica is left;
//   - each message that the third party returned and that the account's cursor has
//     passed is in the streams exactly once;
//   - no send arrives twice at the third party, which takes some and cuts the answer: each
//     is accepted and has arrived, is rejected and has not, or is unknown; whatever replies
//     are lost, a request with the same Idempotency-Key is the same send; a peer's sends
//     arrive in the order in which they were asked for, except those that were unknown.
//     Where Redis itself lost writes, a send may be lost, and one may arrive twice if
//     that Redis cannot say what is on its disk (before 7.2) or a replica took over: both
//     are counted;
//   - two checks of one account never overlap, except where one of them is of a live
//     poller that may have been cut from its claims (frozen or partitioned), or began
//     before Redis had rolled back all pollers' claims: such overlaps are counted. A
//     check whose caller went away counts as ended up to 250 ms before the third party
//     saw that;
//   - no check of an account begins long after it was paused or deregistered;
//   - no process has many more goroutines at the end than after the start.
//
// When a replica takes its master's place, Redis forgets what the replica had not
// received, acknowledged or not. The table marks these faults. They are judged by what is
// promised of them: every shard is an earlier state of itself, with each account in one
// place; a message that was found and forgotten is found again, under the same account
// and message id, and is in the stream once. What was acknowledged from a second before
// the fault until the old master was silent may be undone. In all other faults of these
// worlds replicas may not take over, and every acknowledged operation must hold.
// Sentinels and replicas wait 30 s or for ever between such faults, so that a busy
// machine does not cause a failover.
//
// One fault is not injected: moving a slot to another node while a master of the two
// fails over. Redis itself then loses keys.
//
// The command exits with 1 on any violation. Skewed clients and jumps of Redis' clock are
// not injected, because no clock can be changed here without privileges; package simulate
// has both. Nor is a full disk, on which Redis ends itself under appendfsync always, as
// redis-kill does. A checker that panics cannot be caused from outside the process
// either: malformed, oversized and cut answers take its place.
//
// TestShortRun runs some of the faults with a fixed seed. TestBrokenRuleIsFound runs a
// service with a mistake, which must be found, and so does TestADoubledSendIsFound, at night.
package main
