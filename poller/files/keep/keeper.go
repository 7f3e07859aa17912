package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/files"
)

// Group is the name of the consumer group that fetches files.
const Group = "files"

// Policy says when the files of a kind are fetched.
type Policy string

// The policies.
const (
	All    Policy = "all"    // when their message is found
	Demand Policy = "demand" // when somebody asks for them
	None   Policy = "none"   // never
)

// The defaults of a Config, and what is fixed.
const (
	DefaultMost   = 100 << 20
	DefaultAtOnce = 8

	fetchTimeout = 10 * time.Minute
	unknownEnd   = 24 * time.Hour // how long a file of unknown end is tried
	shortPause   = 5 * time.Second
	longPause    = 10 * time.Minute
	storePause   = 15 * time.Second // until a file is asked for again to find out whether it is kept now
	fullPause    = time.Minute
	// longStorePause is the longest pause while files are asked for in vain, one at a time.
	longStorePause = time.Minute
	// checkPause is how long a store or a quota is left alone that says itself that it takes nothing. To ask
	// it costs nobody else anything, and files may be forgotten soon.
	checkPause = 2 * time.Second
	makeRoom   = 32 // files that end at once for another one
)

// Config says how a Keeper fetches. The zero value means the defaults.
type Config struct {
	// Policies are by kind. A kind without one is fetched if its third party forgets files, and
	// otherwise on demand.
	Policies map[string]Policy
	Most     int64 // bytes of a file; larger ones are lost
	AtOnce   int   // files that are fetched at once
	Bounds   circulate.FileBounds
	// MakeRoom ends files that somebody has read, the oldest first, when a bound is reached.
	// Otherwise fetching stops then.
	MakeRoom bool
}

// Options are what a Keeper works with. All but Log and Metrics are required.
type Options struct {
	Ring     *circulate.Ring
	Store    files.Store
	Checkers poller.Checkers
	Log      *slog.Logger
	Metrics  *Metrics
}

// Keeper fetches files. Its methods may be called by any goroutine.
type Keeper struct {
	Options
	config   Config
	list     circulate.Files
	accounts *accounts.Registry
	places   chan struct{}
	hosts    gates // third parties, by kind and rate key
	stops    gates // the store and the quotas: see room.go
	room     room
	waiting  waiting

	share   share
	trouble trouble
}

// New makes a Keeper.
func New(c Config, o Options) *Keeper {
	c.Most, c.AtOnce = cmp.Or(c.Most, DefaultMost), cmp.Or(c.AtOnce, DefaultAtOnce)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	o.Metrics.begin(o.Checkers.FileKinds())
	return &Keeper{
		Options: o, config: c, list: o.Ring.Files(), accounts: accounts.NewRegistry(o.Ring, o.Checkers),
		places: make(chan struct{}, c.AtOnce), share: share{most: max(1, c.AtOnce/2)},
		hosts: gates{first: firstHostPause, most: longHostPause, patience: shortPause}, stops: gates{first: storePause, most: longStorePause, patience: checkPause}, room: room{asking: make(chan struct{}, 1)},
	}
}

// Consumer returns the consumer of the group that fetches files.
func (k *Keeper) Consumer() delivery.Consumer {
	return delivery.Consumer{
		Ring: k.Ring, Group: Group, Handler: k, Unordered: true,
		Batch: 4 * k.config.AtOnce, Concurrency: 4 * k.config.AtOnce, HandlerTimeout: fetchTimeout + time.Minute, Log: k.Log,
	}
}

// Policy returns when files of a kind are fetched.
func (k *Keeper) Policy(kind string) Policy {
	if p, ok := k.config.Policies[kind]; ok {
		return p
	}
	if keeper := k.Checkers.FileKeeper(kind); keeper != nil && keeper.Forgets() {
		return All
	}
	return Demand
}

// Handle keeps the files of messages, several at once.
func (k *Keeper) Handle(ctx context.Context, batch []delivery.Delivery) []error {
	errs := make([]error, len(batch))
	var all sync.WaitGroup
	for i := range batch {
		d := &batch[i]
		if d.Event || k.Policy(d.Kind) != All {
			continue
		}
		if carried := k.Checkers.Files(d.Kind, &d.Message); len(carried) > 0 {
			all.Go(func() { errs[i] = k.keepAll(ctx, d, carried) })
		}
	}
	all.Wait()
	return errs
}

// keepAll keeps the files of a message. It returns a *delivery.Later if some are not there yet, and
// a *delivery.Dead if all others are kept, and some are lost.
func (k *Keeper) keepAll(ctx context.Context, d *delivery.Delivery, carried []poller.File) error {
	position, err := circulate.ParseStreamID(d.Position)
	if err != nil {
		return &delivery.Dead{Err: err}
	}
	found := position.Time()
	ids := make([]string, len(carried))
	for i := range carried {
		ids[i] = circulate.NewFileID(d.Account, circulate.FileOfMessage, d.Message.ID, i)
	}
	rows, err := k.list.Look(ctx, false, ids...)
	if err != nil {
		return later(shortPause, "", err)
	}
	var again *delivery.Later
	var lost error
	var raise []string
	for i := range carried {
		row := &rows[i]
		switch {
		case row.State == circulate.FileKept:
			if row.Judged.Before(found) {
				raise = append(raise, row.ID)
			}
			continue
		case row.State == circulate.FileLost && !row.Kept.Before(found): // since this very delivery of the message
			if lost == nil {
				lost = fmt.Errorf("file %d is lost: %s", i, row.Reason)
			}
			continue
		}
		w := Wanted{Account: d.Account, Kind: d.Kind, Message: &d.Message, Place: i, File: carried[i], Found: found}
		_, err := k.Fetch(ctx, w)
		if err == nil {
			continue
		}
		var not *Lost
		if errors.As(err, &not) {
			if lost == nil {
				lost = fmt.Errorf("file %d is lost: %s", i, not.Reason)
			}
			continue
		}
		if next, ok := errors.AsType[*delivery.Later](err); ok && (again == nil || next.Target != "" || again.Target == "" && next.After < again.After) {
			again = next
		}
	}
	if _, err := k.list.Raise(ctx, found, raise...); err != nil && again == nil {
		again = later(shortPause, "", err)
	}
	switch {
	case again != nil:
		k.waiting.add(d.Position, d.Account, soonest(carried, rows, found))
		return again
	case lost != nil:
		k.waiting.remove(d.Position, d.Account)
		return &delivery.Dead{Err: lost}
	}
	k.waiting.remove(d.Position, d.Account)
	return nil
}

// soonest returns when the first of the files that are not kept may be forgotten.
func soonest(carried []poller.File, rows []circulate.File, found time.Time) (first time.Time) {
	for i := range carried {
		if rows[i].State == circulate.FileKept {
			continue
		}
		if end := endOf(carried[i], found); first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// endOf returns until when a file is tried.
func endOf(f poller.File, found time.Time) time.Time {
	if f.Until.IsZero() {
		return found.Add(unknownEnd)
	}
	return f.Until
}

func later(after time.Duration, target string, why error) *delivery.Later {
	return &delivery.Later{After: after, Target: target, Err: why}
}
