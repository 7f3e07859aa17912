// Package endtoend runs the program as its users do: processes of the built
// binary on a real redis-server, against a fake upstream, and kills some of them.
package endtoend
