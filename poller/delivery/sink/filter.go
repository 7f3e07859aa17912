package sink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/delivery"
)

const (
	// maxChoices is the most kinds, types or labels of a filter.
	maxChoices = 64
	// labelsAgain is after how long a message is tried again whose account's labels are unknown.
	labelsAgain = time.Second
)

// Filter says which messages an endpoint gets. A filter without any condition lets all pass, and all
// conditions must hold. The conditions for kinds and labels, and the expression, apply to events as
// well.
type Filter struct {
	Kinds  []string          // the kinds of accounts; none: all
	Types  []string          // the types of messages, such as text; none: all
	Labels map[string]string // the account has all of these now; none: any account
	When   *Expression       // nil: any message

	lookup Lookup
}

// Lookup returns the labels that the accounts of messages have now. An account that is not there any
// more has none.
type Lookup func(ctx context.Context, batch []delivery.Delivery) (map[string]map[string]string, error)

// By returns the filter with what looks labels up. Without it no account has labels.
func (f Filter) By(lookup Lookup) Filter {
	f.lookup = lookup
	return f
}

func (f *Filter) read(r *strict.Reader) {
	r.Optional("kinds", "a list of strings", &f.Kinds)
	r.Optional("types", "a list of strings", &f.Types)
	r.Optional("labels", "an object of strings", &f.Labels)
	for _, list := range []struct {
		name   string
		values []string
	}{{"kinds", f.Kinds}, {"types", f.Types}, {"labels", slices.Collect(maps.Keys(f.Labels))}} {
		if len(list.values) > maxChoices {
			r.Fault(list.name, "must be at most "+strconv.Itoa(maxChoices))
		}
		if slices.Contains(list.values, "") {
			r.Fault(list.name, "must not have an empty one")
		}
	}
	var when string
	if r.Optional("when", "a string", &when); when != "" {
		var err error
		if f.When, err = ParseExpression(when); err != nil {
			r.Fault("when", err.Error())
		}
	}
}

// simple reports whether the endpoint gets a message or event, as far as that depends neither on labels
// nor on the expression.
func (f Filter) simple(d *delivery.Delivery) bool {
	return has(f.Kinds, d.Kind) && (d.Event || has(f.Types, d.Message.Type))
}

func has(list []string, one string) bool { return len(list) == 0 || slices.Contains(list, one) }

// verdict says whether a message passes; err: nobody knows.
type verdict struct {
	passes bool
	err    error
}

// judge returns for each message whether it passes.
func (f Filter) judge(ctx context.Context, batch []delivery.Delivery) []verdict {
	verdicts := make([]verdict, len(batch))
	var labels map[string]map[string]string
	var unknown error
	if needs := len(f.Labels) > 0 || f.When != nil && f.When.labels; needs && f.lookup != nil {
		labels, unknown = f.lookup(ctx, batch)
	}
	failed := make(map[string]bool) // accounts of which an earlier message was not judged
	for i := range batch {
		d, v := &batch[i], &verdicts[i]
		switch {
		case !f.simple(d):
			continue
		case failed[d.Account]:
			v.err = delivery.ErrHeld
		case unknown != nil:
			v.err = &delivery.Later{After: labelsAgain, Err: fmt.Errorf("the labels of its account are unknown now: %w", unknown)}
		case !hasAll(labels[d.Account], f.Labels):
			continue
		case f.When == nil:
			v.passes = true
		default:
			v.passes, v.err = f.When.holds(d, labels[d.Account])
		}
		failed[d.Account] = failed[d.Account] || v.err != nil
	}
	return verdicts
}

// Passes reports whether the endpoint gets a message or event of an account with labels. An error says
// that its expression cannot be applied to it.
func (f Filter) Passes(d *delivery.Delivery, labels map[string]string) (bool, error) {
	v := f.By(func(context.Context, []delivery.Delivery) (map[string]map[string]string, error) {
		return map[string]map[string]string{d.Account: labels}, nil
	}).judge(context.Background(), []delivery.Delivery{*d})[0]
	if dead, ok := errors.AsType[*delivery.Dead](v.err); ok {
		return false, dead.Err
	}
	return v.passes, v.err
}

func hasAll(labels, wanted map[string]string) bool {
	for name, value := range wanted {
		if has, ok := labels[name]; !ok || has != value {
			return false
		}
	}
	return true
}
