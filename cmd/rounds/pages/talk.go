package pages

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
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

	Files    bool      // the answer may have a file
	Most     int64     // bytes of a file
	Attached *attached // a file that was uploaded with an answer that was refused; nil: none

	Partly    bool         // the file was taken, and the text was not
	Refused   string       // why the answer was not taken, if it was not
	FileFault string       // why its file was not taken
	Faults    []*api.Fault // why the answer was not taken, by field
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
	a.Box.Files, a.Box.Most = len(read.Files) > 0 && v.May(routeUpload), read.FileMost
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

// answer is what the form of the box asks for.
type answer struct {
	account, peer string
	form          url.Values
	text          string
	file          *attached // nil: the form has none
	talk          *talk     // the conversation, if there is a file

	key    string // of the send that is queued, or else refused
	partly bool   // the file is queued, and its text is another send
}

// attached is an uploaded file.
type attached struct{ ID, Name string }

// answerPeer queues an answer. If it is refused, the page is shown again with the reason, the text, and
// the file if it was uploaded.
func answerPeer(v *visit) (string, error) {
	form := v.r.PostForm
	a := &answer{account: v.Query("id"), peer: v.Query("peer"), form: form, key: form.Get("key")}
	if a.account == "" || a.peer == "" {
		return "", v.unknownAction()
	}
	a.text = strings.ReplaceAll(form.Get("text"), "\r\n", "\n") // as browsers send new lines
	err := a.attach(v)
	if err == nil {
		err = a.queue(v)
	}
	if err != nil {
		return "", a.again(v, err)
	}
	return link("/account", "id", a.account, "peer", a.peer, "said", "account.answered"), nil
}

// attach uploads the file of the form, if it has one, or finds the one that was uploaded before.
func (a *answer) attach(v *visit) error {
	uploads := v.fileForm != nil && v.fileForm.file != nil
	if !uploads && a.form.Get("attached") == "" {
		return nil
	}
	if a.key == "" { // no form of a page leaves it out, or has it after the file
		return v.unknownAction()
	}
	a.talk = &talk{}
	if err := v.get(link(accountPath(a.account)+"/conversations", "peer", a.peer), a.talk); err != nil {
		return err
	}
	if len(a.talk.Files) == 0 {
		return refusal(http.StatusUnprocessableEntity, "", &api.Fault{Location: fileField, Message: v.lang.text("account.reply.nofiles")})
	}
	if !uploads {
		a.file = &attached{a.form.Get("attached"), a.form.Get("attached_name")}
		return nil
	}
	up, err := v.upload(a.account, a.talk.FileMost)
	if large, ok := errors.AsType[*fileTooLarge](err); ok {
		return refusal(http.StatusRequestEntityTooLarge, "", &api.Fault{Location: fileField, Message: v.lang.text("account.reply.large", v.lang.size(large.most))})
	}
	if refused := refusedFor(err, http.StatusUnprocessableEntity, http.StatusServiceUnavailable, http.StatusInsufficientStorage); refused != nil {
		why := refused.Detail
		if len(refused.Errors) > 0 {
			why = refused.Errors[0].Message
		}
		return refusal(refused.Status, "", &api.Fault{Location: fileField, Message: why})
	}
	if err != nil {
		return err
	}
	a.file = &attached{up.ID, up.Name}
	return nil
}

// fileField is the file in the faults of a send.
const fileField = "body.data.file"

// queue queues the send. Where a file takes no caption, its text is a second send.
func (a *answer) queue(v *visit) error {
	text := map[string]string{"text": a.text}
	if a.file == nil {
		return a.send(v, "text", text)
	}
	data, captioned := map[string]string{"file": a.file.ID}, strings.TrimSpace(a.text) != ""
	if captioned && a.talk.Captions {
		data["caption"] = a.text
	}
	if err := a.send(v, a.talk.TypeOf(a.file.Name), data); err != nil || !captioned || a.talk.Captions {
		return err
	}
	a.partly, a.key = true, a.key+"T"
	return a.send(v, "text", text)
}

// send queues one send.
func (a *answer) send(v *visit, kind string, data map[string]string) error {
	body := map[string]any{"type": kind, "data": data, "when": a.form.Get("when")}
	if ref := a.form.Get("reply_to"); ref != "" {
		body["reply_to"] = ref
	} else {
		body["to"] = a.peer
	}
	_, err := v.exchange(http.MethodPost, accountPath(a.account)+"/sends", http.Header{"Idempotency-Key": {a.key}}, body, nil)
	return err
}

// again returns the error that shows the page again, if an answer was refused for a reason that the
// page can show.
func (a *answer) again(v *visit, err error) error {
	refused := refusedFor(err, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusTooManyRequests,
		http.StatusServiceUnavailable, http.StatusInsufficientStorage)
	if refused == nil {
		return err
	}
	shown, failed := readAccount(v)
	page, ok := shown.(*oneAccount)
	if failed != nil || !ok || page.Box == nil {
		return err
	}
	box := page.Box
	box.Text, box.ReplyTo, box.Attached, box.Partly = a.text, a.form.Get("reply_to"), a.file, a.partly
	if a.partly {
		box.Attached = nil
	}
	for _, f := range refused.Errors {
		if f.Location == fileField {
			box.FileFault, box.Attached = f.Message, nil // it would be refused again
		} else {
			box.Faults = append(box.Faults, f)
		}
	}
	if box.FileFault != "" && !box.Files { // there is no field beside which it could stand
		box.Refused = v.lang.text("account.reply.fault", box.FileFault)
	}
	closed := refused.Status == http.StatusConflict
	switch {
	case closed && refused.at() == "header.Idempotency-Key":
		box.Refused, box.Faults = v.lang.text("account.reply.taken"), nil // the new key is for another send
		return &again{refused.Status, page}
	case closed:
		box.Refused, box.Faults, box.Later = v.lang.text("account.reply.closed", a.peer), nil, true
	case refused.at() == "":
		box.Refused = refused.Detail
	}
	box.Key = cmp.Or(a.key, box.Key) // nobody may know whether the send was taken: with the same key it is taken once
	return &again{refused.Status, page}
}

// at returns the location of the first fault, or an empty text.
func (p *problem) at() string {
	if len(p.Errors) == 0 {
		return ""
	}
	return p.Errors[0].Location
}
