// Package processes builds and runs the program as its users do, as processes
// that tests may kill, freeze and end.
package processes
