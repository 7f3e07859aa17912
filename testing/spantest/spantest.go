// Package spantest has a recorder of spans for tests.
package spantest

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/poller/span"
)

// Recorder records all spans in memory. The zero Recorder is usable.
type Recorder struct {
	mu   sync.Mutex
	all  []*Span
	Skip func(name string) bool // which traces are not recorded; nil: all are
}

// Span is a recorded span.
type Span struct {
	Name       string
	Kind       span.Kind
	Trace, ID  string
	Parent     string // the id of its parent; empty: it is the first of its trace
	Attributes map[string]any
	Class      string // of its failure
	Start, End time.Time
	Ends       int // how often it was ended
}

// Begin implements span.Recorder.
func (r *Recorder) Begin(kind span.Kind, name string, at time.Time, parent string) span.Span {
	if r.Skip != nil && r.Skip(name) {
		return nil
	}
	trace, id := "", ""
	if span.Valid(parent) {
		trace, id = parent[3:35], parent[36:52]
	}
	return r.begin(kind, name, at, trace, id)
}

func (r *Recorder) begin(kind span.Kind, name string, at time.Time, trace, parent string) span.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, len(r.all))))
	if trace == "" {
		trace = sum[16:48]
	}
	s := &Span{Name: name, Kind: kind, Trace: trace, ID: sum[:16], Parent: parent, Attributes: make(map[string]any), Start: at}
	r.all = append(r.all, s)
	return recording{r, s}
}

type recording struct {
	r *Recorder
	s *Span
}

func (c recording) Begin(kind span.Kind, name string, at time.Time) span.Span {
	return c.r.begin(kind, name, at, c.s.Trace, c.s.ID)
}

func (c recording) Set(name string, value any) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.s.Attributes[name] = value
}

func (c recording) Fail(class string) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.s.Class = class
}

func (c recording) End(at time.Time) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.s.End = at
	c.s.Ends++
}

func (c recording) Traceparent() string { return "00-" + c.s.Trace + "-" + c.s.ID + "-01" }

// Ended returns copies of the spans that have ended, in the order in which they began.
func (r *Recorder) Ended() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ended []Span
	for _, s := range r.all {
		if s.Ends > 0 {
			one := *s
			one.Attributes = maps.Clone(s.Attributes)
			ended = append(ended, one)
		}
	}
	return ended
}

// Tree writes spans as lines, each below its parent and indented, with its failure's class behind a "!".
func Tree(spans []Span) string {
	var out strings.Builder
	known := make(map[string]bool)
	for _, s := range spans {
		known[s.ID] = true
	}
	var write func(parent Span, depth string)
	line := func(s Span, depth string) {
		out.WriteString(depth + s.Name)
		if s.Class != "" {
			out.WriteString(" !" + s.Class)
		}
		out.WriteString("\n")
		write(s, depth+"  ")
	}
	write = func(parent Span, depth string) {
		for _, s := range spans {
			if s.Parent == parent.ID {
				line(s, depth)
			}
		}
	}
	for _, s := range spans {
		if !known[s.Parent] {
			line(s, "")
		}
	}
	return out.String()
}
