package imap

import (
	"bytes"
	"slices"
	"strings"
	"unicode"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"github.com/rounds-dev/rounds/poller"
)

const (
	inbox        = "INBOX" // in any case (RFC 3501, section 5.1)
	maxMailboxes = 16      // of an account
	maxMailbox   = 200     // bytes of the name of one of several, which is a part of messages' ids
	maxMarks     = 32      // mailboxes in a cursor
	maxList      = 1 << 20 // bytes of an answer to LIST
)

// uses are the special uses by which a mailbox can be named (RFC 6154 and RFC 8457).
func uses() []imap.MailboxAttr {
	return []imap.MailboxAttr{
		imap.MailboxAttrAll, imap.MailboxAttrArchive, imap.MailboxAttrDrafts, imap.MailboxAttrFlagged, imap.MailboxAttrImportant,
		imap.MailboxAttrJunk, imap.MailboxAttrSent, imap.MailboxAttrTrash,
	}
}

// use returns the special use that a config names, such as \Sent.
func use(name string) (imap.MailboxAttr, bool) {
	for _, u := range uses() {
		if strings.EqualFold(string(u), name) {
			return u, true
		}
	}
	return "", false
}

// mark says how far an account has read a mailbox.
type mark struct {
	name string // empty: the only mailbox, or once the only one
	cursor
}

// parseMarks reads a cursor: the one mark of an account with one mailbox, UIDVALIDITY:UID, or a line
// for each of several mailboxes, UIDVALIDITY:UID:NAME.
func parseMarks(raw []byte) (marks []mark, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		m, err := parseMark(line)
		if err != nil || len(marks) == maxMarks || slices.ContainsFunc(marks, func(other mark) bool { return other.name == m.name }) {
			return nil, errCursor
		}
		marks = append(marks, m)
	}
	return marks, nil
}

// parseMark reads one mark, which is also the id of a message.
func parseMark(text string) (mark, error) {
	parts := strings.SplitN(text, ":", 3)
	var m mark
	if len(parts) == 3 {
		m.name, text = parts[2], parts[0]+":"+parts[1]
		if !nameable(m.name) {
			return mark{}, errCursor
		}
	}
	var err error
	if m.cursor, err = parseCursor([]byte(text)); err != nil || m.validity == 0 {
		return mark{}, errCursor
	}
	return m, nil
}

// nameable reports whether a mailbox can be one of several.
func nameable(name string) bool {
	return name != "" && len(name) <= maxMailbox && !strings.ContainsFunc(name, unicode.IsControl)
}

func (m mark) encode() []byte {
	if m.name == "" {
		return m.cursor.encode()
	}
	return append(append(m.cursor.encode(), ':'), m.name...)
}

func encodeMarks(marks []mark) []byte {
	lines := make([][]byte, len(marks))
	for i := range marks {
		lines[i] = marks[i].encode()
	}
	return bytes.Join(lines, []byte("\n"))
}

// resolve finds the names of the config's mailboxes, as the server has them, each once.
func (s *session) resolve() error {
	names := make([]string, 0, len(s.config.mailboxes))
	var found map[imap.MailboxAttr]string
	for _, name := range s.config.mailboxes {
		if u, ok := use(name); ok {
			if found == nil {
				var err error
				if found, err = s.specialUses(); err != nil {
					return err
				}
			}
			if name = found[u]; !nameable(name) {
				_, field := s.where(string(u))
				return &poller.CheckError{Kind: poller.ConfigInvalid, Code: "nonexistent", Message: field + ": the server says of no mailbox that it is this one; give the mailbox' own name"}
			}
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	s.mailboxes = names
	return nil
}

// specialUses asks the server for the mailboxes that have a special use. Of several with the same use
// it returns the first name. Servers without LIST-EXTENDED name the uses in any list.
func (s *session) specialUses() (map[imap.MailboxAttr]string, error) {
	s.conn.allow(maxList)
	options := &imap.ListOptions{}
	if caps := s.client.Caps(); caps.Has(imap.CapSpecialUse) && caps.Has(imap.CapListExtended) {
		options.ReturnSpecialUse = true
	}
	command := s.client.List("", "*", options)
	found := make(map[imap.MailboxAttr]string)
	for box := command.Next(); box != nil; box = command.Next() {
		if slices.Contains(box.Attrs, imap.MailboxAttrNoSelect) || slices.Contains(box.Attrs, imap.MailboxAttrNonExistent) {
			continue
		}
		for _, attr := range box.Attrs {
			u, ok := use(string(attr))
			if known := found[u]; ok && (known == "" || box.Mailbox < known) {
				found[u] = box.Mailbox
			}
		}
	}
	if err := command.Close(); err != nil {
		return nil, s.failed(err, "LIST", readRefused)
	}
	return found, nil
}

// statuses returns the states of the mailboxes. The server is asked for them in one round trip, without
// opening any. The state of the open mailbox is not asked for (RFC 3501, section 6.3.10): if it has been
// read already, it may have news.
func (s *session) statuses() ([]mailbox, error) {
	boxes := make([]mailbox, len(s.mailboxes))
	commands := make([]*imapclient.StatusCommand, len(s.mailboxes))
	for i, name := range s.mailboxes {
		if boxes[i].name = name; name != s.box.name {
			commands[i] = s.client.Status(name, &imap.StatusOptions{UIDNext: true, UIDValidity: true})
			continue
		}
		if boxes[i] = s.box; s.looked {
			boxes[i].next = 0
		}
	}
	var fault error
	for i, command := range commands {
		if command == nil {
			continue
		}
		data, err := command.Wait()
		if err != nil && fault == nil {
			fault = s.unopened(boxes[i].name, err)
		}
		if err == nil {
			boxes[i].validity, boxes[i].next = data.UIDValidity, uint32(data.UIDNext)
		}
	}
	return boxes, fault
}

// news reports whether there may be messages after the cursor.
func (b *mailbox) news(at cursor) bool {
	return b.validity != at.validity || b.next == 0 || at.last+1 < b.next
}

// look returns the messages after the marks, up to limit.
func (s *session) look(marks []mark, limit int) (poller.Result, error) {
	if err := s.unpark(); err != nil {
		return poller.Result{}, err
	}
	if s.config.several() {
		return s.lookAtSeveral(marks, limit)
	}
	at := onlyMark(marks, s.mailboxes[0])
	box, err := s.opened(s.mailboxes[0], at)
	if err != nil {
		return poller.Result{}, err
	}
	return s.page(box, at, limit)
}

// opened returns a mailbox, which it opens unless it is open. Only of a mailbox that was just opened
// the server has said where it ends.
func (s *session) opened(name string, at cursor) (mailbox, error) {
	if s.box.name != name || s.looked && at.validity != s.box.validity {
		s.box = mailbox{}
		box, err := s.examine(name)
		if err != nil {
			return mailbox{}, err
		}
		s.box, s.looked = box, false
	}
	box := s.box
	if s.looked && at.last >= box.next-1 {
		box.next = 0
	}
	s.looked = true
	return box, nil
}

// onlyMark returns the cursor of the only mailbox, which may have been one of several.
func onlyMark(marks []mark, name string) cursor {
	for _, m := range marks {
		if m.name == "" || m.name == name {
			return m.cursor
		}
	}
	return cursor{}
}

// lookAtSeveral returns messages of several mailboxes. It asks for the states of all of them but the open
// one, and reads only those in which there may be new messages. Each of these gets an equal share of the page, and
// what others leave of theirs. The mailbox that was served the longest time ago comes first: the marks
// are in that order.
func (s *session) lookAtSeveral(marks []mark, limit int) (poller.Result, error) {
	before := encodeMarks(marks)
	marks = adopt(marks, s.mailboxes)
	boxes, err := s.statuses()
	if err != nil {
		return poller.Result{}, err
	}
	turn := func(b mailbox) int { return slices.IndexFunc(marks, func(m mark) bool { return m.name == b.name }) }
	slices.SortStableFunc(boxes, func(a, b mailbox) int { return turn(a) - turn(b) }) // unknown ones first
	boxes = slices.DeleteFunc(boxes, func(b mailbox) bool {
		i := turn(b)
		return i >= 0 && !b.news(marks[i].cursor)
	})
	p := new(page)
	for i, b := range boxes {
		left := limit - len(p.result.Messages)
		if left <= 0 || p.bytes >= maxPage {
			p.result.HasMore = true
			break
		}
		var at cursor
		known := turn(b)
		if known >= 0 {
			at = marks[known].cursor
		}
		box, err := s.opened(b.name, at)
		if err != nil {
			return poller.Result{}, err
		}
		found := len(p.result.Messages)
		waiting := len(boxes) - i
		next, err := s.read(box, at, (left+waiting-1)/waiting, p)
		switch {
		case err != nil:
			return poller.Result{}, err
		case known >= 0 && found == len(p.result.Messages):
			marks[known].cursor = next
			continue
		case known >= 0:
			marks = slices.Delete(marks, known, known+1)
		}
		marks = append(marks, mark{b.name, next})
	}
	if after := encodeMarks(limited(marks, s.mailboxes)); !bytes.Equal(after, before) {
		p.result.Cursor = after
	}
	return p.done(), nil
}

// adopt returns the marks for several mailboxes. A mark from the time when the account had one mailbox
// is that of the first one.
func adopt(marks []mark, names []string) []mark {
	marks = slices.Clone(marks)
	known := slices.ContainsFunc(marks, func(m mark) bool { return m.name == names[0] })
	for i := range marks {
		if marks[i].name == "" && !known {
			marks[i].name = names[0]
		}
	}
	return slices.DeleteFunc(marks, func(m mark) bool { return m.name == "" })
}

// limited returns at most as many marks as a cursor may have. Marks of mailboxes that the config does
// not name are kept, because it may name them again, but the oldest are dropped first.
func limited(marks []mark, names []string) []mark {
	for len(marks) > maxMarks {
		i := slices.IndexFunc(marks, func(m mark) bool { return !slices.Contains(names, m.name) })
		marks = slices.Delete(marks, i, i+1) // names are fewer
	}
	return marks
}
