package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
)

// selectorFlags are the flags that select accounts.
type selectorFlags struct {
	kinds, states, labels, prefixes, reasons, errors, causes, hosts, except []string

	since string
}

func (f *selectorFlags) declare(env environment, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.kinds, "kind", nil, "only accounts of this `KIND`; repeat the flag for several")
	flags.StringArrayVar(&f.states, "state", nil, "only accounts in this `STATE`; repeat the flag for several: "+strings.Join(accounts.States(), ", "))
	flags.StringArrayVar(&f.labels, "label", nil, "only accounts with this label, `NAME=VALUE`; several must all match")
	flags.StringArrayVar(&f.prefixes, "prefix", nil, "only accounts whose id begins with this `TEXT`; repeat the flag for several")
	flags.StringArrayVar(&f.reasons, "reason", nil, "only parked accounts whose reason begins with this `TEXT`; repeat the flag for several")
	flags.StringArrayVar(&f.errors, "error", nil, "only accounts whose last check failed with this `CODE` (http_404, timeout) or kind (transient, auth), or succeeded with a warning of this code (cursor_stuck); repeat the flag for several")
	flags.StringArrayVar(&f.causes, "cause", nil, "only accounts that fail, or are parked for a failure, because of this `CAUSE`, as rounds problems names it; repeat the flag for several")
	flags.StringArrayVar(&f.hosts, "host", nil, "only accounts whose config names this `HOST`, HOST:PORT or corporation; repeat the flag for several")
	flags.StringArrayVar(&f.except, "except-host", nil, "only accounts whose config does not name this `HOST` or corporation; repeat the flag for several")
	flags.StringVar(&f.since, "since", "", "only accounts without a successful check for at least this `DURATION`, such as 1h")
	complete(cmd, "kind", completeKinds(env))
	complete(cmd, "label", completeLabels(env))
	offer(cmd, "state", accounts.States()...)
}

// read returns the selector, or every fault of the flags in their own words.
func (f *selectorFlags) read() (accounts.Selector, error) {
	fields := map[string][]string{
		"kind": f.kinds, "state": f.states, "label": f.labels, "prefix": f.prefixes, "reason": f.reasons, "error": f.errors, "cause": f.causes, "host": f.hosts, "except_host": f.except,
	}
	if f.since != "" {
		fields["since"] = []string{f.since}
	}
	s, err := accounts.ParseSelector(fields)
	return s, flagFaults(err)
}

// flagFaults replaces the names of fields in faults by the names of flags.
func flagFaults(err error) error {
	var faults accounts.Faults
	if !errors.As(err, &faults) {
		return err
	}
	named := make([]error, len(faults))
	for i, f := range faults {
		named[i] = fmt.Errorf("--%s: %s", strings.ReplaceAll(f.Field, "_", "-"), f.Reason)
	}
	return errors.Join(named...)
}
