package document

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// MostTerms is how many documents of a sort a namespace may have. Ended ones make room.
	MostTerms = 128
	// MaxTermName is the most bytes of the name of such a document.
	MaxTermName = 512
	// MaxTerm is the most bytes of such a document.
	MaxTerm = 8 << 10
)

var termPutScript = wire.NewScript("put term", lua("term_put"))

// Terms has documents that hold until a time, by name: what a person has said about the service
// for a while, such as a maintenance window. Each ends by itself, unless it holds Forever.
type Terms struct{ place } // a HASH: name -> when it ends, unix ms|text

// Maintenance returns the maintenance windows.
func (d Documents) Maintenance() Terms { return Terms{d.single("maintenance", "hash")} }

// Silences returns what people have said about concerns: that they have seen one, or that it is to
// be silent.
func (d Documents) Silences() Terms { return Terms{d.single("silences", "hash")} }

// Views returns the views that people save. They hold Forever.
func (d Documents) Views() Terms { return Terms{d.single("views", "hash")} }

// Forever returns the end of a document that holds until somebody removes it.
func Forever() time.Time { return time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Term is a document that holds until a time by Redis' clock.
type Term struct {
	Name  string
	Until time.Time
	Text  []byte
}

// Put stores a document in place of an earlier one of its name, or returns ErrFull. It is safe to
// repeat.
func (t Terms) Put(ctx context.Context, one Term) error {
	if err := refused("put term", wrongSize("name", len(one.Name), 1, MaxTermName), wrongSize("text", len(one.Text), 1, MaxTerm)); err != nil {
		return err
	}
	put, err := redis.Int(t.run(ctx, termPutScript, 1, one.Name, max(1, one.Until.UnixMilli()), one.Text, MostTerms))
	switch {
	case err != nil:
		return err
	case put < 0:
		return ErrFull
	}
	return nil
}

// Remove removes the document of a name, and reports whether there was one.
func (t Terms) Remove(ctx context.Context, name string) (bool, error) {
	replies, err := t.do(ctx, "remove term", wire.Command{"HDEL", t.key(0), name})
	if err != nil {
		return false, err
	}
	n, err := redis.Int(replies[0], nil)
	return n > 0, err
}

// All returns the documents that have not ended, and the time by the same clock. It leaves out what
// Put has not written.
func (t Terms) All(ctx context.Context) ([]Term, time.Time, error) {
	now, replies, err := t.timed(ctx, "list terms", wire.Command{"HGETALL", t.key(0)})
	if err != nil {
		return nil, time.Time{}, err
	}
	all, err := readTerms(replies[0])
	return slices.DeleteFunc(all, func(one Term) bool { return !one.Until.After(now) }), now, err
}

// Stored is All with documents that have ended, for callers who know the time. It costs one command.
func (t Terms) Stored(ctx context.Context) ([]Term, error) {
	replies, err := t.do(ctx, "list terms", wire.Command{"HGETALL", t.key(0)})
	if err != nil {
		return nil, err
	}
	return readTerms(replies[0])
}

func readTerms(reply any) ([]Term, error) {
	values, err := redis.StringMap(reply, nil)
	if err != nil {
		return nil, fmt.Errorf("list terms: %w", errors.Join(wire.ErrReply, err))
	}
	var all []Term
	for name, value := range values {
		until, text, ok := cutTime(value, "|")
		if ok && len(name) <= MaxTermName && len(text) <= MaxTerm && len(all) < 2*MostTerms {
			all = append(all, Term{Name: name, Until: until, Text: []byte(text)})
		}
	}
	return all, nil
}
