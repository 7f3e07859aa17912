// Explore goes through every interleaving of the steps of package circulate, with the
// real code on a real Redis protocol, within given bounds:
//
//	go run ./testing/explore --pollers 2 --monitors 2 --crashes 2 --cuts 1 --changes 0
//	go run ./testing/explore --pollers 3 --monitors 2 --crashes 1 --cuts 1 --changes 0
//	go run ./testing/explore --accounts 2 --crashes 0 --cuts 0 --changes 0
//	go run ./testing/explore --pollers 0 --keepers 2 --monitors 2 --crashes 1 --cuts 1 --changes 0
//	go run ./testing/explore --reshard 1:2 --pollers 1 --monitors 1 --crashes 1 --cuts 0 --changes 1
//	go run ./testing/explore --senders 2 --sends 2 --crashes 1 --cuts 1 --changes 1
//
// It prints how many states there are and whether all of them were reached, or the
// shortest way to one in which the law does not hold. testing/README.md has a table of
// searches, all complete, with the number of their states. The tests make the short ones
// and expect that number. The following makes all of them and writes the table again:
//
//	go run ./testing/explore --published testing/README.md
//
// # What is explored
//
// Actors call the methods of circulate.Ring, round after round without end. Pollers
// claim. With a claim they return (due at once, due later, parked), release, or progress
// and go on. Between two rounds they may release what is held under their name. Monitors
// look at what is held and requeue any one entry of it, because without a clock any may
// be stale; so may a claim whose renewal comes too late, and one that Redis was away for; then they may quarantine it. Around them others register, update, deregister,
// pause, resume and nudge, and time passes until something is due.
//
// Keepers are pollers whose third parties hold calls: they stay with a claim, renew it, write
// pages until the outcome is known, look whether it is still theirs, and release it when they are
// told to stop (held.go).
//
// The scripts and their callers are the real ones. Redis is the embedded one, and its
// clock stands still. What lies between a caller and a server is left out: pools,
// connections, wake-ups. So are consumer groups, limits and credentials. Package ringtest
// tests the same scripts on real servers, testing/chaos the whole.
//
// One operation is what Redis does atomically: a command, a script, MULTI to EXEC. Each
// is held until the explorer chooses it. The explorer also chooses a crash (an actor
// forgets all and a new process takes its place), a cut connection (the operation was
// done or was not, and its caller cannot know), and whose turn it is among the lanes of
// message_queue. Crashes, cuts and changes are bounded in number. Rounds, and how time
// passes, are not.
//
// # A change of the number of shards
//
// With reshard the namespace has begun to change, the new shards accept accounts, and
// none has moved. Movers do each step of the change in any order and any number of times:
// move, complete, confirm and, with ends, receive again, end the moving, end the change.
// Pollers and monitors work on any shard where an account may be. Registrars, who here
// make several steps of one change, know only the old shards or open their ring first;
// auditors must find nothing. An account has a cursor at first, and no check changes it.
//
// Nothing keeps claims from a shard for longer than the explorer chooses. What has
// departed is old enough to be confirmed at once, which stands for any time.
//
// # The outbox
//
// With senders the sends of one account wait. Senders attempt them, withdraw what they may
// have taken when a reply is lost, send, and settle. A list that no step reads stands for
// the vendor: what was pushed there has left. A sweeper has any attempt become unknown at
// any time, so that a sender may be slow without end; somebody cancels, or resolves what
// is unknown. The vendor must never have a send twice unless somebody had it sent again,
// nothing unknown is repeated by itself, each send is in the places of its state, and from
// every state each ends (sends.go).
//
// # How
//
// The search is breadth-first, so that a trace is the shortest. What an operation does to
// a snapshot of Redis is found by doing it, once, on the embedded server (steps.go).
// Where a reply leads an actor is found by running its real code through what it was told
// so far (node.go). Everything else is looked up. Two states count as one if they differ
// only in
//
//   - which ticket and which replica's name is which (token.go): they are only ever
//     compared, and a fresh one is unlike all others;
//   - which accounts share a ticket, because a step took it for both: a ticket is only
//     ever compared with others of the same account (apart);
//   - which of several actors that run the same program is which;
//   - what no step depends on (normalise): strikes (a quarantine does, and is explored
//     as if there were always enough), changes, what a record says, histories, messages;
//   - how far the sequence of tickets has come. Scripts only add to it, so it is enough
//     that it is above every existing ticket, and each step is held to that;
//   - what an actor has forgotten: a program says what it still needs (actor.at).
//
// A state is left out if another one with as much left of every bound stands for it, and
// so are steps that no other actor can distinguish from their neighbours (goesOn).
//
// Tests check the search itself: states are reached once more, by live actors in
// goroutines of their own, from the start and against one Redis that nobody restores. At
// each step that Redis must hold what the search said (replay.go).
//
// # What must hold
//
// In every state: each registered account is in exactly one place under its current
// ticket, except for copies of one text in message_queue that a monitor has pushed, of
// which the next claim makes all but one void. While all actors rest and nothing has
// failed, there are no such copies. In every step: a message is written only by the
// holder of the account, in processing_list and under its current ticket; never twice;
// only a fresh ticket becomes current; and what is released comes first in line. From every state: if all stop for ever, a
// monitor and a poller that come later get every account that is not parked exactly once
// in each round. Where accounts are late, they get each of them within a bounded number of
// claims, however many others are relatively later. See law.go.
//
// While the number of shards changes, all that holds in each shard, and each account is
// in one of its two shards, or on its way, but never in two of them. Only a registrar's
// steps make one appear or disappear, and none takes its cursor. From every state: a
// mover that comes later ends the moving, and all accounts come round in their new
// shards. See reshard_law.go.
//
// The bare pattern is explored as well, and each way in which it fails is found
// (bare.go). So is the result of breaking each rule of the protocol (mutation.go).
//
// # Not explored
//
// More than one shard, except for a change of their number: shards share nothing. In such
// a change: nudges, messages that are left, and keys whose time to live ends. Batches
// longer than the number of accounts, long cursors, hints, low lanes, keys of a wrong
// type, and what Redis itself may lose.
package main
