package imap

import (
	"net/mail"
	"strings"
)

// address is one address of a list. An unreadable one has its text as the name.
type address struct {
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
}

// addresses reads a list of addresses. One that breaks the rules does not cost the
// others.
func (d *data) addresses(text string, hint *hint) (list []address) {
	if text == "" {
		return nil
	}
	parsed, err := mail.ParseAddressList(quoteWords(text, hint))
	if err != nil {
		return d.looseAddresses(decodeWords(text, hint))
	}
	for _, a := range parsed {
		if list = d.add(list, a.Name, a.Address); d.full(list) {
			break
		}
	}
	return list
}

func (d *data) add(list []address, name, at string) []address {
	return append(list, address{d.cut(valid(name), maxLine), d.cut(valid(at), maxLine)})
}

// full reports whether a list has no room for more, and notes that it was cut.
func (d *data) full(list []address) bool {
	d.Truncated = d.Truncated || len(list) == maxAddresses
	return len(list) == maxAddresses
}

// looseAddresses reads a list that breaks the rules: the text in the last angle brackets
// of an item is its address.
func (d *data) looseAddresses(text string) (list []address) {
	if strings.Count(text, `"`)%2 == 1 {
		text = strings.ReplaceAll(text, `"`, "") // one that never closes would take all that follows
	}
	for _, item := range splitOutside(text, ',') {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		name, at := item, ""
		if open := strings.LastIndexByte(item, '<'); open >= 0 {
			if inner, _, _ := strings.Cut(item[open+1:], ">"); strings.Contains(inner, "@") {
				name, at = item[:open], strings.TrimSpace(inner)
			}
		} else if before, after, _ := strings.Cut(item, "@"); before != "" && after != "" && !strings.ContainsAny(item, " \t\"") {
			name, at = "", item
		}
		if list = d.add(list, strings.Trim(name, " \t\""), at); d.full(list) {
			break
		}
	}
	return list
}

// quoteWords returns a list of addresses whose encoded words are quoted strings, so that
// what they hold cannot end a name.
func quoteWords(text string, hint *hint) string {
	var out strings.Builder
	var outer outside
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "(", `\(`, ")", `\)`)
	for _, p := range pieces(text, hint) {
		switch {
		case !p.words:
			for _, c := range []byte(p.text) {
				outer.pass(c)
			}
			out.WriteString(p.text)
		case outer.quoted || outer.comments > 0:
			out.WriteString(escape.Replace(p.text))
		default:
			out.WriteString(` "` + escape.Replace(p.text) + `" `)
		}
	}
	return out.String()
}

// outside follows quotes, comments and angle brackets in a field.
type outside struct {
	quoted, escaped, angle bool
	comments               int
}

// pass takes a byte and reports whether it stands outside of all of them.
func (o *outside) pass(c byte) bool {
	switch {
	case o.escaped:
		o.escaped = false
	case c == '\\' && (o.quoted || o.comments > 0):
		o.escaped = true
	case c == '"' && o.comments == 0:
		o.quoted = !o.quoted
	case o.quoted:
	case c == '(':
		o.comments++
	case c == ')':
		o.comments = max(o.comments-1, 0)
	case c == '<', c == '>':
		o.angle = c == '<'
	default:
		return o.comments == 0 && !o.angle
	}
	return false
}

// splitOutside splits a text at a separator that stands outside of quotes, comments and
// angle brackets.
func splitOutside(text string, separator byte) (items []string) {
	var outer outside
	start := 0
	for i := range len(text) {
		if outer.pass(text[i]) && text[i] == separator {
			items = append(items, text[start:i])
			start = i + 1
		}
	}
	return append(items, text[start:])
}
