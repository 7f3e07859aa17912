package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/websub"
)

// hubbed is a ring whose accounts subscribe at hubs, in fake time.
type hubbed struct {
	*called
	hubs *Hubs
}

func inHubTime(t *testing.T, test func(c *hubbed)) {
	inCallbackTime(t, func(c *called) {
		test(&hubbed{c, NewHubs(c.Ring, func(kind string, cursor []byte) *websub.Subscription {
			var s websub.Subscription
			if kind != "feed" || json.Unmarshal(cursor, &s) != nil {
				return nil
			}
			return &s
		})})
	})
}

const (
	hubTopic = "https://blog.example.com/feed"
	hubToken = "0123456789abcdefghijkl"
)

// subscribed registers an account with a subscription, or whose last pushed check was at a time.
func (c *hubbed) subscribed(id, kind string, pushed time.Time) string {
	c.Helper()
	cursor, err := json.Marshal(websub.Subscription{Hub: "https://hub", Topic: hubTopic, Token: hubToken, Secret: "secret", Pushed: pushed})
	if err != nil {
		c.Fatal(err)
	}
	if _, err := c.Ring.Register(c.Context(), c.Ring.ShardOf(id), []circulate.Registration{{ID: id, Record: []byte(`{"kind":"` + kind + `"}`)}}); err != nil {
		c.Fatal(err)
	}
	claim := c.claimAll()[id]
	outcomes, err := c.Ring.Return(c.Context(), claim.Shard, []circulate.Return{{Claim: claim, Cursor: cursor, Due: time.Now().Add(6 * time.Hour)}})
	if err != nil || outcomes[0] != circulate.Written {
		c.Fatalf("%v, %v", outcomes, err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(id))
}

func (c *hubbed) push(account, token, secret string) (Result, error) {
	const body = "<feed/>"
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return c.hubs.Push(c.Context(), account, token, "sha256="+hex.EncodeToString(mac.Sum(nil)), strings.NewReader(body))
}

// A hub is confirmed what an account wants, and nothing else.
func TestAHubAsksWhetherAnAccountSubscribes(t *testing.T) {
	inHubTime(t, func(c *hubbed) {
		feed, other := c.subscribed("news", "feed", time.Time{}), c.subscribed("mail", "imap", time.Time{})
		for name, test := range map[string]struct {
			account, token, mode, topic, challenge string
			want                                   Result
			hint                                   string // a part of it
		}{
			"a subscription":                {feed, hubToken, "subscribe", hubTopic, "abc", Verified, `"lease":86400`},
			"a refusal":                     {feed, hubToken, "denied", hubTopic, "", Verified, `"websub":"denied"`},
			"another topic":                 {feed, hubToken, "subscribe", hubTopic + "/x", "abc", Refused, ""},
			"an end that nobody wants":      {feed, hubToken, "unsubscribe", hubTopic, "abc", Refused, ""},
			"no challenge":                  {feed, hubToken, "subscribe", hubTopic, "", Refused, ""},
			"a long challenge":              {feed, hubToken, "subscribe", hubTopic, strings.Repeat("x", maxChallenge+1), Refused, ""},
			"another mode":                  {feed, hubToken, "publish", hubTopic, "abc", Refused, ""},
			"another token":                 {feed, hubToken + "x", "subscribe", hubTopic, "abc", NoSuch, ""},
			"another kind":                  {other, hubToken, "subscribe", hubTopic, "abc", NoSuch, ""},
			"no account":                    {"bm9uZQ", hubToken, "subscribe", hubTopic, "abc", NoSuch, ""},
			"no base64":                     {"%%", hubToken, "subscribe", hubTopic, "abc", NoSuch, ""},
			"the end of one that was ended": {"bm9uZQ", hubToken, "unsubscribe", hubTopic, "abc", Verified, ""},
		} {
			query := url.Values{"hub.mode": {test.mode}, "hub.topic": {test.topic}, "hub.challenge": {test.challenge}, "hub.lease_seconds": {"86400"}}
			echo, result, err := c.hubs.Verify(c.Context(), test.account, test.token, query)
			if result != test.want || (err == nil) != (test.want == Verified) || err == nil && string(echo) != test.challenge || err != nil && !errors.Is(err, ErrRefused) {
				c.Errorf("%s: %q, %s, %v", name, echo, result, err)
			}
			time.Sleep(hubAnswerSoon)
			claim := c.claimAll()["news"]
			if (claim != nil) != (test.hint != "") {
				c.Errorf("%s: checked: %t", name, claim != nil)
			}
			if claim == nil {
				continue
			}
			if !strings.Contains(string(claim.Hint), test.hint) {
				c.Errorf("%s: the hint is %s", name, claim.Hint)
			}
			if _, err := c.Ring.Return(c.Context(), claim.Shard, []circulate.Return{{Claim: claim, Due: time.Now().Add(6 * time.Hour)}}); err != nil {
				c.Fatal(err)
			}
		}
		c.park("news")
		if _, result, err := c.hubs.Verify(c.Context(), feed, hubToken, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {hubTopic}, "hub.challenge": {"abc"}}); result != Parked || !errors.Is(err, ErrRefused) {
			c.Errorf("a parked account: %s, %v", result, err)
		}
	})
}

func (c *hubbed) park(id string) {
	c.Helper()
	if err := c.Ring.Account(id).Park(c.Context(), "paused"); err != nil {
		c.Fatal(err)
	}
}

// A push has its feed checked, and a thousand pushes once in ten seconds.
func TestPushes(t *testing.T) {
	inHubTime(t, func(c *hubbed) {
		calm, busy := c.subscribed("calm", "feed", time.Time{}), c.subscribed("busy", "feed", time.Now())
		for name, test := range map[string]struct {
			account, token, secret string
			want                   Result
			gone                   bool
		}{
			"a wrong signature": {calm, hubToken, "another", Refused, false},
			"another token":     {calm, "x" + hubToken, "secret", NoSuch, true},
			"no account":        {"bm9uZQ", hubToken, "secret", NoSuch, true},
		} {
			if result, err := c.push(test.account, test.token, test.secret); result != test.want || errors.Is(err, ErrGone) != test.gone {
				c.Errorf("%s: %s, %v", name, result, err)
			}
		}
		if n := len(c.claimAll()); n != 0 {
			c.Errorf("%d accounts are checked for nothing", n)
		}
		for range 1000 {
			for _, account := range []string{calm, busy} {
				if result, err := c.push(account, hubToken, "secret"); result != Nudged || err != nil {
					c.Fatalf("%s, %v", result, err)
				}
			}
		}
		if claims := c.claimAll(); claims["calm"] == nil || claims["busy"] != nil || !strings.Contains(string(claims["calm"].Hint), `"push"`) {
			c.Errorf("at once %v are checked", claims)
		}
		// This one comes while the account is checked. It is checked again after its return.
		if result, err := c.push(calm, hubToken, "secret"); result != Nudged || err != nil {
			c.Fatalf("%s, %v", result, err)
		}
		time.Sleep(websub.PushPause)
		if claims := c.claimAll(); claims["busy"] == nil {
			c.Error("the account that was just checked is not checked again")
		}
		c.park("busy")
		if result, err := c.push(busy, hubToken, "secret"); result != Parked || err != nil {
			c.Errorf("a parked account: %s, %v", result, err)
		}
	})
}

// A push that comes while its feed is checked is obeyed after the check, with its hint.
func TestAPushDuringACheckIsNotLost(t *testing.T) {
	inHubTime(t, func(c *hubbed) {
		feed := c.subscribed("news", "feed", time.Time{})
		if _, err := c.push(feed, hubToken, "secret"); err != nil {
			c.Fatal(err)
		}
		claim := c.claimAll()["news"]
		if claim == nil {
			c.Fatal("the feed is not checked")
		}
		if _, err := c.push(feed, hubToken, "secret"); err != nil {
			c.Fatal(err)
		}
		if n := len(c.claimAll()); n != 0 {
			c.Errorf("%d accounts are checked twice at once", n)
		}
		if _, err := c.Ring.Return(c.Context(), claim.Shard, []circulate.Return{{Claim: claim, Due: time.Now().Add(6 * time.Hour)}}); err != nil {
			c.Fatal(err)
		}
		if again := c.claimAll()["news"]; again == nil || !strings.Contains(string(again.Hint), `"push"`) {
			c.Errorf("the push is lost: %+v", again)
		}
	})
}
