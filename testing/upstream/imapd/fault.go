package imapd

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
)

// Fault is what an account does wrong, at the first step that it names.
type Fault struct {
	Hang   string      // "login", "select", "fetch" or "idle": answer that step only after Heal
	Login  *imap.Error // answer to a login
	Select *imap.Error // answer to the opening of a mailbox, and to the question for its state
	Search string      // written in place of the answer to a search
	Fetch  string      // written in place of the answer to FETCH
	Bytes  int64       // each text that FETCH returns has this many bytes
	Cut    bool        // FETCH ends the connection
	Exists int         // IDLE says so often that there are mails, though there are no more
	Bye    string      // IDLE ends with these words and the connection, or the answer of Select does

	CutBody bool // FETCH ends the connection in the middle of a text of 100,000 bytes

	Times int // how often that happens, unless it hangs; 0: until Heal
}

// at reports whether the fault happens at a step.
func (f *Fault) at(step string) bool {
	switch {
	case f.Hang != "":
		return step == f.Hang
	case f.Login != nil:
		return step == "login"
	case f.Select != nil:
		return step == "select" || step == "status"
	case f.Search != "":
		return step == "search"
	case f.Exists > 0, f.Bye != "":
		return step == "idle"
	}
	return step == "fetch"
}

// Fail sets an account's fault and replaces an earlier one.
func (s *Server) Fail(name string, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(name)
	a.heal()
	a.fault, a.healed = &f, make(chan struct{})
}

// Heal ends an account's fault and releases what hangs.
func (s *Server) Heal(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account(name).heal()
}

// Failing reports whether an account has a fault, which may happen again.
func (s *Server) Failing(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.account(name).fault != nil
}

func (a *account) heal() {
	if a.healed != nil {
		close(a.healed)
	}
	a.fault, a.healed = nil, nil
}

// session is one connection: that of the library, with faults.
type session struct {
	*imapmemserver.UserSession // nil before the login
	server                     *Server
	conn                       *imapserver.Conn
	name                       string
	ended                      func() // called at the end; nil: nothing is
}

// fault returns the account's fault. If the fault hangs at the step, it returns after
// Heal.
func (s *session) fault(step string) Fault {
	s.server.mu.Lock()
	a := s.server.account(s.name)
	if a.fault == nil {
		s.server.mu.Unlock()
		return Fault{}
	}
	f, healed := *a.fault, a.healed
	if f.Times > 0 && f.Hang == "" && f.at(step) {
		if a.fault.Times--; a.fault.Times == 0 {
			a.heal()
		}
	}
	s.server.mu.Unlock()
	if f.Hang == step {
		<-healed
		return Fault{}
	}
	return f
}

// Login accepts every account.
func (s *session) Login(name, password string) error {
	return s.enter(name, func(user *imapmemserver.User) error { return user.Login(name, password) })
}

// enter logs in, if the check of the credential has no error.
func (s *session) enter(name string, check func(*imapmemserver.User) error) error {
	s.server.mu.Lock()
	s.server.logins++
	user := s.server.account(name).user
	s.server.mu.Unlock()
	s.name = name
	if f := s.fault("login"); f.Login != nil {
		return f.Login
	}
	if err := check(user); err != nil {
		return err
	}
	s.UserSession = imapmemserver.NewUserSession(user)
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.account(name).conns[s.conn.NetConn()] = true
	return nil
}

// Close ends the connection.
func (s *session) Close() error {
	if s.ended != nil {
		s.ended()
	}
	s.server.mu.Lock()
	delete(s.server.account(s.name).conns, s.conn.NetConn())
	s.server.mu.Unlock()
	if s.UserSession == nil {
		return nil
	}
	return s.UserSession.Close()
}

// Idle waits for changes of the mailbox.
func (s *session) Idle(w *imapserver.UpdateWriter, stop <-chan struct{}) error {
	s.turn(1)
	defer s.turn(-1)
	f := s.fault("idle")
	if f.Bye != "" && f.Select == nil {
		s.bye(f.Bye)
		return nil
	}
	for range f.Exists {
		if err := w.WriteNumMessages(7); err != nil {
			return err
		}
	}
	return s.UserSession.Idle(w, stop)
}

// bye ends the connection with words.
func (s *session) bye(words string) {
	_, _ = s.conn.NetConn().Write([]byte("* BYE " + words + "\r\n"))
	_ = s.conn.NetConn().Close()
}

// turn notes that the connection begins or ends IDLE.
func (s *session) turn(n int) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	a := s.server.account(s.name)
	if a.idling += n; s.server.options.Idled != nil {
		s.server.options.Idled(s.name, a.idling)
	}
	close(s.server.turned)
	s.server.turned = make(chan struct{})
}

// Select opens a mailbox. Like NetEase's server, it opens none for a client that was
// offered ID and did not send it. Like Dovecot, it has no code for a mailbox that does
// not exist.
func (s *session) Select(name string, o *imap.SelectOptions) (*imap.SelectData, error) {
	if f := s.fault("select"); f.Select != nil {
		if f.Bye != "" {
			s.conn.NetConn().(*talk).after(func() { s.bye(f.Bye) })
		}
		return nil, f.Select
	}
	id, offered := sent(s.conn.NetConn())
	if offered && id == "" {
		return nil, &imap.Error{Type: imap.StatusResponseTypeNo, Text: "EXAMINE Unsafe Login. Please contact kefu@example.com for help"}
	}
	s.server.mu.Lock()
	s.server.id = id
	s.server.opened = append(s.server.opened, name)
	s.server.mu.Unlock()
	s.server.boxes.RLock()
	defer s.server.boxes.RUnlock()
	data, err := s.UserSession.Select(name, o)
	return data, missing(name, err)
}

// Status tells the state of a mailbox.
func (s *session) Status(name string, o *imap.StatusOptions) (*imap.StatusData, error) {
	if f := s.fault("status"); f.Select != nil {
		return nil, f.Select
	}
	s.server.boxes.RLock()
	defer s.server.boxes.RUnlock()
	data, err := s.UserSession.Status(name, o)
	return data, missing(name, err)
}

// List lists mailboxes. The library's server knows no special uses.
func (s *session) List(w *imapserver.ListWriter, ref string, patterns []string, o *imap.ListOptions) error {
	if !o.ReturnSpecialUse {
		return s.UserSession.List(w, ref, patterns, o)
	}
	s.server.mu.Lock()
	uses := maps.Clone(s.server.account(s.name).uses)
	s.server.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		if err := w.WriteList(&imap.ListData{Mailbox: name, Delim: '/', Attrs: uses[name]}); err != nil {
			return err
		}
	}
	return nil
}

// missing returns the error for a mailbox that may not exist, as Dovecot has it.
func missing(name string, err error) error {
	var refused *imap.Error
	if errors.As(err, &refused) && refused.Code == imap.ResponseCodeNonExistent {
		return &imap.Error{Type: imap.StatusResponseTypeNo, Text: "Mailbox doesn't exist: " + name + " (0.001 + 0.000 secs)."}
	}
	return err
}

// Search answers a search.
func (s *session) Search(kind imapserver.NumKind, criteria *imap.SearchCriteria, o *imap.SearchOptions) (*imap.SearchData, error) {
	if f := s.fault("search"); f.Search != "" {
		_, _ = s.conn.NetConn().Write([]byte(f.Search))
	}
	return s.UserSession.Search(kind, criteria, o)
}

// Fetch returns mails.
func (s *session) Fetch(w *imapserver.FetchWriter, set imap.NumSet, o *imap.FetchOptions) error {
	f := s.fault("fetch")
	switch {
	case f.Fetch != "":
		_, err := s.conn.NetConn().Write([]byte(f.Fetch))
		return err
	case f.CutBody:
		_, _ = s.conn.NetConn().Write([]byte("* 1 FETCH (UID " + set.String() + " BODY[1] {100000}\r\n" + strings.Repeat("x", 50_000)))
		return s.conn.NetConn().Close()
	case f.Cut:
		return s.conn.NetConn().Close()
	case f.Bytes > 0:
		return s.fetchLarge(w, set, o, f.Bytes)
	}
	return s.UserSession.Fetch(w, set, o)
}

// fetchLarge answers with more than was asked for.
func (s *session) fetchLarge(w *imapserver.FetchWriter, set imap.NumSet, o *imap.FetchOptions, size int64) error {
	uids, _ := set.(imap.UIDSet)
	for _, r := range uids {
		m := w.CreateMessage(1)
		m.WriteUID(r.Start)
		body := m.WriteBodySection(o.BodySection[0], size)
		_, err := io.Copy(body, io.LimitReader(endless{}, size))
		// Both must be closed in any case: they hold the connection's lock.
		if err := errors.Join(err, body.Close(), m.Close()); err != nil {
			return err
		}
	}
	return nil
}

// endless is a text of the letter x.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
