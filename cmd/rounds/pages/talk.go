package pages

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	talkText = 2 << 10 // bytes of a message or a send in a conversation

	routeTalk = "GET /v1/accounts/{id}/conversations"
	routeSend = "POST /v1/accounts/{id}/sends"
)

// talk is what an account found and sent, as a conversation with one peer.
type talk struct {
	api.Conversations
	Entries []talkEntry `json:"entries"` // on the page the latest first
}

// talkEntry is a message of the peer, or a send to them.
type talkEntry struct {
	Time    time.Time       `json:"time"`
	Message *accountMessage `json:"message"`
	Send    *sent           `json:"send"`
}

// Chosen returns the peer whose conversation is shown; nil: nothing is known of them.
func (t *talk) Chosen() *api.Peer {
	i := slices.IndexFunc(t.Peers, func(p api.Peer) bool { return p.Peer == t.Peer })
	if i < 0 {
		return nil
	}
	return &t.Peers[i]
}

// Said returns the text of the message. A message that carries files may have none.
func (m *accountMessage) Said() string {
	if text := textOf(m.Data); text != "" || len(m.Files) > 0 {
		return cut(text, talkText)
	}
	return cut(unescaped(m.Data), talkText)
}

// Said returns the text of the send, or the caption of its file.
func (s *sent) Said() string {
	if s.File == nil {
		return cut(contentOf(s.Data), talkText)
	}
	var content struct {
		Caption string `json:"caption"`
	}
	_ = json.Unmarshal(s.Data, &content) // data of another form has no caption
	return cut(content.Caption, talkText)
}

// answerBox is the form that answers the peer whose conversation is shown.
type answerBox struct {
	Peer string
	// ReplyTo is the message that it answers, the peer's latest as the page was made; empty: none is
	// known. If the form found the latest message only when it is posted, a message that comes between
	// two clicks would make two sends of them.
	ReplyTo string
	Key     string // names the send, so that a form that is posted twice is sent once
	Text    string
	Later   bool // the answer may wait for the peer's next message

	Refused string       // why the answer was not taken, if it was not
	Faults  []*api.Fault // the same, by field
}

// readTalk reads the conversation with the peer that the address names, or with whom the account talked
// last. It reads it again only when the account's timeline or its sends have changed or after a while.
func (a *oneAccount) readTalk(v *visit) error {
	mark, err := json.Marshal([]any{a.latestFound(), a.Schedule.Answers})
	if err != nil {
		return err
	}
	read := &talk{}
	if err := v.seldom(link(accountPath(a.ID)+"/conversations", "peer", v.Query("peer")), string(mark), accountKept, read); err != nil {
		return err
	}
	slices.Reverse(read.Entries) // the style shows them from the bottom up
	a.Talk = read
	peer := read.Chosen()
	if peer == nil || !slices.Contains(read.Types, "text") || !v.May(routeSend) {
		return nil
	}
	if v.lives() {
		// A page that was opened before anybody had written has no box, and its address no peer.
		a.Unboxed = v.Query("peer") == ""
		return nil
	}
	a.Box = &answerBox{Peer: peer.Peer, ReplyTo: peer.ReplyTo, Key: rand.Text(), Later: read.Windowed && (peer.Window == nil || !peer.Window.Open)}
	if v.Query("peer") == "" {
		// The box stays with its peer, even if somebody else writes meanwhile.
		a.at = v.With("peer", peer.Peer, "cursor", v.Query("cursor"))
	}
	return nil
}

// liveAt returns the address of the page's live stream; empty: the page's own.
func (a *oneAccount) liveAt() string { return a.at }

// Cannot reports whether nobody can be answered in the name of the account.
func (a *oneAccount) Cannot() bool { return a.Talk != nil && len(a.Talk.Types) == 0 }

// answerPeer queues an answer. If it is refused, the page is shown again with the reason and the text.
func answerPeer(v *visit) (string, error) {
	id, peer, form := v.Query("id"), v.Query("peer"), v.r.PostForm
	if id == "" || peer == "" {
		return "", v.unknownAction()
	}
	text := strings.ReplaceAll(form.Get("text"), "\r\n", "\n") // as browsers send new lines
	body := map[string]any{"type": "text", "data": map[string]string{"text": text}, "when": form.Get("when")}
	if ref := form.Get("reply_to"); ref != "" {
		body["reply_to"] = ref
	} else {
		body["to"] = peer
	}
	_, err := v.exchange(http.MethodPost, accountPath(id)+"/sends", http.Header{"Idempotency-Key": {form.Get("key")}}, body, nil)
	if err == nil {
		return link("/account", "id", id, "peer", peer, "said", "account.answered"), nil
	}
	refused := refusedFor(err, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	if refused == nil {
		return "", err
	}
	shown, failed := readAccount(v)
	a, ok := shown.(*oneAccount)
	if failed != nil || !ok || a.Box == nil {
		return "", err
	}
	box := a.Box
	box.Text, box.ReplyTo = text, form.Get("reply_to")
	at := ""
	if len(refused.Errors) > 0 {
		at = refused.Errors[0].Location
	}
	switch {
	case refused.Status == http.StatusConflict && at == "header.Idempotency-Key":
		box.Refused = v.lang.text("account.reply.taken") // the new key is for another send
		return "", &again{refused.Status, a}
	case refused.Status == http.StatusConflict:
		box.Refused, box.Later = v.lang.text("account.reply.closed", peer), true
	case at != "":
		box.Faults = refused.Errors
	default:
		box.Refused = refused.Detail
	}
	box.Key = form.Get("key") // nobody may know whether the send was taken: with the same key it is taken once
	return "", &again{refused.Status, a}
}
