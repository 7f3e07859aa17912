// Package faketime is the fixture of tests in fake time: a [World] is a ring on the
// embedded Redis inside a bubble of testing/synctest, in which an hour takes no
// time and Redis' clock is the bubble's.
//
// The ring is reached by a [Faulty] server, where a test comes in between: it
// refuses connections, breaks them before a command gets there, loses replies, or
// does something of its own just then. A test that needs another way to Redis,
// as for a second replica, wraps [World.Redis] in another Faulty and opens a ring by it.
//
// It knows the ring alone, so that the tests of every package above circulate can
// use it; what pollers, monitors and consumers are like in a test is their own
// packages' business. Whole fleets, under faults drawn from a seed, are the matter
// of testing/simulate.
package faketime
