// Package archtest checks the shape of the source: in which direction imports run, which
// folders exist, and what no file may do. Its rules are in rules_test.go, and
// examples_test.go shows what each rule must find.
package archtest
