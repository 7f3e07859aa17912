package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
)

// mover takes steps of a change of the number of shards, in any order, and each any
// number of times. If it ends or aborts the change, it does those steps too. Its ring was
// opened while accounts moved.
func mover(sources []int, ends, aborts bool) *program {
	return &program{name: "mover", forgets: forgetsMoves, run: func(a *actor) error {
		ctx := context.Background()
		source := sources[a.choose(len(sources))]
		deeds := []int{0, 1, 2}
		if ends {
			deeds = append(deeds, 3, 4, 5)
		}
		if aborts {
			deeds = append(deeds, 6)
		}
		var err error
		switch deeds[a.pick(len(deeds))] {
		case 0:
			a.at(fmt.Sprint("moves ", source))
			_, _, err = a.ring.Mover().Move(ctx, source)
		case 1:
			a.at(fmt.Sprint("completes ", source))
			_, err = a.ring.Mover().Complete(ctx, source)
		case 2:
			a.at(fmt.Sprint("confirms ", source))
			err = a.ring.Mover().Confirm(ctx, source)
		case 3:
			a.at("all moved?")
			_, err = a.ring.Mover().FinishMove(ctx)
		case 4:
			a.at("all drained?")
			_, err = a.ring.Mover().Drained(ctx, false)
		case 5:
			a.at("receives again")
			err = a.ring.Mover().Receive(ctx)
		case 6:
			a.at("gives up")
			_, err = a.ring.Mover().Abort(ctx)
		}
		if refused(err) {
			return nil
		}
		return unless(circulate.Unknown(err), err)
	}}
}

// auditor audits any one of some shards and repairs what it finds. It must find nothing,
// however far the accounts have moved meanwhile.
func auditor(shards []int) *program {
	return &program{name: "auditor", run: func(a *actor) error {
		shard := shards[a.choose(len(shards))]
		found, err := a.ring.AuditShard(context.Background(), shard, circulate.AuditOptions{Repair: true, Records: true})
		if err == nil && len(found.Findings) > 0 {
			err = fmt.Errorf("explore: an audit found %+v", found.Findings)
		}
		return unless(circulate.Unknown(err), err)
	}}
}

// refused reports that a step came after the end of the change, or beside another step
// that ended it.
func refused(err error) bool {
	for _, known := range []error{circulate.ErrReshardingOther, circulate.ErrAborted, circulate.ErrNoReturn} {
		if errors.Is(err, known) {
			return true
		}
	}
	return err != nil && strings.Contains(err.Error(), "takes no accounts from others")
}

// forgetsMoves returns what a mover remembers, and so does any actor that completes a
// move on its way to something else. First that is what it sends of what it read, then
// what is on its way, then what has arrived.
func forgetsMoves(label string, did []string, last string, now operation) (live []string, ok bool) {
	if strings.HasPrefix(label, "confirms") || label == "" {
		return nil, false
	}
	step := did[len(did)-1]
	before := did[:len(did)-1]
	switch {
	case now[0][0] == "LRANGE" && strings.HasSuffix(now[0][1], ":urgent"):
		return nil, true
	case step == "depart", step == "settle":
		return []string{now.String()}, true
	case step == "arrive" && (len(before) == 0 || before[len(before)-1] != "arrive"):
		return []string{last}, true
	case step != "" && step != "arrive" && slices.Contains(before, step) && strings.HasPrefix(label, "does "):
		return []string{now.String()}, true // its own work, in another shard
	}
	return nil, false
}

// movedRegistrar registers, updates, deregisters, pauses or resumes any account, with a
// ring that knows only the old shards, or that it opens first. If it never deregisters,
// no account may ever seem to be gone.
func movedRegistrar(knows string, ids, deeds []string) (*program, error) {
	for _, d := range deeds {
		if !slices.Contains([]string{"register", "upsert", "deregister", "pause", "resume"}, d) {
			return nil, fmt.Errorf("deed %q: must be register, upsert, deregister, pause or resume", d)
		}
	}
	if knows != "old" && knows != "new" {
		return nil, fmt.Errorf("registrar %q: must be old or new", knows)
	}
	leaves := slices.Contains(deeds, "deregister")
	return &program{name: knows + " registrar", changes: true, forgets: forgetsMoves, run: func(a *actor) error {
		ctx := context.Background()
		id, deed := ids[a.choose(len(ids))], deeds[a.choose(len(deeds))]
		if knows == "new" {
			var err error
			if a.ring, err = circulate.Open(ctx, a.server, circulate.Options{}); err != nil {
				return unless(circulate.Unknown(err) || errors.Is(err, errCut), err)
			}
		}
		shard := a.ring.ShardOf(id)
		a.at(fmt.Sprint("does ", deed, " ", id, " ", a.ring.Layout(), " ", shard))
		found, err := a.change(ctx, deed, shard, id)
		switch {
		case circulate.Unknown(err):
			return nil
		case errors.Is(err, circulate.ErrResharding):
			return nil // it opens its ring again
		case errors.Is(err, circulate.ErrNotRegistered):
			found, err = false, nil
		}
		if err == nil && !found && !leaves {
			return errMissed
		}
		return err
	}}, nil
}

// errMissed reports an account that was there all the time and was not found.
var errMissed = errors.New("explore: an account that is registered was not found")

// change does one thing to an account, and reports whether it was there.
func (a *actor) change(ctx context.Context, deed string, shard int, id string) (found bool, err error) {
	items := []circulate.Registration{{ID: id, Record: []byte("after")}}
	var outcomes []circulate.Registered
	var n int
	switch deed {
	case "register":
		outcomes, err = a.ring.Register(ctx, shard, items)
	case "upsert":
		outcomes, err = a.ring.Upsert(ctx, shard, items)
	case "deregister":
		n, err = a.ring.Deregister(ctx, shard, []string{id})
	case "pause":
		n, err = a.ring.Park(ctx, shard, circulate.ReasonPaused, []string{id})
		found = true // it may be parked already
	case "resume":
		err = a.ring.Account(id).Resume(ctx, circulate.Resumption{})
		found = true
	}
	return found || n > 0 || len(outcomes) > 0 && outcomes[0] != circulate.Created, err
}

// lateness lets time pass until an account is due, in any shard where it may be.
func lateness(homes map[string][]string, ids []string, meta map[string]string) *program {
	return &program{name: "clock", meta: meta, run: func(a *actor) error {
		id := ids[a.choose(len(ids))]
		shard := homes[id][a.pick(len(homes[id]))]
		conn, err := a.server.Conn(context.Background(), "")
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = redis.Int(conn.Do("ZADD", shard+"schedule", "XX", frozen().UnixMilli(), id))
		return err
	}}
}
