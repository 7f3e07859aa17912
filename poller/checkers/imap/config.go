package imap

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"unicode"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

var errHost = errors.New("must be a name or an address, without a port")

const (
	portImplicit = 993 // RFC 8314
	portPlain    = 143
	maxText      = 1 << 10 // bytes of a user or a mailbox
)

// How a connection is encrypted.
const (
	tlsImplicit = "implicit"
	tlsStart    = "starttls"
	tlsNone     = "none"
)

// config is a record's parsed config.
type config struct {
	host     string // as it is dialled
	port     int
	tls      string
	user     string
	password secrets.Ref // or else
	oauth    secrets.Ref
	mailbox  string // empty: mailboxes were given
	// mailboxes are what is read: names, or special uses such as \Sent.
	mailboxes []string
	remember  bool // mails by their Message-IDs

	hasPassword bool // even a wrong one

	smtp server       // that takes what the account sends; zero: it cannot send
	from mail.Address // of what it sends
}

// server is where an account's mail is read, or where its answers go.
type server struct {
	host string // as it is dialled
	port int
	tls  string
}

// imap returns the server where the mail is read.
func (c *config) imap() server { return server{c.host, c.port, c.tls} }

// byMessageID is the value of remember.
const byMessageID = "message_id"

// several reports whether the account has several mailboxes.
func (c *config) several() bool { return len(c.mailboxes) > 1 }

// form reads configs.
type form = strict.Form[config]

func newForm(client *fetch.Client) *form {
	return strict.NewForm(append([]strict.Entry[config]{
		{
			Field: strict.Field{
				Name: "host", Type: strict.TextType, Required: true, Example: "imap.example.com",
				Label: strict.Words{EN: "Host", ZH: "主机"},
				Help:  strict.Words{EN: "The mail server's name or address, without a port.", ZH: "邮件服务器的名称或地址，不带端口。"},
			},
			Read: func(v strict.Value, c *config) { c.host = readHost(v) },
		},
		{
			Field: strict.Field{
				Name: "user", Type: strict.TextType, Required: true, Example: "me@example.com",
				Label: strict.Words{EN: "User", ZH: "用户名"},
				Help:  strict.Words{EN: "The name to log in with.", ZH: "登录用的用户名。"},
			},
			Read: func(v strict.Value, c *config) { c.user = oneLine(v, v.Text()) },
		},
		{
			Field: strict.Field{
				Name: "password", Type: strict.Secret, Secret: true, Required: true, Or: "oauth", Example: strict.Ref("MAIL"),
				Label: strict.Words{EN: "Password", ZH: "密码"},
				Help:  strict.Words{EN: "The name of the secret that holds the password.", ZH: "存放密码的密钥的名称。"},
			},
			Read: func(v strict.Value, c *config) { c.password, c.hasPassword = readRef(v) },
		},
		{
			Field: strict.Field{
				Name: "oauth", Type: strict.Secret, Secret: true, Example: strict.Ref("mail-me"),
				Label: strict.Words{EN: "Sign-in", ZH: "登录授权"},
				Help: strict.Words{EN: "In place of a password: the name of the secret that a sign-in at Google, Microsoft or another provider has stored.",
					ZH: "代替密码：在 Google、Microsoft 或其他提供方登录后存下的密钥的名称。"},
			},
			Read: func(v strict.Value, c *config) { // after password
				var signedIn bool
				c.oauth, signedIn = readRef(v)
				if c.hasPassword && signedIn {
					v.Fault("must not be there beside password")
				}
			},
		},
		{
			Field: strict.Field{
				Name: "mailbox", Type: strict.TextType, Example: "INBOX", Default: "INBOX",
				Label: strict.Words{EN: "Mailbox", ZH: "邮箱文件夹"},
				Help:  strict.Words{EN: "The mailbox to read, or its use, such as \\Sent. Nothing in it changes.", ZH: "要读取的文件夹，或它的用途，例如 \\Sent。其中的内容不会改变。"},
			},
			Read: func(v strict.Value, c *config) {
				given := v.Reader().Has("mailbox")
				c.mailboxes = []string{mailboxName(oneLine(v, v.Matching(func(name string) bool { return name != "" }, "must be a string that is not empty")))}
				if !known(c.mailboxes[0]) {
					v.Fault(unknownUse)
				}
				if given {
					c.mailbox = c.mailboxes[0]
				}
			},
		},
		{
			Field: strict.Field{
				Name: "mailboxes", Type: strict.Texts, Example: []string{"INBOX", `\Sent`},
				Label: strict.Words{EN: "Mailboxes", ZH: "多个邮箱文件夹"},
				Help:  strict.Words{EN: "Several mailboxes to read, instead of one: names or uses.", ZH: "要读取的多个文件夹，代替上一项：名称或用途。"},
			},
			Read: func(v strict.Value, c *config) { // after mailbox
				names := v.Texts(maxMailboxes)
				if names == nil {
					return
				}
				if c.mailbox != "" {
					v.Fault("must be left out if mailbox is given")
				}
				c.mailbox, c.mailboxes = "", nil
				for _, name := range names {
					if name = mailboxName(name); !slices.Contains(c.mailboxes, name) {
						c.mailboxes = append(c.mailboxes, name)
					}
					if !nameable(name) {
						v.Fault(fmt.Sprintf("must be names of one line, from 1 to %d bytes", maxMailbox))
					} else if !known(name) {
						v.Fault(unknownUse)
					}
				}
			},
		},
		{
			Field: strict.Field{
				Name: "remember", Type: strict.Choice, Example: byMessageID,
				Label: strict.Words{EN: "Remember mails", ZH: "记住邮件"},
				Help: strict.Words{
					EN: "A mail whose Message-ID is known is not written again, such as after the server has numbered all mails anew. Each account remembers the last 10,000 mails or more. Left out: nothing is remembered.",
					ZH: "Message-ID 已知的邮件不会再次写入，例如服务器给所有邮件重新编号之后。每个账号至少记住最近的 10,000 封邮件。留空表示不记。",
				},
				Choices: []strict.Option{{Value: byMessageID, Label: strict.Words{EN: "By their Message-IDs", ZH: "按 Message-ID"}}},
			},
			Read: func(v strict.Value, c *config) {
				c.remember = v.Matching(func(by string) bool { return by == byMessageID }, "must be message_id") != ""
			},
		},
		{
			Field: strict.Field{
				Name: "tls", Type: strict.Choice, Example: tlsImplicit, Default: tlsImplicit,
				Label: strict.Words{EN: "Encryption", ZH: "加密"},
				Help:  strict.Words{EN: "How the connection is encrypted.", ZH: "连接的加密方式。"},
				Choices: []strict.Option{
					{Value: tlsImplicit, Label: strict.Words{EN: "TLS from the start", ZH: "一开始就用 TLS"}},
					{Value: tlsStart, Label: strict.Words{EN: "STARTTLS", ZH: "STARTTLS"}},
					{Value: tlsNone, Label: strict.Words{EN: "None: in private networks only", ZH: "不加密：只限内网"}},
				},
			},
			Read: func(v strict.Value, c *config) {
				c.tls = v.Matching(func(how string) bool { return how == tlsImplicit || how == tlsStart || how == tlsNone }, "must be implicit, starttls or none")
			},
		},
		{
			Field: strict.Field{
				Name: "port", Type: strict.Number, Example: portImplicit,
				Label: strict.Words{EN: "Port", ZH: "端口"},
				Help:  strict.Words{EN: "Left out: 993 with TLS from the start, otherwise 143.", ZH: "不填时：一开始就用 TLS 为 993，否则为 143。"},
			},
			Read: func(v strict.Value, c *config) { // after host and tls
				if c.port = portPlain; c.tls == tlsImplicit {
					c.port = portImplicit
				}
				if raw := v.Raw(); raw != nil && (json.Unmarshal(raw, &c.port) != nil || c.port < 1 || c.port > 65535) {
					v.Fault("must be a number from 1 to 65535")
					c.port = 0
				}
				if c.host != "" { // judged as it is dialled, with its port
					if err := client.ValidateHostPort(c.host, uint16(c.port)); errors.Is(err, fetch.ErrPrivate) {
						v.Reader().Refuse("host", err)
					} else if err != nil {
						v.Reader().Refuse("host", errHost) // without the part about the port
					}
				}
			},
		},
	}, submissionEntries(client)...))
}

const unknownUse = `must be a mailbox' name, or one of the uses \All, \Archive, \Drafts, \Flagged, \Important, \Junk, \Sent and \Trash`

// known reports whether a name is not that of a use, or of a known one.
func known(name string) bool {
	_, ok := use(name)
	return ok || !strings.HasPrefix(name, `\`)
}

// mailboxName returns a mailbox' name as servers answer with it.
func mailboxName(name string) string {
	if strings.EqualFold(name, inbox) {
		return inbox
	}
	return name
}

// readHost returns a host in the form in which it is dialled.
func readHost(v strict.Value) string {
	given := v.Text()
	if given == "" {
		return ""
	}
	dialled, err := strict.Hostname(given)
	if err != nil {
		v.Refuse(errHost)
	}
	return strings.TrimSuffix(dialled, ".")
}

// readRef reads a reference to a secret, and reports whether the field is there.
func readRef(v strict.Value) (ref secrets.Ref, given bool) {
	raw := v.Raw()
	ref, err := secrets.ParseRef(raw)
	if err != nil {
		v.Refuse(err)
	}
	return ref, raw != nil
}

func oneLine(v strict.Value, text string) string {
	if len(text) > maxText || strings.ContainsFunc(text, unicode.IsControl) {
		v.Fault(fmt.Sprintf("must be one line of at most %d bytes", maxText))
	}
	return text
}
