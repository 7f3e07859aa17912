// Package replicas is a world for whole replicas in one process: an embedded
// Redis, and pollers and monitors that reach it by a [Link] each, in the fake time
// of testing/synctest, in which a day takes seconds.
//
// A link is a process's only way to Redis, and so the place where faults are
// injected: connections cut before or after a command was done, commands that
// arrive long after their caller gave up, silence, a process that stands still or
// is killed between two commands. The world's own faults are those of the server:
// a restart, error replies, scripts forgotten, a clock that jumps.
//
// What a link does to a call is a function of the seed, the link and the fake
// time, not of the order in which goroutines run. That order is not fixed by
// testing/synctest, nor are the random numbers of the code under test: of a seed
// the plan is the same each time, not every step. What is checked of a world must
// therefore hold of every run.
package replicas
