package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/cmd/rounds/command"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// ntfy reads topics of a ntfy server, and publishes to others. The cursor is the id of the last
// message; the peer of a send is a topic.
type ntfy struct {
	*form
	client *fetch.Client
}

type desk struct{ url, topic string }

type form = strict.Form[desk]

var _ poller.Sender = ntfy{}

var topicName = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)

func newNtfy(tools command.Tools) (poller.Checker, error) {
	return ntfy{client: tools.Client, form: strict.NewForm([]strict.Entry[desk]{
		{
			Field: strict.Field{
				Name: "url", Type: strict.URL, Required: true, Example: "https://ntfy.sh",
				Label: strict.Words{EN: "Address", ZH: "地址"},
				Help:  strict.Words{EN: "Where the ntfy server is.", ZH: "ntfy 服务器的地址。"},
			},
			Read: func(v strict.Value, to *desk) { to.url, _ = tools.Client.ReadBaseURL(v) },
		},
		{
			Field: strict.Field{
				Name: "topic", Type: strict.TextType, Required: true, Example: "our-desk",
				Label: strict.Words{EN: "Topic", ZH: "主题"},
				Help:  strict.Words{EN: "The topic that is read.", ZH: "要读取的主题。"},
			},
			Read: func(v strict.Value, to *desk) {
				to.topic = v.Matching(topicName.MatchString, "must be 1 to 64 letters, digits, dashes and underscores")
			},
		},
	})}, nil
}

// Kind returns the name for "--kind".
func (ntfy) Kind() string { return "ntfy" }

// RateKey returns the server's host.
func (n ntfy) RateKey(config json.RawMessage) string {
	at, _ := n.form.Read(config) // the zero desk if the config is not valid
	return fetch.Host(at.url)
}

// notice is a line of the server's answer.
type notice struct {
	ID      string `json:"id"`
	Time    int64  `json:"time"` // seconds
	Event   string `json:"event"`
	Title   string `json:"title,omitempty"`
	Message string `json:"message"`
}

// Check reports what the server still has after the cursor.
func (n ntfy) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	at, err := n.form.Read(r.Config)
	if err != nil {
		return poller.Result{}, poller.ConfigError(err)
	}
	since := url.QueryEscape(cmp.Or(string(r.Cursor), "all"))
	answer, err := n.client.Do(ctx, fetch.Call{URL: at.url + "/" + at.topic + "/json?poll=1&since=" + since})
	if err != nil {
		return poller.Result{}, fetch.CheckError(err)
	}
	if answer.Status != http.StatusOK {
		return poller.Result{}, fetch.StatusError("ntfy", answer)
	}
	var result poller.Result
	for line := range bytes.Lines(answer.Body) {
		var found notice
		if json.Unmarshal(line, &found) != nil {
			return poller.Result{}, &poller.CheckError{Kind: poller.Protocol, Code: "not_ntfy", Message: "a line of the answer is not JSON"}
		}
		if found.Event != "message" {
			continue
		}
		if result.HasMore = len(result.Messages) == max(r.Limit, 1); result.HasMore {
			break
		}
		data, err := json.Marshal(found)
		if err != nil {
			return poller.Result{}, err
		}
		result.Messages = append(result.Messages, poller.Message{ID: found.ID, Type: "text", Time: time.Unix(found.Time, 0).UTC(), Data: data})
		result.Cursor = []byte(found.ID)
	}
	return result, nil
}

// Sending says that accounts send texts. Nobody can ask a ntfy server later whether it has one, and
// a text that comes again is published again. So Doubt stays empty: a person decides.
func (ntfy) Sending(json.RawMessage) poller.Sending { return poller.Sending{Types: []string{"text"}} }

// PrepareSend judges a send when it is queued. Messages of ntfy do not say who wrote them, so an
// answer must name its topic.
func (ntfy) PrepareSend(_ json.RawMessage, s *poller.Outgoing, _ *poller.Message) error {
	var faults []error
	if s.Type != "text" {
		faults = append(faults, errors.New("type: must be text"))
	}
	if !topicName.MatchString(s.Peer) {
		faults = append(faults, errors.New("to: must be a topic: 1 to 64 letters, digits, dashes and underscores"))
	}
	if textOf(s.Data) == "" {
		faults = append(faults, errors.New("data.text: must be a text that is not empty"))
	}
	return errors.Join(faults...)
}

func textOf(data json.RawMessage) string {
	var content struct{ Text string }
	_ = json.Unmarshal(data, &content) // a fault leaves it empty
	return content.Text
}

// Send makes one call. An error that is no *poller.SendError says that nobody knows whether the
// server has the message.
func (n ntfy) Send(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	at, err := n.form.Read(r.Config)
	if err != nil {
		return poller.Sent{}, poller.Unsent(poller.ConfigError(err))
	}
	text := textOf(r.Data)
	body, err := json.Marshal(map[string]string{"topic": r.Peer, "message": text})
	if err != nil || text == "" { // ntfy would publish "triggered" in place of an empty text
		return poller.Sent{}, poller.Refused("data", "there is no text")
	}
	answer, err := n.client.Do(ctx, fetch.Call{Method: http.MethodPost, URL: at.url + "/", Body: body})
	if err != nil {
		return poller.Sent{}, fetch.SendError(err) // a refused connection is a *poller.SendError, a cut one is not
	}
	if answer.Status != http.StatusOK {
		return poller.Sent{}, fetch.SendStatusError("ntfy", answer)
	}
	var published notice
	if json.Unmarshal(answer.Body, &published) != nil || published.ID == "" {
		return poller.Sent{}, errors.New("the answer is not ntfy's")
	}
	return poller.Sent{VendorID: published.ID}, nil
}
