package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/emersion/go-imap/v2"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/oauth"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/oidctest"
	"github.com/rounds-dev/rounds/testing/ports"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
	"github.com/rounds-dev/rounds/testing/wecomtest"
)

const (
	mailEvery = 5 // every so many posts a mail is delivered
	inbox     = "INBOX"
	archive   = "Archive" // the second mailbox of accounts that have several
)

// mailboxes are accounts of a mail server.
type mailboxes struct {
	server   *imapd.Server
	provider *oidctest.Provider // whose access tokens some accounts log in with
	key      string             // that opens their sign-ins
	random   *rand.Rand         // of its own: the draws of others stay as they are
	accounts []*mailAccount
	injected map[string]int    // how often each error was met, by name
	pending  map[string]string // the error that an account is still to meet; "" and expired: that any of them is
	turn     int               // of the errors
	over     func() error      // ends what lasts until the next error; nil: nothing does
	renewed  int               // how often UIDVALIDITY changed
	spoiled  bool              // see plan
	refused  int               // access tokens that the server had refused when they last expired

	mu    sync.Mutex
	idled map[string]bool // accounts that were in IDLE
}

// mailAccount is an account, and what it got.
type mailAccount struct {
	id                         string
	held, remembers, hasSecond bool
	signedIn                   bool              // by an access token, not with a password
	mails                      []string          // the mailbox of each mail; that in both is in INBOX
	validity                   map[string]uint32 // UIDVALIDITY by mailbox
}

func newMailboxes(seed uint64, n int, spoiled bool) (_ *mailboxes, err error) {
	b := &mailboxes{random: rand.New(rand.NewPCG(seed, 11)), injected: make(map[string]int), pending: make(map[string]string), spoiled: spoiled, idled: make(map[string]bool)}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.provider, err = oidctest.Launch(); err != nil {
		return nil, err
	}
	b.provider.Offline(oidctest.Offline{Rotates: true, Keeps: true})
	key, err := secrets.Generate()
	if err != nil {
		return nil, err
	}
	if b.key, err = key.Text(); err != nil {
		return nil, err
	}
	address, err := ports.Address() // which stays ours while the server is down
	if err != nil {
		return nil, err
	}
	b.server, err = imapd.StartWith(imapd.Options{
		Encryption: "none", Address: address, Valid: func(_, token string) bool { return b.provider.Active(token) },
		Idled: func(name string, _ int) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.idled[name] = true
		},
	})
	if err != nil {
		return nil, err
	}
	for n := range n {
		a := &mailAccount{id: fmt.Sprintf("mail-%d", n), held: n%2 == 0, remembers: n%4 < 2, hasSecond: n%5 == 0, signedIn: n%3 == 0}
		if b.accounts = append(b.accounts, a); a.hasSecond {
			if err := b.server.Create(a.id, archive); err != nil {
				return nil, err
			}
		}
		a.note(b.server)
	}
	return b, nil
}

// note notes the UIDVALIDITY of the mailboxes.
func (a *mailAccount) note(server *imapd.Server) {
	a.validity = map[string]uint32{inbox: server.UIDValidity(a.id, inbox)}
	if a.hasSecond {
		a.validity[archive] = server.UIDValidity(a.id, archive)
	}
}

func (b *mailboxes) close() {
	if b.server != nil {
		b.server.Close()
	}
	if b.provider != nil {
		b.provider.Close()
	}
}

func (b *mailboxes) settings() []string {
	return []string{
		"ROUNDS_SECRET_mail=" + imapd.Password, "ROUNDS_SECRETS_KEY=" + b.key,
		fmt.Sprintf(`%s%s={"client_id":%q,"client_secret":%q,"issuer":%q}`, secrets.ServiceEnvPrefix, oauth.ClientName(b.provider.URL), oidctest.ClientID, oidctest.ClientSecret, b.provider.URL),
	}
}

// signIn stores a sign-in for each account that has no password.
func (b *mailboxes) signIn(ctx context.Context, w *wecomtest.World) error {
	for _, a := range b.accounts {
		if !a.signedIn {
			continue
		}
		grant, err := oauth.Grant{Provider: b.provider.URL, ClientID: oidctest.ClientID, Refresh: b.provider.Grant(), Key: a.id}.Text()
		if err != nil {
			return err
		}
		if err := w.StoreSecret(ctx, a.id, grant, strings.TrimPrefix(b.provider.URL, "http://"), fmt.Sprintf("127.0.0.1:%d", b.server.Port)); err != nil {
			return err
		}
	}
	return nil
}

// write writes the accounts, one a line.
func (b *mailboxes) write(out io.Writer) {
	for _, a := range b.accounts {
		cadence, config := "every 0", map[string]any{"host": "127.0.0.1", "port": b.server.Port, "tls": "none", "user": a.id, "password": map[string]string{"secret": "mail"}}
		if a.signedIn {
			delete(config, "password")
			config["oauth"] = map[string]string{"secret": a.id}
		}
		if !a.held {
			cadence = fmt.Sprint("every ", every)
		}
		if a.remembers {
			config["remember"] = "message_id"
		}
		if a.hasSecond {
			config["mailboxes"] = []string{inbox, archive}
		}
		record := map[string]any{"id": a.id, "kind": "imap", "cadence": cadence, "config": config}
		_ = json.NewEncoder(out).Encode(record) // strings and numbers always encode
	}
}

// post delivers a mail to an account.
func (b *mailboxes) post() { b.deliver(b.accounts[b.random.IntN(len(b.accounts))]) }

// deliver delivers a mail. An account that remembers mails and has two mailboxes may get it in both.
func (b *mailboxes) deliver(a *mailAccount) {
	boxes := []string{inbox}
	if a.hasSecond {
		switch b.random.IntN(3) {
		case 0:
			boxes[0] = archive
		case 1:
			if a.remembers {
				boxes = append(boxes, archive)
			}
		}
	}
	a.mails = append(a.mails, boxes[0])
	if b.spoiled {
		switch {
		case a.remembers: // it would hide a doubled mail
		case len(a.mails) == 2:
			return // so it never arrives
		case len(a.mails) == 3:
			boxes = append(boxes, boxes[0])
		}
	}
	for _, box := range boxes {
		b.server.DeliverTo(a.id, box, fmt.Sprintf("From: Anna <anna@example.com>\r\nTo: %s@example.com\r\nSubject: mail %d\r\nMessage-ID: <%s>\r\n\r\nHello\r\n",
			a.id, len(a.mails), a.messageID(len(a.mails))))
	}
}

// messageID returns the Message-ID of the n-th mail, from 1.
func (a *mailAccount) messageID(n int) string { return fmt.Sprintf("%d.%s@example.com", n, a.id) }

// mailErrors are the errors of one account that pass.
func mailErrors() map[string]imapd.Fault {
	no := func(code imap.ResponseCode, text string) *imap.Error {
		return &imap.Error{Type: imap.StatusResponseTypeNo, Code: code, Text: text}
	}
	return map[string]imapd.Fault{
		"9 MiB":                {Bytes: 9 << 20, Times: 1},
		"LIMIT":                {Login: no(imap.ResponseCodeLimit, "slow down"), Times: 1},
		"UNAVAILABLE":          {Login: no(imap.ResponseCodeUnavailable, "try again later"), Times: 1},
		"cut":                  {Cut: true, Times: 1},
		"cut in a literal":     {CutBody: true, Times: 1},
		"no IMAP":              {Fetch: "* 1 FETCH (UID nonsense\r\n", Times: 1},
		"not opened":           {Select: no("", "try again"), Times: 1},
		"too many connections": {Login: no(imap.ResponseCodeAlert, "Too many simultaneous connections"), Times: 1},
	}
}

// The errors that are no fault of one account's answers.
const (
	down     = "connection refused"
	crowded  = "BYE"
	slow     = "slow"
	renumber = "UIDVALIDITY"
	expired  = "access token expired"
)

func kindsOfMailErrors() int { return len(mailErrors()) + 5 }

// breakSomething injects the next error, and ends the one before if that lasts.
func (b *mailboxes) breakSomething(short bool) error {
	if err := b.settle(); err != nil {
		return err
	}
	faults := mailErrors()
	if short { // a mailbox waits for minutes after these
		delete(faults, "LIMIT")
		delete(faults, "too many connections")
	}
	names := append(sortedKeys(faults), down, crowded, slow, renumber, expired)
	name := names[b.turn%len(names)]
	b.turn++
	a := b.accounts[b.random.IntN(len(b.accounts))]
	switch name {
	case down:
		b.injected[down]++
		b.server.Down()
		b.over = b.server.Up
	case crowded:
		b.server.Refuse(2)
		b.pending[""] = crowded
		b.server.Cut(a.id)
	case slow:
		b.injected[slow]++
		b.server.Fail(a.id, imapd.Fault{Hang: "fetch"})
		b.deliver(a)
		b.over = func() error {
			b.server.Heal(a.id)
			return nil
		}
	case expired: // of all accounts, and in the middle of the session of one
		for !a.signedIn || !a.held {
			a = b.accounts[b.random.IntN(len(b.accounts))]
		}
		b.provider.Revoke(true)
		b.refused, b.pending[expired] = b.server.RefusedTokens(), expired
		b.deliver(a)
		b.server.Dismiss(a.id, "Session invalidated - AccessTokenExpired")
	case renumber:
		b.injected[renumber]++
		b.renewed++
		if err := b.server.Renumber(a.id, inbox); err != nil {
			return err
		}
		a.note(b.server)
	default:
		b.server.Fail(a.id, faults[name])
		b.pending[a.id] = name
		b.deliver(a)
		if faults[name].Login != nil || faults[name].Select != nil { // in the middle of a session
			b.server.Cut(a.id)
		}
	}
	return nil
}

// settle counts the errors that were met, and ends the one that lasts.
func (b *mailboxes) settle() error {
	for id, name := range b.pending {
		var waits bool
		switch id {
		case "":
			waits = b.server.Refusing()
		case expired:
			waits = b.server.RefusedTokens() == b.refused
		default:
			waits = b.server.Failing(id)
		}
		if waits {
			continue
		}
		b.injected[name]++
		delete(b.pending, id)
	}
	over := b.over
	if b.over = nil; over == nil {
		return nil
	}
	return over()
}

// heal ends all errors.
func (b *mailboxes) heal() error {
	err := b.settle()
	b.server.Refuse(0)
	for _, a := range b.accounts {
		b.server.Heal(a.id)
	}
	return err
}

// mailSum is what became of mails.
type mailSum struct {
	posted, missing, doubled, strange int

	again int      // found again, after UIDVALIDITY had changed
	late  []string // accounts that miss mails
}

// count compares the streams with what was delivered.
func (b *mailboxes) count(ctx context.Context, ring *circulate.Ring) (mailSum, error) {
	found := make(map[string]map[string][]string) // ids by account and Message-ID
	err := eachFound(ctx, ring, func(m circulate.Found) {
		if m.Kind != "imap" {
			return
		}
		var mail struct {
			MessageID string `json:"message_id"`
		}
		_ = json.Unmarshal(m.Message.Data, &mail) // without, the mail is made up
		if found[m.Account] == nil {
			found[m.Account] = make(map[string][]string)
		}
		found[m.Account][mail.MessageID] = append(found[m.Account][mail.MessageID], m.Message.ID)
	})
	var sum mailSum
	for _, a := range b.accounts {
		a.tally(&sum, found[a.id])
	}
	return sum, err
}

// tally counts one account, of which mails were found under these ids. A mail is found once if the
// account remembers mails. Otherwise it is found once under the mailbox' UIDVALIDITY, and may have been
// found once under each that the mailbox had before.
func (a *mailAccount) tally(s *mailSum, found map[string][]string) {
	missed := s.missing
	s.posted += len(a.mails)
	known := 0
	for i, box := range a.mails {
		ids := found[a.messageID(i+1)]
		known += min(len(ids), 1)
		under := make(map[string]int)
		for _, id := range ids {
			validity, _, _ := strings.Cut(id, ":")
			under[validity]++
		}
		switch {
		case len(ids) == 0, !a.remembers && under[fmt.Sprint(a.validity[box])] == 0:
			s.missing++
		case a.remembers:
			s.doubled += len(ids) - 1
		default:
			s.doubled += len(ids) - len(under)
			s.again += len(under) - 1
		}
	}
	if s.strange += len(found) - known; s.missing > missed {
		s.late = append(s.late, a.id)
	}
}

// onlyHeld reports whether those mailboxes were in IDLE that are held, and no others.
func (b *mailboxes) onlyHeld() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.accounts {
		if b.idled[a.id] != a.held {
			return false
		}
	}
	return true
}

// findings are what is expected of mailboxes.
func (b *mailboxes) findings(s mailSum, short bool) []finding {
	total := 0
	for _, n := range b.injected {
		total += n
	}
	b.mu.Lock()
	idled := len(b.idled)
	b.mu.Unlock()
	return []finding{
		{"every mail of every mailbox is in the streams once by its Message-ID, or once under each UIDVALIDITY if mails are not remembered",
			fmt.Sprintf("%d delivered to %d accounts; %d missing, %d doubled, %d made up; UIDVALIDITY changed %d times, after which %d were found again", s.posted, len(b.accounts), s.missing, s.doubled, s.strange, b.renewed, s.again),
			s.posted > 0 && s.missing+s.doubled+s.strange == 0},
		{"mailboxes that are held wait in IDLE, and no others do", fmt.Sprintf("%d of %d were in IDLE", idled, len(b.accounts)), b.onlyHeld()},
		{"every error of mailboxes was met", fmt.Sprintf("%d times, %d kinds: %s", total, len(b.injected), strings.Join(sortedKeys(b.injected), "; ")), short || len(b.injected) == kindsOfMailErrors()},
	}
}
