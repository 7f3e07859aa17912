// Explore goes through every interleaving of the steps of package circulate, the
// real code on a real Redis protocol, within bounds that it is told:
//
//	go run ./testing/explore --pollers 2 --monitors 2 --crashes 2 --cuts 1 --changes 0
//	go run ./testing/explore --pollers 3 --monitors 2 --crashes 1 --cuts 1 --changes 0
//	go run ./testing/explore --accounts 2 --crashes 0 --cuts 0 --changes 0
//	go run ./testing/explore --reshard 1:2 --pollers 1 --monitors 1 --crashes 1 --cuts 0 --changes 1
//
// It prints how many states there are and whether all of them were reached, or
// the shortest way to one in which the law does not hold. testing/README.md has a table of
// searches, all complete, and of how many states each has. The tests make those that
// are short and expect that number; this makes all of them and writes the table anew:
//
//	go run ./testing/explore --published testing/README.md
//
// # What is explored
//
// Actors call the methods of circulate.Ring, round after round without end.
// Pollers claim and then return (due at once, due later, parked), release, or
// progress and go on, or between two rounds release what is held under their name;
// monitors look at what is held and requeue any one entry of
// it, for with no clock any may be stale, and may quarantine it then. Around them others register, update,
// deregister, pause, resume and nudge, and time passes until something is due.
//
// The scripts and their callers are the real ones. Redis is the embedded one, its clock
// stands still, and what is between a caller and a server is not there: no pool, no
// connections, no wake-ups; nor are consumer groups, limits and credentials. Package
// ringtest holds the same scripts on real servers, testing/chaos the whole.
//
// One operation is what Redis does as one: a command, a script, MULTI to EXEC. Each
// is held until the explorer chooses it. Its other choices are a crash (an actor
// forgets all and a new process takes its place), a cut connection (the operation
// was done or was not, and its caller cannot know), and whose turn it is among the
// lanes of message_queue. Crashes, cuts and changes are bounded in number; rounds,
// and how time passes, are not.
//
// # A change of the number of shards
//
// With reshard the namespace has begun to change, the new shards take accounts, and
// none has moved. Movers do each step of the change in any order and any number of
// times: move, complete, confirm and, with ends, receive again, end the moving, end
// the change. Pollers and monitors work on any shard where an account may be.
// Registrars, who here make several steps of one thing, know only the old shards or
// open their ring first; auditors must find nothing. An account has a cursor at
// first, and no check changes it.
//
// Nothing keeps claims from a shard for longer than the explorer wants, and what has
// departed is old enough to be confirmed at once: that may happen at any time.
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
//   - what no step decides upon (normalise): strikes (a quarantine does, and is explored
//     as if there were always enough), changes, what a record says, histories, messages;
//   - how far the sequence of tickets has come. Scripts only add to it, so it is enough
//     that it is above every ticket that there is, to which each step is held;
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
// While the number of shards changes, all that in each shard, and each account in one
// of its two shards, or on its way, but never in two of them. No step but a
// registrar's makes one appear or disappear, and none takes its cursor. From every
// state: a mover that comes later ends the moving, and all accounts come round in
// their new shards. See reshard_law.go.
//
// The bare pattern is explored as well, and each way in which it fails is found
// (bare.go); and so is what comes of each rule of the protocol being broken
// (mutation.go).
//
// # Not explored
//
// More than one shard, but for a change of their number: shards share nothing. In
// such a change: nudges, messages that are left, and keys whose time to live ends.
// Batches longer than the accounts there are, long cursors, hints, low lanes, keys
// of a wrong type, and what Redis itself may lose.
package main
