package accounts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// Bound returns the registry as a principal who is bound to labels sees it. Accounts
// without all of the labels do not exist in it and are not counted. No account can be
// registered without the labels or lose one. Without labels it is the same registry.
// Operations on the ring as a whole, such as Audit and Reshard, are not bound.
//
// An id is taken even if a hidden account has it: registering it returns ErrExists.
func (r *Registry) Bound(labels access.Labels) *Registry {
	if len(labels) == 0 {
		return r
	}
	bound := *r
	bound.labels = maps.Clone(labels)
	return &bound
}

// sees reports whether the bound principal sees an account with this record. An
// unreadable record has no labels.
func (r *Registry) sees(record []byte) bool { return hasLabels(record, r.labels) }

// within limits a selector to accounts that the bound principal sees.
func (r *Registry) within(s Selector) Selector {
	s.bound = r.labels
	return s
}

// check returns ErrNotFound for an account that the bound principal does not see. Without
// labels it checks nothing, because the next step finds out.
func (r *Registry) check(ctx context.Context, id string) error {
	if len(r.labels) == 0 {
		return nil
	}
	_, err := r.Get(ctx, id)
	return err
}

// Concerns returns ErrNotFound for the id of an account that the bound principal does not
// see. It returns nil for an id that no account has.
func (r *Registry) Concerns(ctx context.Context, id string) error {
	if len(r.labels) == 0 {
		return nil
	}
	switch v, err := r.ring.Account(id).Look(ctx); {
	case errors.Is(err, circulate.ErrNotRegistered):
		return nil
	case err != nil:
		return err
	case !r.sees(v.Record):
		return fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	return nil
}

// missing returns a fault for each required label that an account lacks.
func (r *Registry) missing(a *Account) Faults {
	var faults Faults
	for _, name := range slices.Sorted(maps.Keys(r.labels)) {
		switch has, ok := a.Labels[name]; {
		case !ok:
			faults.Add("labels."+name, fmt.Sprintf("is missing, and must be %q: access is bound to accounts with %s", r.labels[name], r.labels))
		case has != r.labels[name]:
			faults.Add("labels."+name, fmt.Sprintf("must be %q: access is bound to accounts with %s", r.labels[name], r.labels))
		}
	}
	return faults
}

// bind adds the faults of labels to the other faults of an account, unless its text could
// not be read at all.
func (r *Registry) bind(a *Account, err error) error {
	var faults Faults
	if err != nil && !errors.As(err, &faults) || len(faults) > 0 && faults[0].Field == RecordField {
		return err
	}
	if faults = append(faults, r.missing(a)...); len(faults) > 0 {
		return faults
	}
	return nil
}

// Seen returns the ids whose accounts the bound principal sees, with the time when each
// was registered, or the zero time if that is unknown. Before that time the id belonged
// to somebody else. Seen takes at most circulate.MaxBatch ids of a shard.
func (r *Registry) Seen(ctx context.Context, ids []string) (map[string]time.Time, error) {
	shards := make(map[int][]string)
	for _, id := range ids {
		shard := r.ring.ShardOf(id)
		shards[shard] = append(shards[shard], id)
	}
	seen := make(map[string]time.Time, len(ids))
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		views, _, err := r.ring.LookBrief(ctx, shard, shards[shard])
		if err != nil {
			return nil, err
		}
		for i := range views {
			if r.sees(views[i].Record) {
				_, revision := SplitRevision(views[i].Record)
				seen[views[i].ID] = revision.Created
			}
		}
	}
	return seen, nil
}

// hasLabels reports whether a record has all of some labels.
func hasLabels(record []byte, labels map[string]string) bool {
	if len(labels) == 0 {
		return true
	}
	fields, err := strict.Stored(record)
	return err == nil && labelsIn(fields, labels)
}
