package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/message"
)

const (
	// entriesMost is the most messages that are looked at for a conversation, the most sends,
	// and the most entries of both that are returned.
	entriesMost = 50
	// peersMost is the most peers that a list of conversations has, and answersMost those that
	// a schedule has.
	peersMost   = 50
	answersMost = 8
)

// Answers says how the answers of an account stand.
type Answers struct {
	Unknown int           `json:"unknown" doc:"Sends of which nobody knows whether the third party has them, until somebody resolves them."`
	Since   time.Time     `json:"unknown_since,omitzero" doc:"Since when the first of these is unknown."`
	Windows int           `json:"windows,omitempty" doc:"How many peers have a window."`
	Peers   []PeerAnswers `json:"peers" nullable:"false" doc:"At most eight peers: those for whom something waits, then those with a window, by name."`
}

// PeerAnswers says how the answers to one peer stand.
type PeerAnswers struct {
	Peer    string  `json:"peer" doc:"Whom the answers are for, in the kind's own form."`
	Waiting int     `json:"waiting" doc:"Sends to the peer that wait or are being sent."`
	Closed  bool    `json:"waits_for_message,omitempty" doc:"They wait for a message of the peer: only that allows an answer again."`
	Window  *Window `json:"window,omitempty" doc:"Left out if the kind has no windows, or if no message of the peer has opened one lately."`
}

// Window is until when and how often a peer may be answered.
type Window struct {
	Open  bool      `json:"open" doc:"The peer may be answered now."`
	Until time.Time `json:"until" doc:"When the window ends or ended, by Redis' clock."`
	Left  *int      `json:"left,omitempty" doc:"How many more answers it allows; left out if any number."`
	Most  int       `json:"most,omitempty" doc:"How many answers a message of the peer allows anew, as the kind knows it."`
}

// Conversations are what an account found and sent, by peer.
type Conversations struct {
	Types    []string            `json:"types" nullable:"false" doc:"What the account can send. Empty: nothing, and it has no peers."`
	Files    []string            `json:"files,omitempty" doc:"Those of types that are a file. Left out: the account cannot send files, or the server keeps none."`
	Captions bool                `json:"captions,omitempty" doc:"A file may have a caption: {\"file\": \"ID\", \"caption\": \"…\"}. Otherwise its text is a send of its own."`
	FileMost int64               `json:"file_most,omitempty" doc:"How many bytes an uploaded file may have at most, for this server; left out without files. The third party may take less."`
	Windowed bool                `json:"windowed,omitempty" doc:"A peer may be answered only within a window, which their own message opens."`
	Peers    []Peer              `json:"peers" nullable:"false" doc:"With whom the account talks, the latest first."`
	Peer     string              `json:"peer,omitempty" doc:"Whose entries these are: the peer that was asked for, or else the first one."`
	Entries  []ConversationEntry `json:"entries" nullable:"false" doc:"What was found of this peer and sent to them, the oldest first: at most 50, among the latest 50 messages of the account and the latest 100 sends to the peer. What passes by itself, such as a typing notice, is left out."`
}

// TypeOf returns the type of a send of the account for a file with this name.
func (c *Conversations) TypeOf(name string) string {
	if kind := TypeOfFile(name); slices.Contains(c.Files, kind) {
		return kind
	}
	return "file"
}

// Peer is whom an account talks with.
type Peer struct {
	PeerAnswers
	Latest  time.Time `json:"latest,omitzero" doc:"When something was last found of the peer or sent to them, as far as this list looks back."`
	ReplyTo string    `json:"reply_to,omitempty" doc:"Their latest message, as the field reply_to of a send takes it."`
}

// ConversationEntry is a message of a peer, or a send to them.
type ConversationEntry struct {
	Time    time.Time `json:"time" doc:"When the message was written, or the send taken over, by Redis' clock."`
	Message *Message  `json:"message,omitempty"`
	Send    *Send     `json:"send,omitempty"`
}

type conversationsRequest struct {
	AccountID
	Peer string `query:"peer" maxLength:"512" doc:"Whose entries to return; left out: those of the peer with whom the account talked last."`
}

// conversationRoutes adds the route of an account's conversations.
func (s *Server) conversationRoutes(api huma.API) {
	answer(s, api, "get conversations", huma.Operation{
		OperationID: "get-conversations", Method: http.MethodGet, Path: "/v1/accounts/{id}/conversations", Tags: []string{"sends"},
		Summary: "What an account found and sent lately, as one conversation by peer",
		Description: "For each peer it says what waits and until when they may be answered. The kind of the account says who a message is from: a message without such a peer, as from a group that cannot be answered, is in no conversation. " +
			"It looks at the latest messages and sends alone: GET /v1/messages and GET /v1/sends have all.",
		Errors: []int{401, 404, 422, 503},
	}, s.getConversations)
}

// sendingOf returns what an account can send.
func (s *Server) sendingOf(view *accounts.View) Sending {
	if s.options.Sending == nil {
		return Sending{}
	}
	return s.options.Sending(view.Kind, view.Config)
}

// peerOf returns whom an answer to a found message is for; empty: nobody can be answered.
func (s *Sending) peerOf(m *circulate.Message) string {
	o := Outgoing{Type: "text", Data: json.RawMessage(`{"text":"?"}`)}
	if err := s.Prepare(&o, m); err != nil {
		return ""
	}
	return o.Peer
}

// captioned reports whether each type of file takes a caption.
func (s *Sending) captioned() bool {
	return !slices.ContainsFunc(s.Files, func(name string) bool {
		err := s.Prepare(&Outgoing{Peer: "?", Type: name, Data: json.RawMessage(`{"file":"?","caption":"?"}`)}, nil)
		return err != nil && slices.ContainsFunc(accounts.SendFaults(err), func(f accounts.Fault) bool { return f.Field == "data" || f.Field == "data.caption" })
	})
}

// answersOf returns how the answers of an account stand. It returns nil if the account cannot send.
func (s *Server) answersOf(ctx context.Context, view *accounts.View) (*Answers, error) {
	sending := s.sendingOf(view)
	if len(sending.Types) == 0 {
		return nil, nil
	}
	standing, err := s.options.Ring.Sends().Standing(ctx, view.ID, circulate.SendQuery{Peers: answersMost})
	if err != nil {
		return nil, err
	}
	answers := &Answers{Unknown: standing.Unknown, Since: inUTC(standing.UnknownSince), Windows: standing.Windows, Peers: []PeerAnswers{}}
	for _, p := range standing.Peers {
		answers.Peers = append(answers.Peers, answersTo(p, standing.Now, sending.Most))
	}
	return answers, nil
}

func answersTo(p circulate.PeerStanding, now time.Time, most int) PeerAnswers {
	answers := PeerAnswers{Peer: p.Peer, Waiting: p.Line, Closed: p.Waits}
	if w := p.Window; w != nil {
		answers.Window = &Window{Open: w.Until.After(now) && w.Left != 0, Until: inUTC(w.Until), Most: most}
		if w.Left >= 0 {
			answers.Window.Left = &w.Left
		}
	}
	return answers
}

func (s *Server) getConversations(ctx context.Context, r *conversationsRequest) (Conversations, error) {
	view, err := s.registry(ctx).Get(ctx, r.ID)
	if err != nil {
		return Conversations{}, err
	}
	c := Conversations{Types: []string{}, Peers: []Peer{}, Entries: []ConversationEntry{}}
	sending := s.sendingOf(&view)
	if len(sending.Types) == 0 {
		return c, nil
	}
	c.Types, c.Windowed = sending.Types, sending.Windowed
	if s.options.Files != nil && len(sending.Files) > 0 {
		c.Files, c.Captions, c.FileMost = sending.Files, sending.captioned(), s.options.Files.Most()
	}
	found, err := s.latestOf(ctx, view.ID)
	if err != nil {
		return Conversations{}, err
	}
	both := talk{by: make(map[string]*Peer)}
	for i := range found { // the latest first
		if peer := sending.peerOf(&found[i].Message); peer != "" {
			if err := both.found(peer, &found[i]); err != nil {
				return Conversations{}, err
			}
		}
	}
	sends := s.options.Ring.Sends()
	all, err := sends.Standing(ctx, view.ID, circulate.SendQuery{Peers: peersMost, Of: both.names(), Latest: entriesMost})
	if err != nil {
		return Conversations{}, err
	}
	for i := range all.Latest {
		both.sent(&all.Latest[i])
	}
	for _, p := range all.Peers {
		both.peer(p.Peer).PeerAnswers = answersTo(p, all.Now, sending.Most)
	}
	c.Peers = both.peers()
	if c.Peer = r.Peer; c.Peer == "" && len(c.Peers) > 0 {
		c.Peer = c.Peers[0].Peer
	}
	if c.Peer == "" {
		return c, nil
	}
	one, err := sends.Standing(ctx, view.ID, circulate.SendQuery{Peers: 1, Of: []string{c.Peer}, Latest: 2 * entriesMost, Only: c.Peer})
	if err != nil {
		return Conversations{}, err
	}
	said := slices.DeleteFunc(one.Latest, func(send circulate.Send) bool { return slices.Contains(sending.Fleeting, send.Type) })
	var carry []carrying
	c.Entries, carry = both.entries(c.Peer, said)
	var told []*Send
	for i := range c.Entries {
		if send := c.Entries[i].Send; send != nil {
			told = append(told, send)
		}
	}
	return c, errors.Join(s.tellFiles(ctx, carry...), s.tellSendFiles(ctx, told...))
}

// latestOf returns the latest messages of an account, the latest first. It looks at no more
// messages of others than GET /v1/messages does.
func (s *Server) latestOf(ctx context.Context, account string) (latest []circulate.Found, err error) {
	now, err := s.messages.Position(ctx, message.FromNow)
	if err != nil {
		return nil, err
	}
	walk, err := s.messages.Backward(now, message.Filter{Account: account})
	if err != nil {
		return nil, err
	}
	for looked, size := 0, 0; looked < passedMost && size < passedBytes && len(latest) < entriesMost; {
		page, err := walk.Next(ctx, passedPage)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			selected, err := walk.Pass(&page[i])
			if err != nil {
				return nil, err
			}
			if selected {
				latest = append(latest, page[i])
			}
			size += len(page[i].Message.Data)
		}
		looked += len(page)
	}
	visible, err := s.visible(ctx, latest)
	if err != nil {
		return nil, err
	}
	latest = slices.DeleteFunc(latest, func(f circulate.Found) bool { return !visible(&f) })
	return latest[:min(len(latest), entriesMost)], nil
}

// talk puts together what an account found and sent.
type talk struct {
	by       map[string]*Peer
	order    []string // the peers, as they were added
	messages []talkMessage
}

type talkMessage struct {
	peer string
	at   time.Time
	*circulate.Found
}

// peer returns a peer, and adds it if it is new.
func (t *talk) peer(name string) *Peer {
	p := t.by[name]
	if p == nil {
		p = &Peer{PeerAnswers: PeerAnswers{Peer: name}}
		t.by[name] = p
		t.order = append(t.order, name)
	}
	return p
}

// names returns the peers so far, the latest first.
func (t *talk) names() []string { return t.order }

// found adds a message of a peer, which is older than those before.
func (t *talk) found(peer string, f *circulate.Found) error {
	id, err := circulate.ParseStreamID(f.Position)
	if err != nil {
		return err
	}
	at := inUTC(id.Time())
	if p := t.peer(peer); p.ReplyTo == "" {
		p.ReplyTo, p.Latest = strconv.Itoa(f.Shard)+":"+f.Position, at
	}
	t.messages = append(t.messages, talkMessage{peer, at, f})
	return nil
}

// sent adds a send.
func (t *talk) sent(send *circulate.Send) {
	if p := t.peer(send.Peer); send.Queued.After(p.Latest) {
		p.Latest = inUTC(send.Queued)
	}
}

// peers returns the peers, the latest first. Those of whom only a window is known come last.
func (t *talk) peers() []Peer {
	all := make([]Peer, 0, len(t.order))
	for _, name := range t.order {
		all = append(all, *t.by[name])
	}
	slices.SortStableFunc(all, func(a, b Peer) int { return b.Latest.Compare(a.Latest) })
	return all[:min(len(all), peersMost)]
}

// entries returns the conversation with a peer, the oldest first, and its messages.
func (t *talk) entries(peer string, sends []circulate.Send) (all []ConversationEntry, carry []carrying) {
	all = []ConversationEntry{}
	for _, m := range slices.Backward(t.messages) {
		if m.peer == peer {
			shown := messageOf(m.Found)
			all = append(all, ConversationEntry{Time: m.at, Message: &shown})
			carry = append(carry, carrying{found: m.Found, into: &shown})
		}
	}
	for i := range sends {
		shown := sendOf(&sends[i])
		all = append(all, ConversationEntry{Time: shown.Queued, Send: &shown})
	}
	// An answer in the very millisecond of its message comes after it.
	slices.SortStableFunc(all, func(a, b ConversationEntry) int { return a.Time.Compare(b.Time) })
	return all[max(0, len(all)-entriesMost):], carry
}
