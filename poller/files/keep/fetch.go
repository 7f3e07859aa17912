package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/egress"
	"github.com/rounds-dev/rounds/poller/files"
)

// Wanted is a file that a message carries.
type Wanted struct {
	Account string
	Kind    string
	Message *poller.Message
	Place   int // of the file in the message
	File    poller.File
	Found   time.Time // when the message was written, by its position
}

// Lost reports that a file is lost. The list has the reason.
type Lost struct{ Reason string }

// Error returns the reason.
func (l *Lost) Error() string { return "the file is lost: " + l.Reason }

// row returns the file's row without what only fetching tells.
func (w *Wanted) row() circulate.File {
	return circulate.File{
		ID: circulate.NewFileID(w.Account, circulate.FileOfMessage, w.Message.ID, w.Place), Account: w.Account, Kind: w.Kind,
		Holder: circulate.FileOfMessage, Of: w.Message.ID, Place: w.Place, Name: w.File.Name, Type: w.File.Type, Size: w.File.Size, Found: w.Found,
	}
}

// Fetch fetches a file and keeps it. Its error is a *Lost, or a *delivery.Later that says when to
// try again.
func (k *Keeper) Fetch(ctx context.Context, w Wanted) (circulate.File, error) {
	began := time.Now()
	f, err := k.fetch(ctx, w)
	outcome := outcomeKept
	if _, lost := errors.AsType[*Lost](err); lost {
		outcome = outcomeLost
	} else if err != nil {
		outcome = outcomePutOff
	}
	k.Metrics.fetched(w.Kind, outcome, f.Size, time.Since(began))
	return f, err
}

func (k *Keeper) fetch(ctx context.Context, w Wanted) (circulate.File, error) {
	none := circulate.File{}
	keeper := k.Checkers.FileKeeper(w.Kind)
	if keeper == nil {
		return none, later(longPause, "", fmt.Errorf("this program does not know files of the kind %s", w.Kind))
	}
	account, err := k.accounts.Get(ctx, w.Account)
	switch {
	case errors.Is(err, accounts.ErrNotFound):
		return none, k.lose(ctx, w, "the account was deregistered before the file was fetched")
	case err != nil:
		return none, later(shortPause, "", err)
	case account.Kind != w.Kind:
		return none, k.lose(ctx, w, "the account is of another kind now")
	}
	host := w.Kind + " " + rateKey(keeper, account.Config)
	at, wait, why := k.hosts.enter(host)
	defer at()
	if wait > 0 {
		if !time.Now().Before(endOf(w.File, w.Found)) {
			return none, k.lose(ctx, w, why)
		}
		return none, later(wait, "", errors.New(why))
	}
	leave, err := k.enter(ctx, w.Account)
	if err != nil {
		return none, later(0, "", err)
	}
	defer leave()
	through, err := k.admit(ctx, w)
	defer through()
	if err != nil {
		return none, err
	}
	within, cancel := context.WithTimeout(egress.For(ctx, &egress.Account{ID: account.ID, Kind: account.Kind, Labels: account.Labels}), fetchTimeout)
	defer cancel()
	body, err := fetchFile(within, keeper, poller.FileRequest{Account: w.Account, Config: account.Config, Message: w.Message, File: w.Place})
	if err != nil {
		return none, k.failed(ctx, w, host, err)
	}
	defer func() { _ = body.Close() }()
	row := w.row()
	row.Name, row.Type = cmp.Or(row.Name, body.Name), cmp.Or(row.Type, body.Type)
	if body.Size > k.config.Most {
		k.hosts.reached(host)
		return none, k.lose(ctx, w, tooLarge(k.config.Most))
	}
	stored, err := k.list.Now(ctx)
	if err != nil {
		return none, later(shortPause, "", err)
	}
	come := &counter{from: body}
	object, err := k.Store.Put(within, come, files.Want{Most: k.config.Most, SHA256: w.File.SHA256})
	read := new(files.ReadError)
	switch {
	case err == nil:
		k.hosts.reached(host)
		k.trouble.store(nil)
		k.stops.reached(storeGate)
		k.room.full(0)
	case errors.Is(err, files.ErrTooLarge):
		k.hosts.reached(host)
		return none, k.lose(ctx, w, tooLarge(k.config.Most))
	case errors.Is(err, files.ErrDiffers):
		return none, k.failed(ctx, w, host, &poller.CheckError{Kind: poller.Protocol, Code: "differs", Message: "the bytes are not those that the message names"})
	case errors.As(err, &read):
		return none, k.failed(ctx, w, host, read.Err)
	case within.Err() != nil:
		return none, k.failed(ctx, w, host, &poller.CheckError{Kind: poller.Transient, Code: "timeout", Message: "the file did not come in time"})
	default:
		return none, k.storeFailed(err, come.size)
	}
	row.Hash, row.Size, row.Object = object.SHA256, object.Size, object.Name
	return k.enroll(ctx, w, row, stored)
}

// enroll makes the row of a file whose bytes are stored. Its errors are those of Fetch.
func (k *Keeper) enroll(ctx context.Context, w Wanted, row circulate.File, began time.Time) (circulate.File, error) {
	row, err := k.add(ctx, row, began)
	switch {
	case err == nil:
		k.stops.reached(quotaGate)
		k.stops.reached(accountGate(w.Account))
		k.trouble.full(false)
		return row, nil
	case errors.Is(err, circulate.ErrFilesFull), errors.Is(err, circulate.ErrAccountFilesFull):
		return row, k.refused(ctx, w, err)
	case errors.Is(err, circulate.ErrFileVoid):
		return row, later(0, "", err)
	}
	return row, later(shortPause, "", err)
}

// add makes the row of a file whose bytes are stored, and removes these bytes again if the row
// has others that are equal, or if there is no row.
func (k *Keeper) add(ctx context.Context, row circulate.File, began time.Time) (circulate.File, error) {
	own, order := row.Object, circulate.Keeping{Began: began, Bounds: k.config.Bounds}
	unsure := false // a Keep may still be on its way: then own stays until a Collector removes it
	for try := 0; ; try++ {
		object, err := k.list.Keep(ctx, row, order)
		switch {
		case errors.Is(err, circulate.ErrFilesFull), errors.Is(err, circulate.ErrAccountFilesFull):
			if !unsure {
				k.drop(ctx, own)
			}
			return circulate.File{}, err
		case err != nil && circulate.Unknown(err) && try < 3 && ctx.Err() == nil:
			unsure = true
			continue // it is safe to repeat, and otherwise these bytes would be fetched again
		case err != nil:
			return circulate.File{}, err
		}
		if row.Object = object; object == own || object == "" {
			return row, nil
		}
		reader, err := k.Store.Open(ctx, object)
		if errors.Is(err, files.ErrNotFound) && order.Missing == "" {
			row.Object, order.Missing = own, object // the store has lost what the list has
			continue
		}
		if err == nil {
			_ = reader.Close() // it was only looked for
		}
		if !unsure {
			k.drop(ctx, own)
		}
		return row, nil
	}
}

// drop removes condemned objects from the store, and then from the list. What it cannot remove, a
// Collector will.
func (k *Keeper) drop(ctx context.Context, names ...string) {
	_, _ = remove(context.WithoutCancel(ctx), k.Store, k.list, names)
}

// remove removes condemned objects. It returns how many it removed, and the first error.
func remove(ctx context.Context, store files.Store, list circulate.Files, names []string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	removed := make([]string, 0, len(names))
	var failed error
	for _, name := range names {
		if err := store.Remove(ctx, name); err != nil {
			failed = cmp.Or(failed, err)
			break
		}
		removed = append(removed, name)
	}
	if err := list.Clear(ctx, removed...); err != nil {
		return 0, err
	}
	return len(removed), failed
}

func tooLarge(most int64) string { return fmt.Sprintf("it has more than %d bytes", most) }

// failed judges an error of a kind: the file is lost, or tried again.
func (k *Keeper) failed(ctx context.Context, w Wanted, host string, err error) error {
	if ctx.Err() != nil {
		return later(0, "", context.Cause(ctx))
	}
	e := poller.Classify(err)
	if e.Network || e.Kind == poller.RateLimited || e.Scope != poller.ScopeAccount {
		k.hosts.failed(host, e.RetryAfter, e.Error())
	} else {
		k.hosts.reached(host)
	}
	if e.Kind == poller.Gone {
		return k.lose(ctx, w, e.Error())
	}
	now, end := time.Now(), endOf(w.File, w.Found)
	if !now.Before(end) {
		return k.lose(ctx, w, e.Error())
	}
	return later(max(pause(now.Sub(w.Found), end.Sub(now)), e.RetryAfter), "", e)
}

// pause returns how long a file waits that was found some time ago and may be forgotten in a while.
func pause(since, left time.Duration) time.Duration {
	usual := min(longPause, max(shortPause, since/4))
	return min(usual, max(time.Second, left/2))
}

// lose writes that a file is lost, and returns a *Lost.
func (k *Keeper) lose(ctx context.Context, w Wanted, reason string) error {
	row := w.row()
	row.Reason = reason
	lost, err := k.list.Lose(ctx, row)
	if err != nil {
		return later(shortPause, "", err)
	}
	if lost {
		k.Log.Warn("a file is lost", "account", w.Account, "message", w.Message.ID, "file", w.Place, "kind", w.Kind, "reason", reason)
	}
	return &Lost{reason}
}

// rateKey asks a kind whose limit an account shares.
func rateKey(keeper poller.FileKeeper, config []byte) (key string) {
	defer func() {
		if recover() != nil {
			key = ""
		}
	}()
	return keeper.RateKey(config)
}

// fetchFile calls FetchFile, and turns a panic into an error without its text, which may hold a
// secret.
func fetchFile(ctx context.Context, keeper poller.FileKeeper, r poller.FileRequest) (body *poller.FileBody, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			body, err = nil, &poller.CheckError{Kind: poller.Transient, Code: "panic", Message: "the kind panicked", Err: fmt.Errorf("%T\n%s", reason, debug.Stack())}
		}
	}()
	body, err = keeper.FetchFile(ctx, r)
	if err == nil && (body == nil || body.ReadCloser == nil) {
		body, err = nil, &poller.CheckError{Kind: poller.Protocol, Code: "no_body", Message: "the kind returned no body"}
	}
	if err == nil {
		body.ReadCloser = &contained{ReadCloser: body.ReadCloser}
	}
	return body, err
}

// counter counts the bytes of a file that were read.
type counter struct {
	from io.Reader
	size int64
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.size += int64(n)
	return n, err
}

// contained is a body whose panics are errors.
type contained struct{ io.ReadCloser }

func (c *contained) Read(p []byte) (n int, err error) {
	defer func() {
		if recover() != nil {
			n, err = 0, &poller.CheckError{Kind: poller.Transient, Code: "panic", Message: "the kind panicked while its file was read"}
		}
	}()
	return c.ReadCloser.Read(p)
}

var _ delivery.Handler = (*Keeper)(nil)
