// Package document stores bounded documents of a namespace that replicas share besides the
// ring, such as API keys, sealed secrets and sessions. It looks into none of them, except the
// reports and orders about webhook endpoints.
//
// Documents are opened by a ring, or by a server and a namespace for callers without a ring.
// All times are by Redis' clock. If a Redis key has a wrong type, it is set aside and the step
// is tried again.
//
//	[Keys]       by digest, under unique names; until they expire; at most MostKeys
//	[Vault]      by name, in pages; compare-and-set; at most so many, with so many bytes
//	[Sessions]   by unguessable name, of an owner; until they end; compare-and-set; bounded for each owner and in all
//	[Notices]    by name; the latest only
//	[Jobs]       by id; compare-and-set, with chunks beside it; at most MostJobs
//	[Journal]    appended to a stream; the latest so many
//	[Series]     appended to a list; the latest so many, one a second
//	[Terms]      by name; until they end; at most MostTerms of a sort
//	[Checks]     by account, the latest MostChecks; of MostWatched accounts, while somebody looks
//	[Endpoints]  reports by process, while it lives; orders appended to a stream, for an hour
//
// Each has a type of its own because it stores documents in its own form, and versions that run
// side by side must read each other's. Keys, vault and sessions have a HASH of texts that begin
// with numbers, but different keys beside it: names and last uses, a ZSET of names and a sum of
// bytes, ZSETs of ends for all and for each owner. A notice has only its field of a HASH. Checks
// are a LIST for each account. A
// series is a LIST, whose points carry their own time. Only the journal and the orders share a
// form, the capped STREAM.
package document

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	// ErrTaken reports that another document has the name.
	ErrTaken = wire.Finding("document: the name is taken")
	// ErrFull reports that there is no room for another document, or for a longer one.
	ErrFull = wire.Finding("document: the limit is reached")
	// ErrNone reports that there is no such session: it never existed, or has ended.
	ErrNone = errors.New("document: no such document, or it has ended")
	// ErrChanged reports that a document is not the expected one.
	ErrChanged = errors.New("document: the document has changed")
)

// MaxName is the most bytes of the name of a key or of a sealed value.
const MaxName = 128

// Documents opens the documents of a namespace.
type Documents struct{ wire *wire.Wire }

// Of returns the documents of a ring's namespace.
func Of(ring *circulate.Ring) Documents { return Documents{ring.Wire(wire.Insider{})} }

// At returns the documents of a namespace in a Redis, for callers without a ring.
func At(server circulate.Server, namespace string) Documents {
	return Documents{wire.New(server, namespace, wire.Options{})}
}

// place is the keys of the documents of one sort. One node serves all of them.
type place struct {
	wire *wire.Wire
	keys []wire.Key
}

// place returns a place with keys of one hash tag: pairs of a name behind the tag and a type.
func (d Documents) place(tag string, names ...string) place {
	p := place{wire: d.wire}
	for i := 0; i < len(names); i += 2 {
		p.keys = append(p.keys, wire.Key{"{" + d.wire.Namespace() + ":" + tag + "}:" + names[i], names[i+1]})
	}
	return p
}

// single returns a place with one key. It needs no hash tag, because no command uses it
// together with another key.
func (d Documents) single(name, kind string) place {
	return place{d.wire, []wire.Key{{d.wire.Namespace() + ":" + name, kind}}}
}

// key returns the name of a key.
func (p place) key(i int) string { return p.keys[i][0] }

// run runs a script on the first n keys of the place.
func (p place) run(ctx context.Context, script *wire.Script, n int, args ...any) (any, error) {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = p.key(i)
	}
	reply, err := wire.Mending(ctx, p.wire, p.keys, func() (any, error) { return p.wire.Eval(ctx, script, keys, args) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", script.Name(), err)
	}
	return reply, nil
}

// do sends commands. Errors begin with doing, the name of the step.
func (p place) do(ctx context.Context, doing string, commands ...wire.Command) ([]any, error) {
	replies, err := wire.Mending(ctx, p.wire, p.keys, func() ([]any, error) { return p.wire.Pipeline(ctx, p.key(0), commands...) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return replies, nil
}

// timed is do, and returns the time by the same clock.
func (p place) timed(ctx context.Context, doing string, commands ...wire.Command) (time.Time, []any, error) {
	replies, err := p.do(ctx, doing, append([]wire.Command{{"TIME"}}, commands...)...)
	if err != nil {
		return time.Time{}, nil, err
	}
	now, err := wire.Time(replies[0])
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("%s: %w", doing, err)
	}
	return now, replies[1:], nil
}

// Now returns the time by the clock of the documents.
func (p place) Now(ctx context.Context) (time.Time, error) {
	now, _, err := p.timed(ctx, "time of documents")
	return now, err
}

// stream is documents that are appended to a STREAM, the place's only key.
type stream struct{ place }

// append writes an entry and trims the stream to about most entries. Up to a hundred more
// stay, because Redis drops whole blocks. With a life, the stream is removed when nothing
// has been appended for that long.
func (s stream) append(ctx context.Context, doing string, most int, life time.Duration, fields ...any) (string, error) {
	commands := []wire.Command{append(wire.Command{"XADD", s.key(0), "MAXLEN", "~", most, "*"}, fields...)}
	if life > 0 {
		commands = append(commands, wire.Command{"PEXPIRE", s.key(0), life.Milliseconds()})
	}
	replies, err := s.do(ctx, doing, commands...)
	if err != nil {
		return "", err
	}
	id, err := redis.String(replies[0], nil)
	if err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	return id, nil
}

// refused returns what is wrong with a caller's input to a step, or nil.
func refused(step string, errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %s: %w", wire.ErrInput, step, err)
	}
	return nil
}

// wrongSize returns what is wrong with the length of a value, or nil.
func wrongSize(what string, has, least, most int) error {
	if has < least || has > most {
		return fmt.Errorf("%s: must have %d to %d bytes, has %d", what, least, most, has)
	}
	return nil
}

// wrongNumber returns what is wrong with a number of things.
func wrongNumber(what string, is, least, most int) error {
	if is < least || is > most {
		return fmt.Errorf("%s: must be %d to %d, is %d", what, least, most, is)
	}
	return nil
}

// cutTime reads a time in unix ms, and the text that follows it after a mark.
func cutTime(text, mark string) (at time.Time, rest string, ok bool) {
	digits, rest, ok := strings.Cut(text, mark)
	ms, err := strconv.ParseInt(digits, 10, 64)
	return time.UnixMilli(ms), rest, ok && err == nil
}
