// Package archtest holds the shape of the source: which way imports run, which
// folders there are, and what no file does. Its rules are in rules_test.go, and
// what each must find is in examples_test.go.
package archtest
