// Package processes builds the program and runs it as its users do, as processes that
// tests may kill, freeze and end. It waits for what a program writes and answers,
// wherever the program runs.
package processes
