package service

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/endpoint"
	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
)

const (
	storedEvery  = 2 * time.Second // between two looks whether stored endpoints have changed
	storedAnew   = time.Minute     // after which they are read anew, whatever their revision
	storedWithin = 10 * time.Second

	labelsAtOnce = 100 // accounts whose labels are asked for at once
)

// follow takes the stored endpoints as they change, until ctx is done. While Redis is away, the
// delivery goes on as it was.
func (d *deliverer) follow(ctx context.Context) {
	tick := time.NewTicker(storedEvery)
	defer tick.Stop()
	var read time.Time
	told := d.keeps
	for {
		if d.look(ctx, &read) && !told {
			told = true
			if d.idle() {
				d.log.Warn("the role delivery has nothing to do: " + webhooksFile + " names no endpoint, and nobody has added one")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (d *deliverer) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.running) == 0
}

// look takes the stored endpoints if they have changed since they were read. It reports whether the
// delivery is now as they are.
func (d *deliverer) look(ctx context.Context, read *time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, storedWithin)
	defer cancel()
	revision, err := d.stored.Revision(ctx)
	if err != nil {
		return false // the ring logs once that Redis is away
	}
	d.mu.Lock()
	same := d.seen == revision
	d.mu.Unlock()
	if same && time.Since(*read) < storedAnew {
		return true
	}
	all, err := d.stored.All(ctx)
	if err != nil {
		return false
	}
	if err := d.take(all, revision); err != nil {
		d.log.Error("stored endpoints cannot be read", "error", err)
		return false
	}
	*read = time.Now()
	return true
}

// take begins, changes and ends deliveries so that they are as the stored endpoints. An endpoint that
// this process cannot deliver to, such as one of a later version, is no reason to leave out others.
func (d *deliverer) take(all []endpoint.Endpoint, revision int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	types, err := d.typesBy(d.rule)
	if err != nil {
		return err
	}
	types = types.Addable()
	d.seen = revision
	there := make(map[string]bool)
	for i := range all {
		name := all[i].Name
		there[name] = true
		if d.declared[name] {
			d.shadow(name)
			continue
		}
		delete(d.shadowed, name)
		e, err := readStored(types, &all[i])
		if old := d.running[name]; err == nil && old != nil && old.endpoint.Text == e.Text && old.endpoint.Revision == e.Revision {
			continue
		}
		var opened *delivering
		if err == nil {
			d.forgetSecrets(e)
			opened, err = openEndpoint(e, all[i].Start)
		}
		if err != nil {
			d.refuse(name, all[i].Revision, err)
			continue
		}
		if d.faulty[name] {
			delete(d.faulty, name)
			d.remote.RemoveFaulty(name)
		}
		d.begin(opened)
	}
	for name, old := range d.running {
		if old.endpoint.Added() && !there[name] {
			d.end(name)
		}
	}
	maps.DeleteFunc(d.shadowed, func(name string, _ bool) bool { return !there[name] })
	for name := range d.faulty {
		if !there[name] || d.declared[name] {
			delete(d.faulty, name)
			d.remote.RemoveFaulty(name)
		}
	}
	return nil
}

// forgetSecrets makes an endpoint use its secrets as they are now: one may have been set with it.
func (d *deliverer) forgetSecrets(e sink.Endpoint) {
	if at, ok := e.Config.(sink.Place); ok {
		for _, use := range at.Uses() {
			d.forget(secret.ServicePrefix + use.Name)
		}
	}
}

// openEndpoint opens the sink of an endpoint whose group begins at a position.
func openEndpoint(e sink.Endpoint, start string) (*delivering, error) {
	opened, err := e.Config.Open()
	if err != nil {
		return nil, err
	}
	return &delivering{endpoint: e, sink: opened, start: start, ended: make(chan struct{})}, nil
}

// shadow says once that a stored endpoint counts for nothing, because the file declares one of its
// name. The caller holds mu.
func (d *deliverer) shadow(name string) {
	if !d.shadowed[name] {
		d.shadowed[name] = true
		d.log.Warn("a stored endpoint counts for nothing, because "+webhooksFile+" declares one of its name; remove one of them", "endpoint", name)
	}
}

// refuse ends the delivery to a stored endpoint that this process cannot deliver to, and says why.
// The caller holds mu.
func (d *deliverer) refuse(name string, revision int64, why error) {
	if d.running[name] != nil {
		d.end(name)
	}
	text := strings.ReplaceAll(why.Error(), "\n", "; ")
	d.remote.AddFaulty(name, revision, text)
	if !d.faulty[name] {
		d.faulty[name] = true
		d.log.Error("nothing is delivered to a stored endpoint until this is fixed", "endpoint", name, "error", text)
	}
}

// readStored reads a stored endpoint.
func readStored(types sink.Types, stored *endpoint.Endpoint) (sink.Endpoint, error) {
	e, err := types.ReadAdded(stored.Fields, stored.Revision)
	if err == nil && e.Name != stored.Name { // somebody has written to Redis
		err = errors.New("name: is not the one under which it is stored")
	}
	return e, err
}

// labels returns the labels that the accounts of messages have now: one question for each shard that has
// some of them, which is one.
func (d *deliverer) labels(ctx context.Context, batch []delivery.Delivery) (map[string]map[string]string, error) {
	ids := make(map[int][]string)
	known := make(map[string]map[string]string)
	for i := range batch {
		id := batch[i].Account
		if _, asked := known[id]; !asked {
			known[id] = nil
			shard := d.ring.ShardOf(id)
			ids[shard] = append(ids[shard], id)
		}
	}
	for shard, all := range ids {
		for part := range slices.Chunk(all, labelsAtOnce) {
			views, _, err := d.ring.LookBrief(ctx, shard, part)
			if err != nil {
				return nil, err
			}
			for _, v := range views {
				var record struct{ Labels map[string]string }
				if json.Unmarshal(v.Record, &record) == nil { // one that cannot be read has no labels that anybody knows
					known[v.ID] = record.Labels
				}
			}
		}
	}
	return known, nil
}
