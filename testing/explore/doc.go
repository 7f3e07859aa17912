// Explore goes through every interleaving of the steps of package circulate, the
// real code on a real Redis protocol, within bounds that it is told:
//
//	go run ./testing/explore --pollers 2 --monitors 2 --crashes 2 --cuts 1 --changes 0
//	go run ./testing/explore --pollers 3 --monitors 2 --crashes 1 --cuts 1 --changes 0
//	go run ./testing/explore --accounts 2 --crashes 0 --cuts 0 --changes 0
//
// It prints how many states there are and whether all of them were reached, or
// the shortest way to one in which the law does not hold. Complete were, on two
// cores with other work on them:
//
//	pollers × monitors, accounts   crashes, cuts, changes    states   seconds
//	2 × 2, 1                       2, 1, 0                  153,514   in the tests
//	2 × 2, 1                       1, 0, 1                   71,155   in the tests
//	2 × 2, 1                       0, 0, 2                   42,524   in the tests
//	2 × 2, 1                       1, 1, 1                  438,692   57
//	3 × 2, 1                       2, 1, 0                  460,627   34
//	2 × 2, 2                       0, 0, 0                  246,139   48
//
// # What is explored
//
// Actors call the methods of circulate.Ring, round after round without end.
// Pollers claim and then return (due at once, due later, parked), release, or
// progress and go on; monitors look at what is held and requeue any one entry of
// it, for with no clock any may be stale. Around them others register, update,
// deregister, pause, resume and nudge, and time passes until something is due.
//
// One operation is what Redis does as one: a command, a script, MULTI to EXEC. Each
// is held until the explorer chooses it. Its other choices are a crash (an actor
// forgets all and a new process takes its place), a cut connection (the operation
// was done or was not, and its caller cannot know), and whose turn it is among the
// lanes of message_queue. Crashes, cuts and changes are bounded in number; rounds,
// and how time passes, are not.
//
// # How
//
// The search is breadth-first, so that a trace is the shortest. What an operation
// does to a snapshot of Redis is found by doing it, once, on the embedded server
// (steps.go); where a reply leads an actor, by running its real code through what
// it was told so far (node.go). All else is looking up. Two states are one if they
// differ only in
//
//   - which ticket and which replica's name is which (token.go): they are only ever
//     compared, and a fresh one is unlike all others;
//   - which of several actors that run the same program is which;
//   - what no step decides upon (normalise): strikes, changes, what a record says,
//     histories, messages;
//   - what an actor has forgotten: a program says what it still needs (actor.at).
//
// States that another one with as much left of every bound stands for are left
// out, as is what nobody can tell from its neighbour (goesOn).
//
// Tests hold the search itself to account: states are reached once more, by live
// actors in goroutines of their own, from the start and against one Redis that
// nobody restores, which must hold at each step what the search said (replay.go).
//
// # What must hold
//
// In every state: each registered account is in exactly one place under its
// current ticket, but for copies of one text in message_queue that a monitor has
// pushed, of which the next claim makes all but one void; and none of those while
// all actors rest and nothing has failed. In every step: a message is written only
// by who holds the account, in processing_list and under its current ticket; never
// twice; and no ticket becomes current that is not fresh. From every state: if all
// stop for ever, a monitor and a poller that come later get every account that is
// not parked exactly once in each round. See law.go.
//
// The bare pattern is explored as well, and each way in which it fails is found
// (bare.go); and so is what comes of each rule of the protocol being broken
// (mutation.go).
//
// # Not explored
//
// More than one shard: shards share nothing. Batches longer than the accounts
// there are, long cursors, hints, low lanes, keys of a wrong type, and what Redis
// itself may lose.
package main
