package callback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/callback/wecomcrypt"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/upstream/wecomseal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	sampleToken = "QDG6eK"
	sampleKey   = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
)

// called is a ring whose accounts receive WeCom's callbacks, in fake time.
type called struct {
	*faketime.World
	callbacks *Receiver
	crypt     *wecomseal.Crypt
	log       *bytes.Buffer
	seq       int
}

func inCallbackTime(t *testing.T, test func(c *called)) {
	t.Helper()
	faketime.Run(t, 4, func(b *faketime.World) {
		time.Sleep(30 * 365 * 24 * time.Hour) // WeCom's timestamps have ten digits
		c := &called{World: b, log: new(bytes.Buffer)}
		config := Config{Name: "acme", CorpID: "ww1", Account: "wecom:{corp_id}:{open_kfid}"}
		callback, err := NewAddress(config, sampleToken, sampleKey)
		if err != nil {
			b.Fatal(err)
		}
		if c.crypt, err = wecomseal.New(sampleToken, sampleKey, config.CorpID); err != nil {
			b.Fatal(err)
		}
		if c.callbacks, err = New(b.Ring, []*Address{callback}, slog.New(slog.NewTextHandler(c.log, nil))); err != nil {
			b.Fatal(err)
		}
		test(c)
	})
}

// scheduled registers an account that is due in an hour.
func (c *called) scheduled(id string) {
	c.Helper()
	if _, err := c.Ring.Register(c.Context(), c.Ring.ShardOf(id), []circulate.Registration{{ID: id, Due: time.Now().Add(time.Hour)}}); err != nil {
		c.Fatal(err)
	}
}

func (c *called) event(openKfID string) wecomcrypt.Event {
	c.seq++
	return wecomcrypt.Event{ToUserName: "ww1", CreateTime: time.Now().Unix(), MsgType: "event", Event: wecomcrypt.EventMessages,
		Token: fmt.Sprint("token", c.seq), OpenKfID: openKfID}
}

func (c *called) seal(e wecomcrypt.Event) (url.Values, []byte) {
	c.Helper()
	query, body, err := c.crypt.Seal(e, fmt.Sprint("nonce", c.seq), time.Now())
	if err != nil {
		c.Fatal(err)
	}
	return query, body
}

func (c *called) receive(name string, query url.Values, body []byte, want Result) {
	c.Helper()
	got, err := c.callbacks.Receive(c.Context(), name, query, body)
	refused := want == Refused || want == Stale || want == NoSuch
	if got != want || errors.Is(err, ErrRefused) != refused || !refused && want != Unavailable && err != nil {
		c.Errorf("%s, %v, want %s", got, err, want)
	}
}

// claimAll claims everything that is due in all shards.
func (c *called) claimAll() map[string]*circulate.Claim {
	c.Helper()
	claims := make(map[string]*circulate.Claim)
	for shard := range c.Ring.Shards() {
		batch, err := c.Ring.Claim(c.Context(), shard, "replica001", 1000, 0)
		if err != nil {
			c.Fatal(err)
		}
		for i := range batch.Claims {
			claims[batch.Claims[i].ID] = &batch.Claims[i]
		}
	}
	return claims
}

// hint claims an account, which must be due, and returns its hint.
func (c *called) hint(id string) string {
	c.Helper()
	claim := c.claimAll()[id]
	if claim == nil {
		c.Fatalf("%s is not due", id)
	}
	outcomes, err := c.Ring.Return(c.Context(), claim.Shard, []circulate.Return{{Claim: claim, Due: time.Now().Add(time.Hour)}})
	if err != nil || outcomes[0] != circulate.Written {
		c.Fatalf("return of %s: %v, %v", id, outcomes, err)
	}
	return string(claim.Hint)
}

func TestAnEventHasItsAccountChecked(t *testing.T) {
	inCallbackTime(t, func(c *called) {
		const id = "wecom:ww1:wk1"
		c.scheduled(id)
		query, body := c.seal(c.event("wk1"))
		c.receive("acme", query, body, Nudged)
		if hint := c.hint(id); hint != `{"token":"token1"}` {
			c.Errorf("hint %s", hint)
		}
		// The same request is not obeyed a second time. Another request is.
		c.receive("acme", query, body, Repeated)
		if n := len(c.claimAll()); n != 0 {
			c.Errorf("%d accounts are due", n)
		}
		query, body = c.seal(c.event("wk1"))
		c.receive("acme", query, body, Nudged)
		// The token expires ten minutes after its event, however late it is used.
		time.Sleep(wecomcrypt.TokenLife + time.Second)
		if hint := c.hint(id); hint != "" {
			c.Errorf("hint %s after its time", hint)
		}
		late := c.event("wk1")
		late.CreateTime -= 9 * 60
		query, body = c.seal(late)
		c.receive("acme", query, body, Nudged)
		time.Sleep(2 * time.Minute)
		if hint := c.hint(id); hint != "" {
			c.Errorf("hint %s of an event eleven minutes ago", hint)
		}
		late.CreateTime -= 3600
		c.seq++
		query, body = c.seal(late)
		c.receive("acme", query, body, Nudged)
		if hint := c.hint(id); hint != "" {
			c.Errorf("hint %s of an event an hour ago", hint)
		}
	})
}

func TestEventsThatNobodyWaitsFor(t *testing.T) {
	inCallbackTime(t, func(c *called) {
		other := c.event("wk1")
		other.Event = "kf_account_auth_change"
		query, body := c.seal(other)
		c.receive("acme", query, body, Ignored)
		query, body = c.seal(c.event(""))
		c.receive("acme", query, body, Ignored)
		for range 3 {
			query, body = c.seal(c.event("wk2"))
			c.receive("acme", query, body, UnknownAccount)
		}
		query, body = c.seal(c.event(strings.Repeat("k", 300)))
		c.receive("acme", query, body, UnknownAccount)
		c.scheduled("wecom:ww1:wk3")
		if _, err := c.Ring.Park(c.Context(), c.Ring.ShardOf("wecom:ww1:wk3"), circulate.ReasonPaused, []string{"wecom:ww1:wk3"}); err != nil {
			c.Fatal(err)
		}
		query, body = c.seal(c.event("wk3"))
		c.receive("acme", query, body, Parked)
		if n := strings.Count(c.log.String(), "account=wecom:ww1:wk2"); n != 1 {
			c.Errorf("the unknown account is told of %d times", n)
		}
		if strings.Count(c.log.String(), "is parked") != 1 || strings.Contains(c.log.String(), "token") {
			c.Error(c.log)
		}
	})
}

func TestCallbacksThatAreRefused(t *testing.T) {
	inCallbackTime(t, func(c *called) {
		c.scheduled("wecom:ww1:wk1")
		query, body := c.seal(c.event("wk1"))
		with := func(name string, values ...string) url.Values {
			changed := url.Values{}
			for k, v := range query {
				changed[k] = v
			}
			changed[name] = values
			return changed
		}
		c.receive("nobody", query, body, NoSuch)
		c.receive("", query, body, NoSuch)
		c.receive("acme", query, nil, Refused)
		c.receive("acme", query, []byte("<xml><Encrypt>AAAA</Encrypt></xml>"), Refused)
		c.receive("acme", with("msg_signature"), body, Refused)
		c.receive("acme", with("msg_signature", strings.Repeat("0", 40)), body, Refused)
		c.receive("acme", with("nonce", query.Get("nonce"), "x"), body, Refused)
		c.receive("acme", with("timestamp", "1"), body, Refused)

		// The request is signed, but with a moved boundary between its fields, or by somebody
		// whom we do not know.
		encrypted, err := wecomcrypt.ParseBody(body)
		if err != nil {
			c.Fatal(err)
		}
		for _, moved := range [][2]string{{"", query.Get("nonce") + query.Get("timestamp")}, {query.Get("timestamp") + "1", "n"}, {"17000000x0", "n"}, {query.Get("timestamp"), ""}} {
			signed := url.Values{"timestamp": {moved[0]}, "nonce": {moved[1]}, "msg_signature": {c.crypt.Sign(moved[0], moved[1], encrypted)}}
			c.receive("acme", signed, body, Refused)
		}
		for _, credentials := range [][3]string{{"other", sampleKey, "ww1"}, {sampleToken, strings.Repeat("b", 43), "ww1"}, {sampleToken, sampleKey, "ww2"}} {
			forged, err := wecomseal.New(credentials[0], credentials[1], credentials[2])
			if err != nil {
				c.Fatal(err)
			}
			query, body, err := forged.Seal(c.event("wk1"), "n", time.Now())
			if err != nil {
				c.Fatal(err)
			}
			c.receive("acme", query, body, Refused)
		}
		for _, off := range []time.Duration{-window - time.Second, window + 2*time.Second} {
			query, body, err := c.crypt.Seal(c.event("wk1"), "n", time.Now().Add(off))
			if err != nil {
				c.Fatal(err)
			}
			c.receive("acme", query, body, Stale)
		}
		time.Sleep(window + time.Second)
		c.receive("acme", query, body, Stale)
		if n := len(c.claimAll()); n != 0 {
			c.Errorf("%d accounts are due", n)
		}
	})
}

func TestTheAddressIsVerified(t *testing.T) {
	inCallbackTime(t, func(c *called) {
		query := c.crypt.SealEcho("1616140317555161061", "n", time.Now())
		echo, result, err := c.callbacks.Echo(c.Context(), "acme", query)
		if err != nil || result != Verified || string(echo) != "1616140317555161061" {
			c.Errorf("%q, %s, %v", echo, result, err)
		}
		if _, result, err := c.callbacks.Echo(c.Context(), "nobody", query); result != NoSuch || !errors.Is(err, ErrRefused) {
			c.Errorf("%s, %v", result, err)
		}
		query.Set("echostr", "P9nA")
		if _, result, err := c.callbacks.Echo(c.Context(), "acme", query); result != Refused || !errors.Is(err, ErrRefused) {
			c.Errorf("%s, %v", result, err)
		}
		// An event that somebody overheard is not decrypted for them.
		overheard, body := c.seal(c.event("wk1"))
		encrypted, err := wecomcrypt.ParseBody(body)
		if err != nil {
			c.Fatal(err)
		}
		overheard.Set("echostr", encrypted)
		if echo, result, err := c.callbacks.Echo(c.Context(), "acme", overheard); result != Refused || !errors.Is(err, ErrRefused) || echo != nil {
			c.Errorf("%q, %s, %v", echo, result, err)
		}
		time.Sleep(time.Hour)
		if _, result, _ := c.callbacks.Echo(c.Context(), "acme", c.crypt.SealEcho("1", "n", time.Now().Add(-time.Hour))); result != Stale {
			c.Errorf("%s", result)
		}
	})
}

func TestARingThatIsAwayIsToldApart(t *testing.T) {
	inCallbackTime(t, func(c *called) {
		c.scheduled("wecom:ww1:wk1")
		query, body := c.seal(c.event("wk1"))
		ctx, cancel := context.WithCancel(c.Context())
		cancel()
		if result, err := c.callbacks.Receive(ctx, "acme", query, body); result != Unavailable || err == nil || errors.Is(err, ErrRefused) {
			c.Errorf("%s, %v", result, err)
		}
		c.receive("acme", query, body, Nudged) // WeCom sends it again, and it does not count as a repetition
	})
}

func TestRecentlyIsBounded(t *testing.T) {
	r, now := newRecently(100), time.Unix(1_700_000_000, 0)
	for i := range 1000 {
		r.add(fmt.Sprint(i), now)
	}
	if n := len(r.young) + len(r.old); n > 201 {
		t.Errorf("%d are remembered", n)
	}
	if !r.has("999", now.Add(2*window)) || r.has("1", now) {
		t.Error("it remembers the wrong ones")
	}
	if r.has("999", now.Add(5*window)) {
		t.Error("it remembers for too long")
	}
}

func TestRead(t *testing.T) {
	all, err := Read(strings.NewReader(`{"callbacks":[
		{"name":"acme","corp_id":"ww1","token":{"secret":"T"},"aes_key":{"secret":"K"}},
		{"name":"other","corp_id":"ww2","token":{"secret":"T2"},"aes_key":{"secret":"K2"},"account":"{corp_id}/{open_kfid}"}]}`))
	if err != nil || len(all) != 2 || all[0] != (Config{"acme", "ww1", "T", "K", "{open_kfid}"}) || all[1].account("wk") != "ww2/wk" {
		t.Fatalf("%+v, %v", all, err)
	}
	_, err = Read(strings.NewReader(`{"x":1,"callbacks":[
		{"name":"A","corp_id":"a b","token":"s3cret","aes_key":{"secret":""},"account":"fixed","more":1},
		{"name":"b"}, {"name":"b","corp_id":"c","token":{"secret":"T"},"aes_key":{"secret":"K"},"account":"{open_kfid}{x}"}, 3]}`))
	var faults strict.Faults
	if !errors.As(err, &faults) || strings.Contains(err.Error(), "s3cret") {
		t.Fatal(err)
	}
	for _, field := range []string{
		"x", "callbacks[0].name", "callbacks[0].corp_id", "callbacks[0].token", "callbacks[0].aes_key", "callbacks[0].account", "callbacks[0].more",
		"callbacks[1].corp_id", "callbacks[1].token", "callbacks[1].aes_key", "callbacks[2].name", "callbacks[2].account", "callbacks[3]",
	} {
		if !strings.Contains(err.Error(), field+": ") {
			t.Errorf("no fault of %s in\n%v", field, err)
		}
	}
	for _, text := range []string{"", "[]", "{}", `{"callbacks":3}`, `{"callbacks":null}`, strings.Repeat(" ", maxFile+1)} {
		if _, err := Read(strings.NewReader(text)); !errors.As(err, &faults) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if _, err := NewAddress(all[0], "", "k"); !errors.As(err, &faults) || len(faults) != 2 {
		t.Errorf("%v", err)
	}
}
