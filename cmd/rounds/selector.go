package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rounds-dev/rounds/accounts"
)

// selectorFlags are the flags that select accounts.
type selectorFlags struct {
	kinds, states, labels, prefixes, reasons []string
}

func (f *selectorFlags) declare(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.kinds, "kind", nil, "only those of this `KIND`, or of one of several; repeat the flag")
	flags.StringArrayVar(&f.states, "state", nil, "only those in this `STATE`, or in one of several: "+strings.Join(accounts.States(), ", "))
	flags.StringArrayVar(&f.labels, "label", nil, "only those with this label, `NAME=VALUE`; of several, all")
	flags.StringArrayVar(&f.prefixes, "prefix", nil, "only those whose id begins with this `TEXT`, or with one of several")
	flags.StringArrayVar(&f.reasons, "reason", nil, "only parked ones whose reason begins with this `TEXT`, or with one of several")
}

// read gives the selector, or every fault of the flags in their own words.
func (f *selectorFlags) read() (accounts.Selector, error) {
	s, err := accounts.NewSelector(f.kinds, f.states, f.labels, f.prefixes, f.reasons)
	return s, flagFaults(err)
}

// flagFaults names flags where faults name fields.
func flagFaults(err error) error {
	var faults accounts.Faults
	if !errors.As(err, &faults) {
		return err
	}
	named := make([]error, len(faults))
	for i, f := range faults {
		named[i] = fmt.Errorf("--%s: %s", f.Field, f.Reason)
	}
	return errors.Join(named...)
}
