// Package faketime is the fixture of tests in fake time. A [World] is a ring on the
// embedded Redis inside a bubble of testing/synctest, in which an hour takes no time and
// Redis' clock is the bubble's.
//
// The ring is reached by a [Faulty] server, in which a test can intervene: it refuses
// connections, breaks them before a command arrives, loses replies, or does something of
// its own at that point. A test that needs another way to Redis, as for a second replica,
// wraps [World.Redis] in another Faulty and opens a ring by it.
//
// The package knows the ring alone, so that the tests of every package above circulate
// can use it. How pollers, monitors and consumers look in a test is left to their own
// packages. Package testing/simulate runs whole fleets, under faults drawn from a seed.
package faketime
