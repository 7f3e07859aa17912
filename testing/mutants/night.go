//go:build night

package mutants

const oneOf = 1 // all mutants are tried at night
