package email

import (
	"bytes"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"

	"github.com/rounds-dev/rounds/poller/checkers/message"
)

const maxFields = 1000 // of one header

// Field is one field of a header.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"` // in a message: decoded
	// Raw is the field as it came, if decoding changed it. A byte beyond ASCII is written
	// as the character of the same number, as in ISO 8859-1, so that no byte is lost.
	Raw string `json:"raw,omitempty"`
}

// decoded returns the field for a message. hint is the mail's.
func (f Field) decoded(d *Data, hint *hint) Field {
	shown := Field{Name: f.Name, Value: d.cut(decodeWords(f.Value, hint), 2*maxLine)}
	if !plain(f.Value) {
		raw := make([]rune, 0, min(len(f.Value), 2*maxLine))
		for i := range min(len(f.Value), 2*maxLine) {
			raw = append(raw, rune(f.Value[i]))
		}
		d.Truncated = d.Truncated || len(f.Value) > 2*maxLine
		shown.Raw = string(raw)
	}
	return shown
}

// header is a mail's or a part's header, in its order. Its values are bytes in any
// charset.
type header []Field

// split returns the header and the body of a mail or a part. Like mail programs, and unlike
// net/mail, it skips lines that are not fields, because no message may be lost for one of its
// lines. Without any field, everything is the body. If no empty line ends the header, the body is
// what follows the last field.
func split(raw []byte) (header, []byte) {
	var h header
	raw = bytes.TrimPrefix(raw, []byte("\ufeff")) // scripts that are stored with one send it along
	whole, after := raw, raw                      // after the last field
	// Lines that continue a field are joined when the field ends, because a mail may
	// have tens of thousands of them.
	var folded []string
	end := func() {
		if len(folded) > 0 {
			last := &h[len(h)-1]
			last.Value = strings.Join(append([]string{last.Value}, folded...), " ")
			folded = folded[:0]
		}
	}
	defer end()
	for len(raw) > 0 {
		line, rest, _ := bytes.Cut(raw, []byte("\n"))
		text := strings.TrimSuffix(string(line), "\r")
		switch {
		case text == "" && len(h) == 0 && len(whole) != len(raw):
			return nil, whole
		case text == "":
			return h, rest
		case text[0] == ' ' || text[0] == '\t':
			if len(h) > 0 {
				folded = append(folded, strings.TrimSpace(text))
				after = rest
			}
			raw = rest
			continue
		}
		raw = rest
		name, value, ok := strings.Cut(text, ":")
		if name = strings.TrimSpace(name); ok && name != "" && !strings.ContainsAny(name, " \t") && len(h) < maxFields {
			end()
			h = append(h, Field{Name: message.Cut(valid(name), 256), Value: strings.TrimSpace(value)})
			after = rest
		}
	}
	if len(h) == 0 {
		return nil, whole
	}
	return h, after
}

// get returns the text of the first field of a name, or an empty text.
func (h header) get(name string) string {
	for _, f := range h {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// hint returns the likely charset of the mail's texts that declare none. It is the charset that the
// header names, in its type or in an encoded word, or else a guess from the whole header.
func (h header) hint() *hint {
	return &hint{likely: h.likely()}
}

func (h header) likely() encoding.Encoding {
	_, params := mediaType(h.get("Content-Type"), nil)
	if named := lookup(params["charset"]); extendsASCII(named) {
		return named
	}
	var beyond []byte
	for _, f := range h {
		if word := encodedWord.FindStringSubmatch(f.Value); word != nil {
			if named := lookup(word[1]); extendsASCII(named) {
				return named
			}
		}
		if !utf8.ValidString(f.Value) && len(beyond) < maxSample {
			beyond = append(append(beyond, f.Value...), '\n')
		}
	}
	if len(beyond) == 0 {
		return nil
	}
	return guess(beyond, nil)
}

// extendsASCII reports whether a header can be in a charset. It cannot be in UTF-16, in which
// nearly all bytes mean something.
func extendsASCII(named encoding.Encoding) bool {
	if named == nil {
		return false
	}
	text, _ := decodeAs(named, []byte("Az"))
	return text == "Az"
}

// encodedWord is the form of an encoded word (RFC 2047, section 2), read leniently: mail programs
// leave spaces in the text and fold lines in the middle of it.
var encodedWord = regexp.MustCompile(`=\?([^?\s]{1,64})\?([bBqQ])\?([^?]*)\?=`)

// piece is a part of a field: plain text, or decoded words.
type piece struct {
	text  string
	words bool
}

// pieces splits a field at its encoded words. Adjacent words of one charset are joined
// before they are decoded, because senders split characters over two words. Text
// between the words is decoded first, as text without a declared charset.
func pieces(text string, hint *hint) (all []piece) {
	text = undeclared([]byte(text), hint)
	var (
		label string // of raw
		raw   []byte // of adjacent words, not decoded yet
		words strings.Builder
	)
	flush := func() {
		words.WriteString(decodeBytes(raw, label, hint))
		label, raw = "", nil
	}
	end := func() {
		if flush(); words.Len() > 0 {
			all = append(all, piece{words.String(), true})
			words.Reset()
		}
	}
	at := 0
	for _, m := range encodedWord.FindAllStringSubmatchIndex(text, -1) {
		between := text[at:m[0]]
		if at == 0 || strings.TrimSpace(between) != "" {
			end()
			if between != "" {
				all = append(all, piece{between, false})
			}
		}
		at = m[1]
		if charset := strings.ToLower(text[m[2]:m[3]]); charset != label {
			flush()
			label = charset
		}
		if content := text[m[6]:m[7]]; strings.EqualFold(text[m[4]:m[5]], "b") {
			decoded, _ := decodeBase64([]byte(content))
			raw = append(raw, decoded...)
		} else {
			decoded, _ := decodeQuoted([]byte(strings.ReplaceAll(content, "_", " ")))
			raw = append(raw, decoded...)
		}
	}
	end()
	if at < len(text) {
		all = append(all, piece{text[at:], false})
	}
	return all
}

// decodeWords returns a field's text in UTF-8. Like mail programs, and unlike RFC 2047,
// it decodes encoded words within quotes too.
func decodeWords(text string, hint *hint) string {
	if plain(text) {
		return text
	}
	var out strings.Builder
	for _, p := range pieces(text, hint) {
		out.WriteString(p.text)
	}
	return out.String()
}

// plain reports whether a field has nothing to decode.
func plain(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return !strings.Contains(text, "=?")
}

// zones are the time zones that have a name in mail (RFC 5322, section 4.3). Package mail takes
// every name for UTC.
var zones = map[string]string{
	"UT": "+0000", "GMT": "+0000", "UTC": "+0000", "Z": "+0000", "EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500",
	"MST": "-0700", "MDT": "-0600", "PST": "-0800", "PDT": "-0700",
}

// numericZone matches a time zone's number, also as programs write it that RFC 5322 does not allow.
var numericZone = regexp.MustCompile(`^(?:GMT|UTC)?([+-]\d{2}):?(\d{2})$`)

// parseDate reads a field with a date. It is not ok if nobody can be sure which time is meant: a time
// zone has no number and no name that mail knows.
func parseDate(text string) (at time.Time, ok bool) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, !message.Usable(at).IsZero()
	}
	// The day of the week says nothing new, and may be in any language.
	if day, rest, ok := strings.Cut(text, ","); ok && !strings.ContainsFunc(day, unicode.IsDigit) {
		text = rest
	}
	text, _, _ = strings.Cut(text, "(") // a comment ends it
	words := strings.Fields(text)
	if len(words) < 2 {
		return at, false
	}
	zone := strings.ToUpper(strings.Trim(words[len(words)-1], `"`))
	if named := zones[zone]; named != "" {
		zone = named
	} else if number := numericZone.FindStringSubmatch(zone); number != nil {
		zone = number[1] + number[2]
	} else {
		return at, false
	}
	words[len(words)-1] = zone
	at, err := mail.ParseDate(strings.Join(words, " "))
	return at, err == nil && !message.Usable(at).IsZero()
}

// Address is one address of a list. If it is unreadable, its text is the name.
type Address struct {
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
}

// addresses reads a list of addresses. A broken address does not cost the others.
func (d *Data) addresses(text string, hint *hint) (list []Address) {
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

func (d *Data) add(list []Address, name, at string) []Address {
	return append(list, Address{d.cut(valid(name), maxLine), d.cut(valid(at), maxLine)})
}

// full reports whether a list has no room for more, and notes that it was cut.
func (d *Data) full(list []Address) bool {
	d.Truncated = d.Truncated || len(list) == maxAddresses
	return len(list) == maxAddresses
}

// looseAddresses reads a list that breaks the rules: the text in the last angle brackets
// of an item is its address.
func (d *Data) looseAddresses(text string) (list []Address) {
	if strings.Count(text, `"`)%2 == 1 {
		text = strings.ReplaceAll(text, `"`, "") // an unclosed quote would take everything after it
	}
	// Semicolons end groups. Outlook's users and some programs put them between addresses.
	for _, item := range splitOutside(text, ',', ';') {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		name, at := item, ""
		if open := strings.LastIndexByte(item, '<'); open >= 0 {
			if inner, _, _ := strings.Cut(item[open+1:], ">"); strings.Contains(inner, "@") {
				name, at = strings.TrimRight(item[:open], "< \t"), strings.TrimSpace(inner)
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

// quoteWords decodes the encoded words in a list of addresses, and quotes them so that their content
// cannot end a name.
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

// splitOutside splits a text at separators that stand outside of quotes, comments and
// angle brackets.
func splitOutside(text string, separators ...byte) (items []string) {
	var outer outside
	start := 0
	for i := range len(text) {
		if outer.pass(text[i]) && slices.Contains(separators, text[i]) {
			items = append(items, text[start:i])
			start = i + 1
		}
	}
	return append(items, text[start:])
}
