package email

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"
)

const maxSections = 64 // of one parameter

// mediaType reads a field with a type and parameters, such as Content-Type, and decodes
// the parameters. Like mail programs it skips a broken parameter, for which package mime
// would refuse them all.
func mediaType(text string, hint *hint) (kind string, params map[string]string) {
	items := splitOutside(undeclared([]byte(text), hint), ';')
	kind, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(items[0])), " ")
	return kind, mediaParams(items[1:], hint)
}

// mediaParams decodes parameters of the form name=value. A long parameter may be continued
// in numbered sections, of which the encoded ones end in a star (RFC 2231):
//
//	name*0*=utf-8''%e5%b7%a5; name*1=".pdf"
func mediaParams(items []string, hint *hint) map[string]string {
	params := make(map[string]string)
	sections := make(map[string][]string)
	encoded := make(map[string]bool)
	for _, item := range items {
		name, value, ok := strings.Cut(item, "=")
		if name = strings.ToLower(strings.TrimSpace(name)); !ok || name == "" {
			continue
		}
		value = unquote(strings.TrimSpace(value))
		base, extended := strings.CutSuffix(name, "*")
		base, number, numbered := strings.Cut(base, "*")
		if !extended && !numbered {
			if _, twice := params[name]; !twice {
				params[name] = decodeWords(value, hint)
			}
			continue
		}
		if n, err := strconv.Atoi(number); numbered && (err != nil || n != len(sections[base]) || n >= maxSections) {
			continue
		}
		if extended {
			encoded[base] = encoded[base] || len(sections[base]) == 0
			if encoded[base] {
				value = unescape(value)
			}
		}
		sections[base] = append(sections[base], value)
	}
	for name, values := range sections {
		value := strings.Join(values, "")
		if encoded[name] {
			if parts := strings.SplitN(value, "'", 3); len(parts) == 3 {
				value = decodeBytes([]byte(parts[2]), parts[0], hint)
			}
		}
		params[name] = decodeWords(value, hint)
	}
	return params
}

// unquote returns a parameter's value without quotes.
func unquote(value string) string {
	inner, quoted := strings.CutPrefix(value, `"`)
	if !quoted {
		return value
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(strings.TrimSuffix(inner, `"`))
}

// unescape decodes percent signs, and leaves literal ones.
func unescape(value string) string {
	out := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		if value[i] == '%' && i+2 < len(value) {
			if b, err := strconv.ParseUint(value[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(b))
				i += 2
				continue
			}
		}
		out = append(out, value[i])
	}
	return string(out)
}

// part is one part of a multipart body.
type part struct {
	raw   []byte
	ended bool // a boundary follows
}

// splitParts returns at most the given number of parts between boundaries (RFC 2046,
// section 5.1.1). The last one may lack its end.
func splitParts(body []byte, boundary string, most int) (parts []part) {
	start := -1
	eachLine(body, func(from, to int, line []byte) bool {
		is, last := isBoundary(line, boundary)
		if !is {
			return true
		}
		if start >= 0 {
			// The line break before a boundary belongs to the boundary.
			content := bytes.TrimSuffix(bytes.TrimSuffix(body[start:from], []byte("\n")), []byte("\r"))
			parts = append(parts, part{content, true})
		}
		if start = to; last || len(parts) == most {
			start = len(body)
			return false
		}
		return true
	})
	if start >= 0 && start < len(body) {
		parts = append(parts, part{body[start:], false})
	}
	return parts
}

// isBoundary reports whether a line is a boundary, and whether it is the last one.
func isBoundary(line []byte, boundary string) (is, last bool) {
	rest, ok := bytes.CutPrefix(line, []byte("--"))
	if ok {
		rest, ok = bytes.CutPrefix(rest, []byte(boundary))
	}
	if !ok {
		return false, false
	}
	rest, last = bytes.CutPrefix(rest, []byte("--"))
	return len(bytes.TrimRight(rest, " \t\r")) == 0, last
}

// findBoundary returns what looks like the boundary of a multipart body that does not
// name its boundary, or an empty text.
func findBoundary(body []byte) (boundary string) {
	eachLine(body, func(_, _ int, line []byte) bool {
		name, ok := bytes.CutPrefix(bytes.TrimRight(line, " \t\r"), []byte("--"))
		if ok && len(name) > 0 && len(name) <= 70 && !bytes.ContainsAny(name, " \t") {
			boundary = string(name)
		}
		return boundary == ""
	})
	return boundary
}

// eachLine calls do with each line, its start, and the start of the next line, for as
// long as do returns true.
func eachLine(body []byte, do func(from, to int, line []byte) bool) {
	for from := 0; from < len(body); {
		to := len(body)
		line := body[from:]
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line, to = line[:i], from+i+1
		}
		if !do(from, to, line) {
			return
		}
		from = to
	}
}

// transferred decodes a part's transfer encoding, and reports whether the encoding was
// correct. A text in an unknown encoding is better than none.
func transferred(h header, body []byte) (decoded []byte, clean bool) {
	switch encodingOf(h) {
	case encodingBase64:
		if decoded, clean = decodeBase64(body); len(decoded) == 0 && len(bytes.TrimSpace(body)) > 0 {
			return body, false
		}
		return decoded, clean
	case encodingQuoted:
		return decodeQuoted(body)
	}
	return body, true
}

// The transfer encodings that are decoded.
const (
	encodingBase64 = "base64"
	encodingQuoted = "quoted-printable"
)

// encodingOf returns a part's transfer encoding, or "" if it has another one or none.
func encodingOf(h header) string {
	name := strings.Trim(strings.ToLower(h.get("Content-Transfer-Encoding")), " \t\"'")
	if end := strings.IndexAny(name, " \t;(\""); end >= 0 {
		name = name[:end]
	}
	if name == encodingBase64 || name == encodingQuoted {
		return name
	}
	return ""
}

// decodeBase64 decodes what it can. It skips bytes that are not base64, and goes on
// after padding in the middle, where texts were encoded line by line.
func decodeBase64(raw []byte) (decoded []byte, clean bool) {
	clean = true
	var group []byte
	flush := func() {
		if len(group)%4 == 1 {
			group, clean = group[:len(group)-1], false // 6 bits are no byte
		}
		out, err := base64.RawStdEncoding.AppendDecode(decoded, group)
		clean = clean && err == nil
		decoded, group = out, group[:0]
	}
	for _, b := range raw {
		switch {
		case b >= 'A' && b <= 'Z', b >= 'a' && b <= 'z', b >= '0' && b <= '9', b == '+', b == '/':
			group = append(group, b)
		case b == '=':
			flush()
		case b != ' ' && b != '\t' && b != '\r' && b != '\n':
			clean = false
		}
	}
	flush()
	return decoded, clean
}

// decodeQuoted decodes quoted-printable text, and leaves everything else as it is.
func decodeQuoted(raw []byte) (decoded []byte, clean bool) {
	clean = true
	decoded = make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '=' {
			decoded = append(decoded, raw[i])
			continue
		}
		if i+2 < len(raw) {
			if b, err := strconv.ParseUint(string(raw[i+1:i+3]), 16, 8); err == nil {
				decoded = append(decoded, byte(b))
				i += 2
				continue
			}
		}
		rest := bytes.TrimLeft(raw[i+1:], " \t\r")
		switch {
		case len(rest) == 0:
			return decoded, clean
		case rest[0] == '\n': // a soft line break
			i = len(raw) - len(rest)
		default:
			decoded, clean = append(decoded, '='), false
		}
	}
	return decoded, clean
}
