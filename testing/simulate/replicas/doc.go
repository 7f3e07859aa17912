// Package replicas is a world for whole replicas in one process: an embedded Redis, and
// pollers and monitors that each reach it by a [Link], in the fake time of
// testing/synctest, in which a day takes seconds.
//
// A link is a process's only way to Redis, and so the place where faults are injected:
// connections cut before or after a command was done, commands that arrive long after
// their caller gave up, silence, a process that stands still or is killed between two
// commands. The world's own faults are those of the server: a restart, error replies,
// scripts forgotten, a clock that jumps.
//
// What a link does to a call depends on the seed, the link and the fake time, but not on
// the order in which goroutines run. Neither that order nor the random numbers of the
// code under test are fixed by testing/synctest. So a seed has the same plan each time,
// but not the same steps. What is checked of a world must therefore hold for every run.
package replicas
