package weixin

import (
	"errors"
	"regexp"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	// DefaultBaseURL is where signing in begins, and where most accounts are.
	DefaultBaseURL = "https://ilinkai.weixin.qq.com"

	defaultAgent = "rounds/1"
	maxAgent     = 256 // bytes

	lossContinue = "continue"
	lossReplay   = "replay"
)

// config is a record's parsed config.
type config struct {
	token secrets.Ref
	base  string // without a slash at its end
	host  string // of base, with its port
	cdn   string // without a slash at its end
	agent string

	replay bool // after a page may have been lost, ask for recent messages again
}

// agentPattern allows what the official client sends: tokens Name/Version, each with a comment
// in brackets.
var agentPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,32}/[A-Za-z0-9_.+-]{1,32}( \([\x20-\x27\x2a-\x7e]{1,64}\))?( [A-Za-z0-9_.-]{1,32}/[A-Za-z0-9_.+-]{1,32}( \([\x20-\x27\x2a-\x7e]{1,64}\))?)*$`)

// form reads configs.
type form = strict.Form[config]

// newForm returns the fields of an account's config. It reads base_url by the client's rules.
func newForm(client *fetch.Client) *form {
	return strict.NewForm([]strict.Entry[config]{
		{
			Field: strict.Field{
				Name: "token", Type: strict.Secret, Secret: true, Required: true, Example: strict.Ref("WEIXIN_ME"),
				Label: strict.Words{EN: "Token", ZH: "令牌"},
				Help:  strict.Words{EN: "The name of the secret that has the account's token. Signing in by a scan stores it.", ZH: "保存账号令牌的密钥名称。扫码登录时会自动保存。"},
			},
			Read: func(v strict.Value, c *config) { c.token = secrets.ReadRef(v) },
		},
		{
			Field: strict.Field{
				Name: "base_url", Type: strict.URL, Example: DefaultBaseURL, Default: DefaultBaseURL,
				Label: strict.Words{EN: "Server", ZH: "服务器地址"},
				Help:  strict.Words{EN: "The account's server, as the sign-in named it. The token is sent there.", ZH: "登录时返回的服务器地址。令牌会发往这里。"},
			},
			Read: func(v strict.Value, c *config) { c.base, c.host = client.ReadBaseURL(v) },
		},
		{
			Field: strict.Field{
				Name: "cdn_url", Type: strict.URL, Example: defaultCDN, Default: defaultCDN,
				Label: strict.Words{EN: "Server of files", ZH: "文件服务器地址"},
				Help:  strict.Words{EN: "Where the files of messages are, if a message does not say it. The token is not sent there.", ZH: "消息中文件的下载地址，用于消息未给出完整地址时。令牌不会发往这里。"},
			},
			Read: func(v strict.Value, c *config) { c.cdn, _ = client.ReadBaseURL(v) },
		},
		{
			Field: strict.Field{
				Name: "bot_agent", Type: strict.TextType, Example: defaultAgent, Default: defaultAgent,
				Label: strict.Words{EN: "Our name", ZH: "客户端名称"},
				Help:  strict.Words{EN: "How we name ourselves to the server: Name/Version, ASCII.", ZH: "向服务器报告的客户端名称：Name/Version，仅限 ASCII。"},
			},
			Read: func(v strict.Value, c *config) {
				c.agent = v.Matching(func(name string) bool { return len(name) <= maxAgent && agentPattern.MatchString(name) },
					"must be Name/Version tokens with single spaces between them, ASCII, at most 256 bytes")
			},
		},
		{
			Field: strict.Field{
				Name: "after_loss", Type: strict.Choice, Example: lossReplay, Default: lossContinue,
				Label: strict.Words{EN: "After a loss", ZH: "可能丢失消息后"},
				Help: strict.Words{
					EN: "What to do after messages may have been lost, such as when a process was killed: go on, or ask for recent messages again. Those that are known are not written twice. Whether a server gives them again is not documented.",
					ZH: "进程被杀等情况可能丢失消息。之后是继续，还是让服务器重发近期消息；已知的消息不会重复写入。服务器是否重发，官方没有说明。",
				},
				Choices: []strict.Option{
					{Value: lossContinue, Label: strict.Words{EN: "Go on", ZH: "继续"}},
					{Value: lossReplay, Label: strict.Words{EN: "Ask for recent messages again", ZH: "请求重发近期消息"}},
				},
			},
			Read: func(v strict.Value, c *config) {
				c.replay = lossReplay == v.Matching(func(how string) bool { return how == lossContinue || how == lossReplay }, "must be continue or replay")
			},
		},
	})
}

// cursorPrefix begins a cursor, before the server's own.
const cursorPrefix = "1:"

// maxBuf is the most bytes of the server's cursor. The pool stores up to 64 KiB.
const maxBuf = 60 << 10

// decodeCursor returns the server's cursor; empty at first.
func decodeCursor(raw []byte) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	buf, ok := strings.CutPrefix(string(raw), cursorPrefix)
	if !ok || buf == "" {
		return "", errors.New("not a cursor of this version")
	}
	return buf, nil
}

func encodeCursor(buf string) []byte { return []byte(cursorPrefix + buf) }
