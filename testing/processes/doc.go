// Package processes builds and runs the program as its users do, as processes
// that tests may kill, freeze and end, and waits for what a program writes and
// answers, wherever it runs.
package processes
