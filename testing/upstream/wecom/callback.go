package wecom

import (
	"crypto/rand"
	"net/url"

	"github.com/rounds-dev/rounds/cmd/rounds/callback/wecomcrypt"
	"github.com/rounds-dev/rounds/testing/upstream/wecomseal"
)

// CallbackToken returns a token as the event kf_msg_or_event carries it.
func (w *WeCom) CallbackToken(openKfID string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	value := "ENC" + rand.Text()
	w.accounts[openKfID].tokens[value] = w.options.Now().Add(w.options.CallbackLife)
	return value
}

// Callback returns the query and the body of the POST with which WeCom announces that an
// account has messages to fetch. The crypt is that of the receiving address.
func (w *WeCom) Callback(crypt *wecomseal.Crypt, openKfID string) (url.Values, []byte, error) {
	token, now := w.CallbackToken(openKfID), w.options.Now()
	w.mu.Lock()
	corp := w.accounts[openKfID].corp
	w.mu.Unlock()
	return crypt.Seal(wecomcrypt.Event{
		ToUserName: corp, CreateTime: now.Unix(), MsgType: "event", Event: wecomcrypt.EventMessages, Token: token, OpenKfID: openKfID,
	}, rand.Text()[:10], now)
}
