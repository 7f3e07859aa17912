package activity

import (
	"slices"
	"sync"
	"time"
)

// tableRoom is how many names a table of a Tally surely retains. It holds twice as many.
const tableRoom = 256

// Subject is what a check counts for, besides its account and its shard. The same one serves all
// checks of an account.
type Subject struct {
	Kind   string
	Host   string   // empty: none
	Labels []string // as NAME=VALUE
}

// Check is how a check went.
type Check struct {
	Account       string
	Shard, Shards int
	Failed        bool
	Messages      int
	Timed         bool // Late and Took are known
	Late, Took    time.Duration
}

// Tally counts the checks of one process. It is safe for concurrent use. Its size is bounded,
// whatever the number of accounts.
type Tally struct {
	mu     sync.Mutex
	sheet  Sheet // without Parts
	kinds  map[string]*Figures
	tables [parts]table // Hosts, Labels, Noisiest
	slow   slowest
}

// NewTally returns an empty tally.
func NewTally() *Tally { return &Tally{kinds: make(map[string]*Figures)} }

// Checked counts a check.
func (t *Tally) Checked(of *Subject, c Check) {
	f := Figures{Checks: 1, Messages: uint64(max(0, c.Messages))}
	if c.Failed {
		f.Failures = 1
	}
	if c.Timed {
		late, took := max(0, c.Late), max(0, c.Took)
		f.Timed, f.Late, f.LateMost, f.Took, f.TookMost = 1, late, late, took, took
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(of, c.Account, &f)
	if !c.Timed {
		return
	}
	t.slow.add(c.Account, &f)
	if t.sheet.Shards != c.Shards {
		t.sheet.Shards, t.sheet.Rows = c.Shards, make([]Figures, rowsOf(c.Shards))
	}
	if len(t.sheet.Rows) > 0 {
		r := &t.sheet.Rows[shardRow(c.Shard, c.Shards)]
		r.Timed++
		r.Late += f.Late
		r.LateMost = max(r.LateMost, f.LateMost)
	}
}

// Found counts messages of a check that goes on.
func (t *Tally) Found(of *Subject, account string, messages int) {
	if messages <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(of, account, &Figures{Messages: uint64(messages)})
}

// count adds figures to those of all, the kind, the host, the labels and the account.
func (t *Tally) count(of *Subject, account string, f *Figures) {
	t.sheet.All.add(f)
	kind := t.kinds[of.Kind]
	if kind == nil {
		kind = new(Figures)
		t.kinds[of.Kind] = kind // a process knows a few kinds
	}
	kind.add(f)
	if of.Host != "" {
		t.tables[Hosts].add(of.Host, f, Hosts.rank(f))
	}
	for _, label := range of.Labels {
		t.tables[Labels].add(label, f, Labels.rank(f))
	}
	if n := Noisiest.rank(f); n > 0 || t.tables[Noisiest].has(account) {
		t.tables[Noisiest].add(account, f, n)
	}
}

// Mark notes that something happened.
func (t *Tally) Mark(m Mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.sheet.Marks) < mostMarks {
		t.sheet.Marks = append(t.sheet.Marks, m)
	}
}

// Take returns what was counted since the last call.
func (t *Tally) Take() *Sheet {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sheet
	s.Parts[Kinds] = t.kinds
	for _, p := range []Part{Hosts, Labels, Noisiest} {
		s.Parts[p] = t.tables[p].take()
	}
	s.Parts[Slowest] = t.slow.take()
	t.sheet, t.kinds = Sheet{}, make(map[string]*Figures)
	return &s
}

// table counts names of any number in bounded memory. It may miss a name only if its rank is at
// most a tableRoom-th of the sum of all.
type table struct {
	rows  map[string]*ranked
	spare []*ranked
	ranks []uint64
}

type ranked struct {
	Figures
	rank uint64
}

func (t *table) has(name string) bool { return t.rows[name] != nil }

func (t *table) add(name string, f *Figures, rank uint64) {
	r := t.rows[name]
	if r == nil {
		if t.rows == nil {
			t.rows = make(map[string]*ranked)
		}
		if len(t.rows) >= 2*tableRoom {
			t.purge()
		}
		if n := len(t.spare); n > 0 {
			r, t.spare = t.spare[n-1], t.spare[:n-1]
			*r = ranked{}
		} else {
			r = new(ranked)
		}
		t.rows[name] = r
	}
	r.add(f)
	r.rank += rank
}

// purge takes the median off every rank, and drops the names that have nothing left.
func (t *table) purge() {
	t.ranks = t.ranks[:0]
	for _, r := range t.rows {
		t.ranks = append(t.ranks, r.rank)
	}
	slices.Sort(t.ranks)
	median := t.ranks[len(t.ranks)/2]
	for name, r := range t.rows {
		if r.rank <= median {
			delete(t.rows, name)
			t.spare = append(t.spare, r)
			continue
		}
		r.rank -= median
	}
}

func (t *table) take() map[string]*Figures {
	all := make(map[string]*Figures, len(t.rows))
	for name, r := range t.rows {
		all[name] = &r.Figures
	}
	*t = table{}
	return all
}

// slowRoom is how many of the slowest accounts a Tally has.
const slowRoom = 64

// slowest are the accounts with the longest checks.
type slowest struct {
	rows  map[string]*Figures
	least time.Duration // no longest check of a full table is shorter
}

func (s *slowest) add(account string, f *Figures) {
	if r := s.rows[account]; r != nil {
		r.add(f)
		return
	}
	if len(s.rows) >= slowRoom {
		if f.Took <= s.least {
			return
		}
		name, least := s.last()
		if s.least = least; f.Took <= least {
			return
		}
		delete(s.rows, name)
	}
	if s.rows == nil {
		s.rows = make(map[string]*Figures)
	}
	r := *f
	s.rows[account] = &r
}

// last returns the account whose longest check is the shortest.
func (s *slowest) last() (account string, took time.Duration) {
	took = -1
	for name, r := range s.rows {
		if took < 0 || r.TookMost < took {
			account, took = name, r.TookMost
		}
	}
	return account, took
}

func (s *slowest) take() map[string]*Figures {
	all := s.rows
	*s = slowest{}
	return all
}
