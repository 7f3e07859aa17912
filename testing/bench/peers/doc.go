// Command peers measures rounds beside other systems on one Redis of its own, in turns,
// and prints the ratios, one line a figure:
//
//	go run -C testing/bench/peers . [--quick] [--json] [--only NAME,…] [--profile]
//	go run -C testing/bench/peers . --page ../figures/measured.json
//	go run -C testing/bench/peers . --plan ../figures/measured.json
//
// It keeps every figure and every single run in ../figures/measured.json, each with the
// commit at which it was measured, and draws ../figures/*.svg from that. A quick run has
// a directory of its own. Page and plan print the tables of testing/bench/README.md.
//
// # Fairness
//
// All systems use the same redis-server, without persistence, over loopback, with the
// same number of accounts (tasks, deliveries) and the same text as record (payload). Each
// is a separate process, filled before anything is measured. They are measured in turns
// and in several rounds, and a ratio is the median of the rounds' ratios. A peer first
// tries several settings, which are printed, and goes on with its best. Settings are
// numbers of servers, connections, workers and queues, all with few in flight and all
// again with as many as the ring has. Redis' processor time comes from INFO; a cycle's is
// that divided by the cycles.
//
// A cycle is: take an account, do nothing, put it back in line. For asynq
// (github.com/hibiken/asynq) that is a task whose handler enqueues the same payload
// again; for rmq (github.com/adjust/rmq) a delivery that is published again and
// acknowledged. Neither can do less to keep checking an account for ever.
//
// It is a separate module so that rounds does not depend on the peers. go.work has it use
// the rounds around it, with the versions that rounds has.
package main
