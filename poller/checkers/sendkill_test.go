package checkers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/connector"
	"github.com/rounds-dev/rounds/poller/checkers/graph"
	"github.com/rounds-dev/rounds/poller/checkers/imap"
	"github.com/rounds-dev/rounds/poller/checkers/telegram"
	"github.com/rounds-dev/rounds/poller/checkers/wecomkf"
	"github.com/rounds-dev/rounds/poller/checkers/weixin"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/oauth"
	"github.com/rounds-dev/rounds/poller/secrets"
	tokens "github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/sendtest"
	"github.com/rounds-dev/rounds/testing/upstream"
	"github.com/rounds-dev/rounds/testing/upstream/graphd"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
	"github.com/rounds-dev/rounds/testing/upstream/serving"
	"github.com/rounds-dev/rounds/testing/upstream/smtpd"
	fakebot "github.com/rounds-dev/rounds/testing/upstream/telegram"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

// The race detector watches the same steps of a replica in the tests of package poller, and those of
// each kind in its own.
func TestMain(m *testing.M) {
	faketime.Lean()
	goleak.VerifyTestMain(processes.Apart(m, "TestNoKindDoublesASend", "TestNoKindDoublesASendThatRedisForgets"))
}

// token is the only secret of these accounts.
const token = "123:sesame-sesame-sesame-sesame-sesame"

func source() secrets.Source {
	return secrets.Source{Lookup: func(name string) (string, bool) { return token, name == secrets.EnvPrefix+"T" }}
}

func client(transport http.RoundTripper) *fetch.Client {
	return fetch.New(fetch.Options{Transport: transport})
}

// handler is a fake that answers without a network.
type handler struct{ http.Handler }

func (h handler) RoundTrip(r *http.Request) (*http.Response, error) { return serving.RoundTrip(h, r) }

// A replica may be killed at any point of a send, and the third party's answers may be lost. No kind
// then sends anything twice, unless somebody wants that, and each doubt is listed. By day one kind
// sends files too; at night all do.
func TestNoKindDoublesASend(t *testing.T) {
	outlets := texts()
	const file = "telegram, a file"
	outlets[file] = files()[file]
	each(t, outlets, func(t *testing.T, _ string, o outlet) { sendtest.Run(t, o.deduplicates, o.start) })
}

// Redis may fail at any point of a send too, and lose its last writes: it is killed, its machine loses
// power, or a replica takes over. No kind then sends anything twice, and each doubt is listed. By day
// one kind goes through all points; at night all do, with files too.
func TestNoKindDoublesASendThatRedisForgets(t *testing.T) {
	each(t, texts(), func(t *testing.T, kind string, o outlet) {
		if kind != "telegram" {
			sendtest.RunLosing(t, o.deduplicates, o.start, sendtest.AfterYes)
			return
		}
		sendtest.RunLosing(t, o.deduplicates, o.start, sendtest.Points()...)
		t.Run("attempts do not wait", func(t *testing.T) { sendtest.RunLosingUnconfirmed(t, o.deduplicates, o.start) })
		t.Run("attempts do not wait, and Redis fails later", func(t *testing.T) { sendtest.RunLosingLater(t, o.start) })
	})
}

// outlet is a kind that sends.
type outlet struct {
	deduplicates bool
	start        func(t *testing.T) *sendtest.Outlet
}

// texts has each kind that sends texts.
func texts() map[string]outlet {
	return map[string]outlet{
		"weixin":                        {false, func(*testing.T) *sendtest.Outlet { return bound("") }},
		"wecom-kf":                      {false, func(*testing.T) *sendtest.Outlet { return serviced("") }},
		"imap":                          {false, func(*testing.T) *sendtest.Outlet { return mailing("") }},
		"graph":                         {false, func(*testing.T) *sendtest.Outlet { return posting("") }},
		"telegram":                      {false, func(*testing.T) *sendtest.Outlet { return chatting("", "/sendMessage") }},
		"a connector":                   {false, func(*testing.T) *sendtest.Outlet { return connected(false, "") }},
		"a connector that deduplicates": {true, func(*testing.T) *sendtest.Outlet { return connected(true, "") }},
	}
}

// files has each kind that sends files.
func files() map[string]outlet {
	return map[string]outlet{
		"weixin, a file":        {false, func(*testing.T) *sendtest.Outlet { return bound("file") }},
		"wecom-kf, a voice":     {false, func(*testing.T) *sendtest.Outlet { return serviced("voice") }},
		"telegram, a file":      {false, func(*testing.T) *sendtest.Outlet { return chatting("file", "/sendDocument") }},
		"imap, a file":          {false, func(*testing.T) *sendtest.Outlet { return mailing("file") }},
		"graph, a file":         {false, func(*testing.T) *sendtest.Outlet { return posting("file") }},
		"a connector, an image": {false, func(*testing.T) *sendtest.Outlet { return connected(false, "image") }},
	}
}

// each runs a test with each of some kinds.
func each(t *testing.T, outlets map[string]outlet, test func(t *testing.T, kind string, o outlet)) {
	t.Helper()
	for name, o := range outlets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name, o)
		})
	}
}

// bound is an account of WeChat.
func bound(name string) *sendtest.Outlet {
	fake := ilinkd.New(ilink.Options{Hold: -1})
	fake.AddBot(token)
	fake.Post(token, "text")
	return &sendtest.Outlet{
		Kind: weixin.Kind, Config: `{"token":{"secret":"T"}}`, Windowed: true, Type: name, Peer: func(int) string { return "person@im.wechat" },
		Sender: func(l *sendtest.Line) poller.Sender {
			return weixin.New(client(l.Over(fake, "/sendmessage")), source())
		},
		Taken: func() (texts []string) {
			for _, s := range fake.Sent(token) {
				texts = append(texts, s.Text)
			}
			return texts
		},
		Cut: func(times int) { fake.Fail(ilinkd.SendMessage, ilinkd.Fault{Cut: true, Times: times}) },
	}
}

// serviced is an account of WeCom.
func serviced(name string) *sendtest.Outlet {
	fake := wecom.New(wecom.Options{})
	fake.AddCorp("ww1", token)
	fake.AddAccount("ww1", "wk1")
	fake.Post("wk1", "text")
	return &sendtest.Outlet{
		Kind: "wecom-kf", Config: `{"corp_id":"ww1","open_kfid":"wk1","secret":{"secret":"T"}}`, Windowed: true, Type: name, Sends: 3, Peer: func(int) string { return "wm-customer" },
		Sender: func(l *sendtest.Line) poller.Sender {
			return wecomkf.New(client(l.Over(fake, "/send_msg")), source(), tokens.NewMemory())
		},
		Taken: func() (texts []string) {
			for _, s := range fake.Sent("wk1") {
				texts = append(texts, s.Text)
			}
			return texts
		},
		Cut: func(times int) { fake.Fail("ww1", wecom.SendMsg, wecom.Fault{Cut: true, Times: times}) },
	}
}

// mailing is an account of a mailbox.
func mailing(name string) *sendtest.Outlet {
	fake := smtpd.New()
	fake.Secret = token
	networks, _ := fetch.ParseNetworks("127.0.0.1") // it is one
	return &sendtest.Outlet{
		Kind: "imap", Type: name, Peer: func(n int) string { return fmt.Sprintf("peer%d@example.org", n%3) },
		Config: `{"host":"127.0.0.1","tls":"none","user":"me","password":{"secret":"T"},"smtp":{"host":"127.0.0.1","tls":"none"},"from":"me@example.com"}`,
		Sender: func(l *sendtest.Line) poller.Sender {
			return imap.New(fetch.New(fetch.Options{Networks: networks, Connect: func(_ context.Context, address string) (net.Conn, error) {
				if !strings.HasSuffix(address, ":587") {
					return nil, syscall.ECONNREFUSED // there is no mailbox
				}
				return &mailLine{Conn: fake.Dial(), line: l}, nil
			}}), source(), imap.Options{})
		},
		Taken: func() (texts []string) {
			for _, m := range fake.Mails("me") {
				texts = append(texts, mailText(m.Text))
			}
			return texts
		},
		Cut: func(times int) {
			fake.Fail("me", smtpd.Fault{Step: smtpd.End, Takes: true, Times: times})
		},
	}
}

// posting is a mailbox that sends over Microsoft Graph.
func posting(name string) *sendtest.Outlet {
	fake := graphd.New(graphd.Options{})
	access := fake.Token("me")
	return &sendtest.Outlet{
		Kind: graph.Kind, Type: name, Peer: func(n int) string { return fmt.Sprintf("peer%d@example.org", n%3) },
		// Microsoft's own hosts have a limit by default, which a killed replica would hold for minutes.
		Config: `{"oauth":{"secret":"T"},"from":"me@example.com","base_url":"https://graph.internal"}`,
		Sender: func(l *sendtest.Line) poller.Sender {
			return graph.New(client(l.Over(onlySends{fake}, "/sendMail")), bearer(access))
		},
		Taken: func() (texts []string) {
			for _, mail := range fake.Sent("me") {
				texts = append(texts, mailText(mail))
			}
			return texts
		},
		Cut: func(times int) { fake.Fail("me", graphd.Fault{Step: "send", Cut: true, Times: times}) },
	}
}

// onlySends is a third party where nobody can look for a mail whose end is unknown, so that it is sent
// again.
type onlySends struct{ http.RoundTripper }

func (o onlySends) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/sendMail") {
		return nil, syscall.ECONNREFUSED
	}
	return o.RoundTripper.RoundTrip(r)
}

// bearer has one access token.
type bearer string

func (b bearer) Token(context.Context, string, string, secrets.Use, *oauth.Access) (*oauth.Access, *poller.CheckError) {
	return &oauth.Access{Token: string(b)}, nil
}

func (bearer) Drop(context.Context, *oauth.Access) bool { return false }

// mailText returns the text of a mail, or the name of its file.
func mailText(mail string) string {
	_, text, _ := strings.Cut(mail, "\r\n\r\n")
	if _, named, ok := strings.Cut(text, `filename="`); ok {
		text, _, _ = strings.Cut(named, `"`)
	}
	return strings.TrimSpace(text)
}

// mailLine is a connection of SMTP that carries one mail over a line.
type mailLine struct {
	net.Conn
	line  *sendtest.Line
	ended bool // the server has the end of the mail
}

// Write begins the send with its first command.
func (c *mailLine) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("MAIL ")) {
		if err := c.line.Begin(); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Write(p)
	c.ended = c.ended || bytes.HasSuffix(p, []byte("\r\n.\r\n"))
	return n, err
}

// Read ends the send with the answer to its end.
func (c *mailLine) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.ended {
		c.ended = false
		if lost := c.line.End(); lost != nil {
			return 0, lost
		}
	}
	return n, err
}

// chatting is a bot of Telegram, whose sends go by a method.
func chatting(name, method string) *sendtest.Outlet {
	fake := fakebot.New(fakebot.Options{})
	fake.AddBot(token)
	return &sendtest.Outlet{
		Kind: "telegram", Config: `{"token":{"secret":"T"}}`, Type: name, Peer: func(n int) string { return fmt.Sprint(1 + n%3) },
		Sender: func(l *sendtest.Line) poller.Sender { return telegram.New(client(l.Over(fake, method)), source()) },
		Taken: func() (texts []string) {
			for _, s := range fake.Sent(token) {
				texts = append(texts, s.Text+s.Name)
			}
			return texts
		},
		Cut: func(times int) { fake.FailSends(token, fakebot.Fault{Cut: true, Times: times}) },
	}
}

// connected is an account of a connector.
func connected(once bool, name string) *sendtest.Outlet {
	fake := upstream.New(upstream.Options{Deduplicates: once})
	config := fmt.Sprintf(`{"url":"http://connector.test/connector/a","send_url":"http://connector.test/send/a","deduplicates":%t,"send_files":true}`, once)
	return &sendtest.Outlet{
		Kind: "http", Config: config, Type: name, Peer: func(n int) string { return fmt.Sprint("peer", n%3) },
		Sender: func(l *sendtest.Line) poller.Sender {
			return connector.New(client(l.Over(handler{fake}, "/send/a")), source())
		},
		Taken: func() (texts []string) {
			for _, s := range fake.Sent("a") {
				texts = append(texts, textOf(s.Data)+s.Name)
			}
			return texts
		},
		Cut: func(times int) { fake.FailSends("a", upstream.Fault{Cut: true, Times: times}) },
	}
}

func textOf(data json.RawMessage) string {
	var content struct{ Text string }
	_ = json.Unmarshal(data, &content) // another form has no text
	return content.Text
}
