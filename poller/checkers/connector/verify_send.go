package connector

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// trialText is what a verification sends.
const trialText = "This is a test by rounds connector verify."

// sendReply is the outcome of a send by a verification.
type sendReply struct {
	status int // 0: no answer came
	sent   poller.Sent
	err    error
}

// ok reports whether the send was accepted.
func (r sendReply) ok() bool { return r.err == nil }

// refused reports whether the send was not accepted, for certain.
func (r sendReply) refused() bool {
	var refused *poller.SendError
	return errors.As(r.err, &refused)
}

// String describes the reply in a few words.
func (r sendReply) String() string {
	failed := poller.Classify(r.err)
	switch {
	case r.ok() && r.sent.VendorID == "":
		return fmt.Sprintf("%d, accepted", r.status)
	case r.ok():
		return fmt.Sprintf("%d, accepted as %q", r.status, r.sent.VendorID)
	case r.status == 0:
		return "no answer: " + failed.Message
	case r.refused():
		return fmt.Sprintf("%d, refused: %v", r.status, r.err)
	}
	return fmt.Sprintf("%d, which leaves it unknown: %s", r.status, failed.Message)
}

// sends sends a test message, if the trial names somebody who may get it. Nothing forged comes before
// it that a connector could deliver but under the same id.
func (v *verification) sends(ctx context.Context) {
	rules := []string{ruleSend, ruleSendSigned, ruleSendRepeated, ruleSendMalformed}
	if seen := v.noSend(); seen != "" {
		for _, rule := range rules {
			v.notJudged(rule, seen, "")
		}
		return
	}
	id := "verify-" + rand.Text()
	body, err := encodeSend(ctx, poller.SendRequest{
		Account: v.trial.Account, Config: orEmptyObject(v.trial.Config), ID: id, Attempt: 1, Peer: v.trial.SendTo, Type: "text", Data: json.RawMessage(`{"text":"` + trialText + `"}`),
	})
	if err != nil {
		return // the text can be encoded, and the config was read
	}
	v.sendForged(ctx, id, body)
	first := v.send(ctx, id, body, v.sending)
	advice := `answer a signed POST to the send_url with 200 and {"id": "…"}, or with 204`
	if first.refused() {
		advice = "verify with --send-to of somebody who may get a test message, and with --account and --set of an account that may send it"
	}
	v.judge(ruleSend, first.ok(), first.String(), advice)
	v.sendRepeated(ctx, id, body, first)
	bad := v.send(ctx, id, []byte(`{"version":1,`), v.sending)
	v.judge(ruleSendMalformed, bad.status >= 400 && bad.status < 500, bad.String(), "answer 400, without an error object, to what is not JSON")
}

// noSend says why nothing is sent; empty: something is.
func (v *verification) noSend() string {
	switch {
	case v.trial.SendTo == "":
		return "no send was asked for"
	case v.sendURL == "":
		return "the config has no send_url"
	}
	return ""
}

// sendForged sends what somebody without the secret could send.
func (v *verification) sendForged(ctx context.Context, id string, body []byte) {
	wrong, err := wrongKey()
	if err != nil || len(v.sending.keys) == 0 {
		v.notJudged(ruleSendSigned, "sends are not signed", "name the secret that requests are signed with: --secret")
		return
	}
	other := v.sending
	other.keys = []*fetch.SigningKey{wrong}
	forged := v.send(ctx, id, body, other)
	changed := v.send(ctx, id, body, v.sending, func(body []byte) []byte { return append(body, ' ') })
	seen := fmt.Sprintf("another key: %v, another body: %v", forged, changed)
	v.judge(ruleSendSigned, unsigned(forged) && unsigned(changed), seen, "answer 401 or 403, without an error object, before anything is sent")
}

// unsigned reports whether a send was refused as one with a wrong signature must be.
func unsigned(r sendReply) bool {
	var refused *poller.SendError
	return (r.status == http.StatusUnauthorized || r.status == http.StatusForbidden) && errors.As(r.err, &refused) && strings.HasPrefix(refused.Code, "http_")
}

// sendRepeated sends once more what was accepted, as rounds does after a lost answer.
func (v *verification) sendRepeated(ctx context.Context, id string, body []byte, first sendReply) {
	switch {
	case !v.once:
		v.notJudged(ruleSendRepeated, "the config does not say deduplicates", "")
		return
	case !first.ok():
		v.notJudged(ruleSendRepeated, "nothing was accepted", "")
		return
	}
	again := v.send(ctx, id, body, v.sending)
	seen := fmt.Sprintf("%v, then %v", first, again)
	switch {
	case again.ok() && first.sent.VendorID == "" && again.sent.VendorID == "":
		v.notJudged(ruleSendRepeated, seen+"; the answers have no id, so nobody can tell whether it was delivered twice", "answer with the id of what was delivered")
	default:
		v.judge(ruleSendRepeated, again.ok() && again.sent == first.sent, seen, "store the send_id with what you answered, and answer a repetition with it")
	}
}

// send makes one request to the send_url. A change comes after the signature.
func (v *verification) send(ctx context.Context, id string, body []byte, by resolved, changes ...func([]byte) []byte) sendReply {
	ctx, cancel := context.WithTimeout(ctx, v.trial.Deadline)
	defer cancel()
	header, err := by.header(id, time.Now(), body)
	if err != nil {
		return sendReply{err: err}
	}
	for _, change := range changes {
		body = change(body)
	}
	answer, err := v.client.Do(ctx, fetch.Call{Method: http.MethodPost, URL: v.sendURL, Header: header, Body: body, MaxBody: maxSent, Confined: by.open})
	if err != nil {
		return sendReply{err: fetch.SendError(err)}
	}
	v.leak = v.leak || leaks(answer.Body, by.values)
	sent, err := sentOf(answer, by.values)
	return sendReply{answer.Status, sent, err}
}
