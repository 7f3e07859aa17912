package keep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/files"
)

// The gates of what stops all files. Of an account's quota, see accountGate.
const (
	storeGate = "the store of files"
	quotaGate = "the quota of files"
)

func accountGate(account string) string { return "the quota of account " + account }

// checkTimeout bounds how long a file waits until the store has said whether it takes files.
const checkTimeout = 30 * time.Second

// admit asks the store and the quotas, before the third party is asked, whether a file can be kept. Its
// error puts the file off. The caller always calls leave at its end.
func (k *Keeper) admit(ctx context.Context, w Wanted) (leave func(), err error) {
	var left [3]func()
	leave = func() {
		for _, l := range left {
			if l != nil {
				l()
			}
		}
	}
	if left[0], err = k.storeTakes(ctx, w); err != nil {
		return leave, err
	}
	if err := k.roomFor(ctx, w); err != nil {
		return leave, err
	}
	// There is room for a file of this size, or at least for a byte. A quota that has refused a file
	// stays closed all the same: the size may be unknown, or not true.
	var wait time.Duration
	if left[1], wait, _ = k.stops.enter(accountGate(w.Account)); k.waits(w, wait) {
		return leave, k.full(ctx, w, circulate.ErrAccountFilesFull, wait)
	}
	if left[2], wait, _ = k.stops.enter(quotaGate); k.waits(w, wait) {
		return leave, k.full(ctx, w, circulate.ErrFilesFull, wait)
	}
	return leave, nil
}

// waits reports whether a file waits at a gate. One that would be forgotten meanwhile does not: this is
// its last chance.
func (k *Keeper) waits(w Wanted, wait time.Duration) bool {
	return wait > 0 && time.Until(endOf(w.File, w.Found)) > wait
}

// storeTakes puts a file off that the store would not take.
func (k *Keeper) storeTakes(ctx context.Context, w Wanted) (leave func(), err error) {
	leave, wait, why := k.stops.enter(storeGate)
	end := endOf(w.File, w.Found)
	lastChance := wait > 0 && time.Now().Before(end) && time.Until(end) <= wait
	if wait > 0 && !lastChance {
		return leave, later(wait, storeGate, errors.New(why))
	}
	closed, age := k.stops.isClosed(storeGate), storePause
	if closed {
		age = time.Second
	}
	room, need, err := k.room.look(ctx, k.Store, age)
	size := min(w.File.Size, k.config.Most)
	switch {
	case ctx.Err() != nil:
		return leave, later(0, "", context.Cause(ctx))
	case err != nil:
		return leave, k.storeAway(err)
	case room.Known && size > room.Free:
		err := fmt.Errorf("%w for %d bytes: %s has %d", files.ErrFull, size, k.Store, room.Free)
		k.trouble.store(err)
		return leave, later(pauseUntil(fullPause, end), "", err) // a smaller one may have room
	case room.Known && closed && size == 0 && need > room.Free:
		return leave, k.storeAway(fmt.Errorf("%w: %s has %d bytes", files.ErrFull, k.Store, room.Free))
	}
	if k.stops.back(storeGate) {
		k.trouble.store(nil)
	}
	return leave, nil
}

// storeAway notes that the store says that it takes nothing, and puts the file off.
func (k *Keeper) storeAway(err error) error {
	k.trouble.store(err)
	err = fmt.Errorf("the store of files: %w", err)
	k.stops.shut(storeGate, checkPause, err.Error())
	return later(checkPause, storeGate, err)
}

// storeFailed notes that the store did not take a file, of which it has read some bytes, and puts the file
// off.
func (k *Keeper) storeFailed(err error, read int64) error {
	k.trouble.store(err)
	if errors.Is(err, files.ErrFull) {
		k.room.full(max(1, read))
	}
	k.room.forget()
	err = fmt.Errorf("the store of files: %w", err)
	return later(k.stops.failed(storeGate, 0, err.Error()), storeGate, err)
}

// pauseUntil returns a pause that is over before an end, if that is not past.
func pauseUntil(pause time.Duration, end time.Time) time.Duration {
	if left := time.Until(end); left > 0 {
		return min(pause, max(time.Second, left/2))
	}
	return pause
}

// room is what the store has said about itself.
type room struct {
	asking chan struct{} // held while somebody asks

	mu    sync.Mutex
	asked time.Time // zero: what it said does not hold any more
	free  files.Room
	need  int64 // how many bytes at least the last file had that did not fit; 0: there was room since
}

// look returns what the store said at most some time ago, and how many bytes a file of unknown size may
// need. It asks once for all that wait. Only an answer without an error is remembered.
func (r *room) look(ctx context.Context, store files.Store, age time.Duration) (free files.Room, need int64, err error) {
	select {
	case r.asking <- struct{}{}:
	case <-ctx.Done():
		return files.Room{}, 0, context.Cause(ctx)
	}
	defer func() { <-r.asking }()
	r.mu.Lock()
	asked, free, need := r.asked, r.free, r.need
	r.mu.Unlock()
	if !asked.IsZero() && time.Since(asked) < age {
		return free, need, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	now := time.Now()
	if free, err = store.Check(ctx); err != nil {
		return files.Room{}, need, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked, r.free = now, free
	return free, need, nil
}

// full notes how many bytes did not fit; 0: there is room.
func (r *room) full(need int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.need = need
}

func (r *room) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = time.Time{}
}

// roomFor refuses a file for which there is no room, before it is fetched. It makes room if it may.
func (k *Keeper) roomFor(ctx context.Context, w Wanted) error {
	b := k.config.Bounds
	size := max(1, min(w.File.Size, k.config.Most))
	full := func() (error, error) {
		if b.Account > 0 {
			sum, err := k.list.OfAccount(ctx, w.Account)
			if err != nil || sum.Bytes+size > b.Account {
				return circulate.ErrAccountFilesFull, err
			}
		}
		if b.All > 0 {
			sum, err := k.list.Totals(ctx)
			if err != nil || sum.Objects.Bytes+sum.Condemned.Bytes+size > b.All {
				return circulate.ErrFilesFull, err
			}
		}
		return nil, nil
	}
	for range 8 {
		is, err := full()
		if err != nil {
			return later(shortPause, "", err)
		}
		if is == nil {
			if !k.stops.isClosed(quotaGate) {
				k.trouble.full(false)
			}
			return nil
		}
		if !k.makeRoom(ctx, w.Account, is) {
			return k.full(ctx, w, is, 0)
		}
	}
	return k.full(ctx, w, circulate.ErrFilesFull, 0)
}

// refused puts a file off that the list has refused, and all others that it may refuse.
func (k *Keeper) refused(ctx context.Context, w Wanted, why error) error {
	if k.makeRoom(ctx, w.Account, why) {
		return later(shortPause, "", why)
	}
	gate, text := quotaGate, quotaReached
	if errors.Is(why, circulate.ErrAccountFilesFull) {
		gate, text = accountGate(w.Account), accountQuotaReached
	}
	return k.full(ctx, w, why, k.stops.failed(gate, 0, text))
}

// makeRoom ends files that somebody has read, the oldest first, if it may. It reports whether there were
// any.
func (k *Keeper) makeRoom(ctx context.Context, account string, why error) bool {
	if !k.config.MakeRoom {
		return false
	}
	if !errors.Is(why, circulate.ErrAccountFilesFull) {
		account = ""
	}
	rows, err := k.list.Read(ctx, account, makeRoom)
	if err != nil || len(rows) == 0 {
		return false
	}
	ended, names, err := k.list.End(ctx, "it had been read, and was removed to make room", rows...)
	if err != nil {
		return false
	}
	k.drop(ctx, names...)
	k.Log.Info("files that had been read were removed to make room", "files", ended, "account", account)
	return ended > 0
}

const (
	quotaReached        = "the quota of files is reached"
	accountQuotaReached = "the account's quota of files is reached"
)

// full puts a file off because there is no room for it, until it is forgotten. Wait is how long its
// gate is closed; 0: it is not.
func (k *Keeper) full(ctx context.Context, w Wanted, why error, wait time.Duration) error {
	text, target, pause := quotaReached, quotaGate, checkPause
	if errors.Is(why, circulate.ErrAccountFilesFull) {
		text, target, pause = accountQuotaReached, "", fullPause
	} else {
		k.trouble.full(true)
	}
	end := endOf(w.File, w.Found)
	if !time.Now().Before(end) {
		return k.lose(ctx, w, text)
	}
	if wait > 0 {
		pause = wait
	}
	return later(pauseUntil(pause, end), target, errors.New(text))
}
