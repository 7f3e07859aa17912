//go:build !night

package mutants

const oneOf = 4 // mutants of a script are tried with every change
