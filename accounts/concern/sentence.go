package concern

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Style says how the parts of a sentence are written, for example as markup. All of its
// functions are required.
type Style struct {
	Name     func(name string) string // the subject of a concern
	Text     func(text string) string // values, and the text between the other parts
	Number   func(n int) string
	Duration func(d time.Duration) string // in whole seconds
	Share    func(share float64) string   // of 1
}

// plain writes sentences for terminals and logs.
func plain() Style {
	same := func(text string) string { return text }
	return Style{
		Name: same, Text: same, Number: strconv.Itoa, Duration: time.Duration.String,
		Share: func(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) },
	}
}

// Sentence returns a concern as a sentence, in English ("en") or Chinese ("zh"). English
// sentences begin with a small letter and have no full stop, as in a log. For a code of a
// later version it returns the text that came with the concern.
func (c *Concern) Sentence(language string, s Style) string {
	e := entryOf(c.Code)
	if e == nil {
		return s.Text(c.Text)
	}
	en, zh := e.en, e.zh
	for _, v := range e.other {
		if v.fits(c) {
			en, zh = v.en, v.zh
			break
		}
	}
	if language == "zh" {
		return c.fill(zh, s, chinese())
	}
	return c.fill(en, s, english())
}

// tongue writes the parts of a sentence whose words depend on the language.
type tongue struct {
	// and returns the words after a subject for others that are alike. One and several
	// are the nouns for them.
	and func(others int, s Style, one, several string) string

	account, accounts string // after a number
	message, messages string
	send, sends       string
}

func english() tongue {
	return tongue{
		and: func(others int, s Style, one, several string) string {
			return s.Text(" and ") + many(others, s, " other "+one, " other "+several)
		},
		account: " account", accounts: " accounts", message: " message", messages: " messages", send: " send", sends: " sends",
	}
}

func chinese() tongue {
	return tongue{
		and: func(others int, s Style, _, several string) string {
			return s.Text(" 及另外 ") + s.Number(others) + s.Text(" 个"+several)
		},
		account: " 个账号", accounts: " 个账号", message: " 条消息", messages: " 条消息", send: " 次发送", sends: " 次发送",
	}
}

// many returns a number with the words that follow it.
func many(n int, s Style, one, several string) string {
	if n == 1 {
		return s.Number(n) + s.Text(one)
	}
	return s.Number(n) + s.Text(several)
}

// fill fills in the parts of a sentence in braces. It leaves out the text in brackets if
// there is no time.
func (c *Concern) fill(text string, s Style, in tongue) string {
	var b strings.Builder
	for {
		i := strings.IndexAny(text, "{[")
		if i < 0 {
			b.WriteString(s.Text(text))
			return b.String()
		}
		b.WriteString(s.Text(text[:i]))
		if text[i] == '[' {
			inner, rest, _ := strings.Cut(text[i+1:], "]")
			if c.time() > 0 {
				b.WriteString(c.fill(inner, s, in))
			}
			text = rest
			continue
		}
		part, rest, _ := strings.Cut(text[i+1:], "}")
		b.WriteString(c.part(part, s, in))
		text = rest
	}
}

// time returns the duration of a concern, without its sign.
func (c *Concern) time() time.Duration {
	return time.Duration(c.Seconds * float64(time.Second)).Round(time.Second).Abs()
}

// part returns one part of a sentence: NAME, or NAME:ONE|SEVERAL with the words to take for one
// and for several.
func (c *Concern) part(part string, s Style, in tongue) string {
	name, words, worded := strings.Cut(part, ":")
	one, several, _ := strings.Cut(words, "|")
	after := func(noun, verb string) string {
		if worded {
			return noun + " " + verb
		}
		return noun
	}
	switch name {
	case "name":
		return s.Name(c.Subject)
	case "subject": // and others that are alike
		if c.Count > 1 {
			return s.Name(c.Subject) + in.and(c.Count-1, s, one, several)
		}
		return s.Name(c.Subject)
	case "names": // of the subjects, and how many more there are
		names := make([]string, len(c.Names))
		for i, n := range c.Names {
			names[i] = s.Name(n)
		}
		text := strings.Join(names, s.Text(", "))
		if more := c.Count - len(names); more > 0 {
			text += in.and(more, s, one, several)
		}
		return text
	case "alike": // a word that agrees with the subject
		if c.Count > 1 {
			return s.Text(several)
		}
		return s.Text(one)
	case "count":
		return many(max(1, c.Count), s, after("", one), after("", several))
	case "accounts":
		return many(c.Accounts, s, after(in.account, one), after(in.accounts, several))
	case "some": // of all that were looked at
		return s.Number(c.Accounts)
	case "of":
		return many(c.Of, s, in.account, in.accounts)
	case "messages":
		return many(c.Messages, s, after(in.message, one), after(in.messages, several))
	case "sends":
		return many(c.Sends, s, after(in.send, one), after(in.sends, several))
	case "rate":
		return s.Number(c.PerMinute)
	case "time":
		return s.Duration(c.time())
	case "share":
		return s.Share(c.Share)
	case "account":
		return s.Name(c.Account)
	case "value":
		return s.Text(c.Value)
	}
	return s.Text("{" + part + "}") // a mistake in the table, which a test finds
}
