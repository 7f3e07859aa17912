package poller

import (
	"sync"
	"sync/atomic"
)

// phase is how far a check is.
type phase uint8

const (
	calling phase = iota // a call is under way, or the next one waits
	inHand               // a page is in hand: a call has brought it, and it is not written yet
	seized               // a page is in hand, and the shutdown waits for it
	settled              // a party has decided how the check ends
)

// party is what calls a check off, or has settled it.
type party uint8

const (
	nobody     party = iota
	byItself         // the check gives its account back
	byWatchdog       // the check is abandoned: its checker did not return in time
	byShutdown       // the account is released: the replica stops
	byLoss           // the claim is forgotten: another has the account
	bySecret         // the account is put off: a secret that it uses has changed
)

// move is one way in which a check's state changes, with its cause.
type move uint8

const (
	finds    move = iota // the check: its call has brought a page
	commits              // the check: the page is written or dropped
	ends                 // the check: it gives its account back
	loses                // the check: its claim was lost when it wrote the page
	complies             // the check, or a timer if the checker does not return: it ends as it was called off
	abandons             // the watchdog
	stops                // the shutdown calls it off
	misses               // the watch calls it off: the account has another ticket
	changes              // a changed secret calls it off
	seizes               // the shutdown takes what is left when its time is over
)

// status is one state of a check. While it is calling or inHand, by is the party that has called it
// off.
type status struct {
	at phase
	by party
}

// after returns the status after a move, or false if the move is refused. The package's
// documentation has this as a table.
func (s status) after(m move) (status, bool) {
	open := s.at == calling || s.at == inHand
	switch m {
	case finds:
		return status{inHand, s.by}, s.at == calling
	case commits:
		if s.at == seized {
			return status{settled, byShutdown}, true
		}
		return status{calling, s.by}, s.at == inHand
	case ends:
		return status{settled, byItself}, open
	case loses:
		return status{settled, byLoss}, s.at == inHand || s.at == seized
	case complies:
		return status{settled, s.by}, s.at == calling && s.by != nobody
	case abandons:
		return status{settled, byWatchdog}, s.at == calling
	case stops:
		return status{s.at, byShutdown}, open && s.by == nobody
	case misses: // a page that is being written changes the ticket
		return status{s.at, byLoss}, s.at == calling && s.by == nobody
	case changes:
		return status{s.at, bySecret}, open && s.by == nobody
	case seizes:
		if s.at == inHand {
			return status{seized, byShutdown}, true
		}
		return status{settled, byShutdown}, s.at == calling
	}
	return s, false
}

// hasPage reports whether a page is in hand.
func (s status) hasPage() bool { return s.at == inHand || s.at == seized }

// state is the state of a check. All parties move it by compare-and-swap, so that exactly one of
// them settles the check, and none touches the claim while a page is in hand.
type state struct {
	word atomic.Uint32
	page sync.WaitGroup // one while a page is in hand
}

// now returns the status.
func (s *state) now() status { return unpack(s.word.Load()) }

// move moves the state, and returns the status before. It reports false if the move is refused.
func (s *state) move(m move) (was status, ok bool) {
	for {
		word := s.word.Load()
		was = unpack(word)
		next, ok := was.after(m)
		if !ok {
			return was, false
		}
		takes, putsDown := next.hasPage() && !was.hasPage(), was.hasPage() && !next.hasPage()
		if takes {
			s.page.Add(1) // before others can see the page, and wait for it
		}
		swapped := s.word.CompareAndSwap(word, next.pack())
		if swapped && putsDown || !swapped && takes {
			s.page.Done()
		}
		if swapped {
			return was, true
		}
	}
}

func (s status) pack() uint32 { return uint32(s.at)<<8 | uint32(s.by) }

func unpack(word uint32) status { return status{phase(word >> 8), party(word & 0xff)} }
