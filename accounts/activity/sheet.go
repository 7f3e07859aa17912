package activity

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Figures are sums over checks.
type Figures struct {
	Checks   uint64
	Failures uint64
	Messages uint64 // that checks found, before those that were given again are left out

	Timed    uint64        // the checks that the rest is about: all but those whose calls third parties hold
	Late     time.Duration // how late they began, added up
	LateMost time.Duration
	Took     time.Duration // from claim to result, all pages, added up
	TookMost time.Duration
}

// add adds other figures. Times are cut to milliseconds.
func (f *Figures) add(o *Figures) {
	f.Checks += o.Checks
	f.Failures += o.Failures
	f.Messages += o.Messages
	f.Timed += o.Timed
	f.Late += o.Late
	f.Took += o.Took
	f.LateMost, f.TookMost = max(f.LateMost, o.LateMost), max(f.TookMost, o.TookMost)
}

// Part is one of the lists of a sheet.
type Part int

// The parts.
const (
	Kinds Part = iota
	Hosts
	Labels   // as NAME=VALUE
	Noisiest // accounts by messages
	Slowest  // accounts by their longest check

	parts = int(iota)
)

// mosts are how many names of each part a sheet has at most, if they are short enough.
func mosts() [parts]int {
	return [parts]int{Kinds: 32, Hosts: 64, Labels: 64, Noisiest: 48, Slowest: 32}
}

const (
	mostMarks = 32
	mostRows  = 64  // of shards
	mostName  = 256 // bytes
	// failedRank is how many checks a failed one counts as among hosts and labels: one that fails is
	// checked less and less often, and would be missed.
	failedRank = 10
)

// rank returns how far ahead a name comes in a part.
func (p Part) rank(f *Figures) uint64 {
	switch p {
	case Noisiest:
		return f.Messages
	case Slowest:
		return uint64(f.TookMost / time.Millisecond)
	}
	return f.Checks + (failedRank-1)*f.Failures
}

// MarkKind is what a mark is of.
type MarkKind byte

// The kinds of marks.
const (
	MarkStart MarkKind = 's' // a poller started
	MarkStop  MarkKind = 'e' // a poller ended in order
	MarkDeath MarkKind = 'd' // a process went silent
	MarkBulk  MarkKind = 'b' // many accounts were changed
)

// Mark is something that happened at a time and that charts point to.
type Mark struct {
	At      time.Time // cut to seconds
	Kind    MarkKind
	Subject string // the replica or the process; of a bulk change, what was done
	Count   int    // of changed accounts
}

// Sheet is what happened in some time.
type Sheet struct {
	All   Figures
	Parts [parts]map[string]*Figures
	// Rows are the shards, or groups of neighbouring shards if there are more than 64, of Shards
	// shards. Only lateness is counted.
	Rows   []Figures
	Shards int
	Marks  []Mark
}

// Empty reports whether nothing happened.
func (s *Sheet) Empty() bool {
	return s.All == Figures{} && len(s.Marks) == 0
}

// of returns the figures of a name, which it adds if there are none.
func (s *Sheet) of(p Part, name string) *Figures {
	f := s.Parts[p][name]
	if f == nil {
		if s.Parts[p] == nil {
			s.Parts[p] = make(map[string]*Figures)
		}
		f = new(Figures)
		s.Parts[p][name] = f
	}
	return f
}

// Add adds another sheet, whose figures it does not share. If the sheets are of different numbers
// of shards, the rows of the other one replace those of this one.
func (s *Sheet) Add(o *Sheet) {
	s.All.add(&o.All)
	for p := range parts {
		for name, f := range o.Parts[p] {
			s.of(Part(p), name).add(f)
		}
	}
	if len(o.Rows) > 0 {
		if s.Shards != o.Shards || len(s.Rows) != len(o.Rows) {
			s.Shards, s.Rows = o.Shards, make([]Figures, len(o.Rows))
		}
		for i := range o.Rows {
			s.Rows[i].add(&o.Rows[i])
		}
	}
	s.Marks = append(s.Marks, o.Marks...)
}

// Ranked is a name of a part with its figures.
type Ranked struct {
	Name string
	*Figures
}

// First returns at most n names of a part, the foremost first.
func (s *Sheet) First(p Part, n int) []Ranked {
	all := make([]Ranked, 0, len(s.Parts[p]))
	for name, f := range s.Parts[p] {
		all = append(all, Ranked{name, f})
	}
	slices.SortFunc(all, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(p.rank(b.Figures), p.rank(a.Figures)), strings.Compare(a.Name, b.Name))
	})
	return all[:min(n, len(all))]
}

// cut drops all but the foremost names and the latest marks.
func (s *Sheet) cut(most [parts]int, marks int) {
	for p, n := range most {
		if len(s.Parts[p]) <= n {
			continue
		}
		stay := make(map[string]*Figures, n)
		for _, r := range s.First(Part(p), n) {
			stay[r.Name] = r.Figures
		}
		s.Parts[p] = stay
	}
	slices.SortStableFunc(s.Marks, func(a, b Mark) int { return a.At.Compare(b.At) })
	s.Marks = slices.Compact(s.Marks)
	s.Marks = s.Marks[max(0, len(s.Marks)-marks):]
}

// rowsOf returns how many rows shards have, and shardRow the row of one.
func rowsOf(shards int) int { return min(shards, mostRows) }

func shardRow(shard, shards int) int {
	return max(0, min(rowsOf(shards)-1, shard*rowsOf(shards)/max(1, shards)))
}

// RowShards returns the first and the last shard of a row.
func (s *Sheet) RowShards(row int) (first, last int) {
	n := max(1, len(s.Rows))
	at := func(row int) int { return (row*s.Shards + n - 1) / n }
	return at(row), at(row+1) - 1
}

// names returns the sorted names of a part.
func (s *Sheet) names(p Part) []string { return slices.Sorted(maps.Keys(s.Parts[p])) }
