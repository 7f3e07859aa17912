package imap

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const (
	firstMost = 10_000 // the newest messages, with which a first check begins

	// UIDs are searched for in windows, because an answer has up to 11 bytes for each
	// message, and a mailbox may have millions.
	firstWindow = 4 << 10 // UIDs
	maxWindow   = 64 << 10
	maxWindows  = 16           // of one check; the next page continues
	searchBytes = 12           // bytes of a UID in an answer
	searchSlack = 64 << 10     // bytes of other lines that a server sends meanwhile
	fetchAtOnce = 25           // messages asked for by one FETCH
	maxRaw      = email.MaxRaw // bytes read of one message
	fetchSlack  = 4 << 10      // bytes of an answer around one message
	maxPage     = 4 << 20      // bytes of data on a page; the next page continues

	// A page of more than a few messages waits for memory: for the most that a page needs,
	// including the messages that overfill it.
	fewMessages = 4
	heldPage    = 2 * maxPage
)

// page is a page while it is read, from one mailbox after the other.
type page struct {
	result  poller.Result
	bytes   int  // of data
	held    bool // memory was waited for
	damages email.Damages
}

// add adds a mail to the page.
func (p *page) add(m fetchedMail) {
	p.result.Messages = append(p.result.Messages, m.Message)
	p.bytes += len(m.Data)
	if m.failed != nil {
		p.result.FailedSends = append(p.result.FailedSends, *m.failed)
	}
	p.damages.Add(m.ID, m.damage)
}

// done returns the page, with one warning for all of its mails that are damaged.
func (p *page) done() poller.Result {
	p.result.Warnings = append(p.result.Warnings, p.damages.Warnings()...)
	return p.result
}

// page returns the messages of the only mailbox after the cursor, up to limit.
func (s *session) page(box mailbox, at cursor, limit int) (poller.Result, error) {
	p := new(page)
	next, err := s.read(box, at, limit, p)
	if err != nil {
		return poller.Result{}, err
	}
	if next != at {
		p.result.Cursor = next.encode()
	}
	return p.done(), nil
}

// read adds the messages of an open mailbox after the cursor to a page, up to limit, and returns the
// next cursor.
func (s *session) read(box mailbox, at cursor, limit int, p *page) (cursor, error) {
	if at.validity != box.validity {
		p.result.CursorReset = p.result.CursorReset || at.validity != 0
		start, err := s.start(box)
		if err != nil {
			return cursor{}, err
		}
		at = cursor{validity: box.validity, last: start}
	}
	found, err := s.search(box, at.last, limit)
	if err != nil {
		return cursor{}, err
	}
	if len(p.result.Messages)+len(found.uids) > fewMessages && !p.held {
		if err := s.hold(s.ctx, heldPage); err != nil {
			return cursor{}, fetch.CheckError(err)
		}
		p.held = true
	}
	done, err := s.fetch(box, found.uids, p)
	if err != nil {
		return cursor{}, err
	}
	p.result.HasMore = p.result.HasMore || found.more || done < len(found.uids)
	if at.last = max(at.last, found.passed); done > 0 {
		at.last = found.uids[done-1]
	}
	return at, nil
}

// start returns the UID before the first message that a first check reports.
func (s *session) start(box mailbox) (uint32, error) {
	if box.count <= firstMost {
		return 0, nil
	}
	s.conn.allow(fetchSlack)
	command := s.client.Fetch(imap.SeqSetNum(box.count-firstMost+1), &imap.FetchOptions{UID: true})
	got, err := command.Collect()
	if err != nil {
		return 0, s.failed(err, "read", readRefused)
	}
	if len(got) != 1 || got[0].UID == 0 {
		// The message was expunged just now. The next check counts again.
		return 0, &poller.CheckError{Kind: poller.Transient, Code: "expunged", Message: "read: the mailbox changed while it was counted"}
	}
	return uint32(got[0].UID) - 1, nil
}

// found is the result of a search.
type found struct {
	uids   []uint32 // in ascending order
	more   bool     // there may be more after them
	passed uint32   // if uids is empty, no message has a UID up to this one; 0: unknown
}

// search searches for UIDs after last, window by window, until it has limit of them
// or the mailbox ends.
func (s *session) search(box mailbox, last uint32, limit int) (found, error) {
	var f found
	window := uint32(firstWindow)
	for range maxWindows {
		if last == math.MaxUint32 || box.next != 0 && last+1 >= box.next {
			return f, nil
		}
		to := uint32(math.MaxUint32)
		if box.next == 0 {
			to = 0 // *, the last message
		} else if window < to-last {
			to = last + window
		}
		more, err := s.searchWindow(last, to, limit, &f.uids)
		if err != nil || more || len(f.uids) == limit {
			f.more = more || len(f.uids) == limit && to != 0 && to+1 < box.next
			return f, err
		}
		if to == 0 || to == math.MaxUint32 {
			return f, nil
		}
		last = to
		// After the end there may be messages that the server has not shown yet. The
		// cursor must not skip them.
		if len(f.uids) == 0 && to+1 < box.next {
			f.passed = to
		}
		window = min(2*window, maxWindow)
	}
	f.more = true
	return f, nil
}

// searchWindow adds the UIDs from last+1 to to, where 0 stands for the end, up to
// limit. It reports whether it left some out.
func (s *session) searchWindow(last, to uint32, limit int, uids *[]uint32) (more bool, err error) {
	room := int64(maxWindow)
	if to != 0 {
		room = int64(min(to-last, maxWindow))
	}
	s.conn.allow(room*searchBytes + searchSlack)
	command := s.client.UIDSearch(&imap.SearchCriteria{UID: []imap.UIDSet{{imap.UIDRange{Start: imap.UID(last + 1), Stop: imap.UID(to)}}}}, nil)
	data, err := command.Wait()
	if err != nil {
		return false, s.failed(err, "read", readRefused)
	}
	set, ok := data.All.(imap.UIDSet)
	if data.All != nil && !ok {
		return false, broken("protocol", "the server answered a search for UIDs with other numbers")
	}
	for _, r := range set {
		// "n:*" includes the last message even if its UID is less than n (RFC 3501, section
		// 6.4.8), and a server may answer anything at all.
		for uid := max(uint32(r.Start), last+1); uid <= uint32(r.Stop) && (to == 0 || uid <= to); uid++ {
			if len(*uids) == limit {
				return true, nil
			}
			*uids = append(*uids, uid)
			if uid == math.MaxUint32 {
				break
			}
		}
	}
	return false, nil
}

// fetchedMail is a mail that was read.
type fetchedMail struct {
	poller.Message
	damage string // see email.Data
	failed *poller.FailedSend
}

// fetch adds mails to a page, and returns how many of the UIDs are done: fewer than all if
// the page has no room for more bytes. Mails that no longer exist are skipped.
func (s *session) fetch(box mailbox, uids []uint32, p *page) (done int, err error) {
	for chunk := range slices.Chunk(uids, fetchAtOnce) {
		got, err := s.fetchChunk(box, chunk)
		if err != nil {
			return 0, err
		}
		for _, uid := range chunk {
			if m, ok := got[uid]; ok {
				p.add(m)
			}
		}
		done += len(chunk)
		if p.bytes >= maxPage {
			break
		}
	}
	return done, nil
}

// fetchChunk fetches mails with one command.
func (s *session) fetchChunk(box mailbox, uids []uint32) (map[uint32]fetchedMail, error) {
	s.conn.allow(int64(len(uids)) * (maxRaw + fetchSlack))
	var set imap.UIDSet
	for _, uid := range uids {
		set.AddNum(imap.UID(uid))
	}
	command := s.client.Fetch(set, &imap.FetchOptions{
		UID: true, InternalDate: true, RFC822Size: true, Flags: true,
		BodySection: []*imap.FetchItemBodySection{{Peek: true, Partial: &imap.SectionPartial{Offset: 0, Size: maxRaw}}},
	})
	got := make(map[uint32]fetchedMail, len(uids))
	var fault error
	for item := command.Next(); item != nil; item = command.Next() {
		uid, m, err := readMail(item, box)
		if err != nil {
			fault = err // returned only if the command has no error of its own, which says more
			continue
		}
		got[uid] = m
	}
	if err := command.Close(); err != nil {
		return nil, s.failed(err, "read", readRefused)
	}
	return got, fault
}

// broken returns the error for an answer to FETCH that breaks the rules.
func broken(code, text string) error {
	return &poller.CheckError{Kind: poller.Protocol, Code: code, Message: "read: " + text}
}

// readMail returns the UID and the mail of one FETCH answer.
func readMail(item *imapclient.FetchMessageData, box mailbox) (uint32, fetchedMail, error) {
	var (
		uid   uint32
		at    time.Time
		size  int64
		flags []imap.Flag
		raw   []byte
		whole bool
	)
	for part := item.Next(); part != nil; part = item.Next() {
		switch part := part.(type) {
		case imapclient.FetchItemDataUID:
			uid = uint32(part.UID)
		case imapclient.FetchItemDataInternalDate:
			at = part.Time
		case imapclient.FetchItemDataRFC822Size:
			size = part.Size
		case imapclient.FetchItemDataFlags:
			flags = part.Flags
		case imapclient.FetchItemDataBodySection:
			if part.Literal == nil {
				break
			}
			var err error
			if raw, err = io.ReadAll(io.LimitReader(part.Literal, maxRaw+1)); err != nil {
				return 0, fetchedMail{}, broken(string(fetch.CodeReset), "the connection broke off")
			}
			if len(raw) > maxRaw {
				return 0, fetchedMail{}, broken(string(fetch.CodeTooLarge), "the server sent more of a message than was asked for")
			}
			whole = true
		}
	}
	if !whole {
		// For example, the server sent the message's flags before the requested items. The
		// message would be lost if it were skipped.
		return 0, fetchedMail{}, broken("protocol", "the server answered with a message but not its text")
	}
	if size = max(size, int64(len(raw))); len(raw) < maxRaw {
		size = int64(len(raw)) // Exchange only estimates RFC822.SIZE, and this is the whole mail
	}
	d := email.Parse(raw, size)
	d.Mailbox = box.name
	for _, name := range flags {
		d.AddFlag(string(name))
	}
	id := mark{cursor: cursor{box.validity, uid}}
	if box.several {
		id.name = box.name
	}
	m := poller.Message{ID: string(id.encode()), Type: "mail", Time: message.Usable(at), Data: d.Encode()}
	if box.remember && d.MessageID != "" {
		m.NoID, m.Content = true, d.MessageID // UIDs change
	}
	return uid, fetchedMail{m, d.Damage, failedSend(raw)}, nil
}

var errCursor = errors.New("imap: broken cursor")

// cursor is the position in a mailbox: at most 21 bytes, short enough to be stored with
// the account's ticket.
type cursor struct {
	validity uint32 // UIDVALIDITY; 0: never checked
	last     uint32 // the UID of the last reported message; 0: none yet
}

// parseCursor reads UIDVALIDITY:UID. An empty cursor means that the mailbox was never
// checked.
func parseCursor(raw []byte) (cursor, error) {
	if len(raw) == 0 {
		return cursor{}, nil
	}
	validity, last, ok := strings.Cut(string(raw), ":")
	v, err1 := strconv.ParseUint(validity, 10, 32)
	l, err2 := strconv.ParseUint(last, 10, 32)
	c := cursor{uint32(v), uint32(l)}
	if !ok || err1 != nil || err2 != nil || v == 0 || string(c.encode()) != string(raw) {
		return cursor{}, errCursor
	}
	return c, nil
}

func (c cursor) encode() []byte { return fmt.Appendf(nil, "%d:%d", c.validity, c.last) }
