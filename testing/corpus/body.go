package corpus

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// mutateBody changes a body as a text, or a value somewhere in the JSON that it is.
func mutateBody(rng *rand.Rand, body string) string {
	first, rest, _ := strings.Cut(body, "\n") // of an import, one line
	if rng.IntN(3) > 0 {
		if changed, ok := mutateJSON(rng, first); ok {
			return strings.TrimSuffix(changed+"\n"+rest, "\n")
		}
	}
	at := rng.IntN(len(body) + 1)
	switch rng.IntN(16) {
	case 0:
		return body[:at]
	case 1:
		return body + body
	case 2:
		return body + pick(rng, "{", "}", ",", "null", "\x00", " \n\t", "//", "\n{}\n", "\"", "\xff")
	case 3: // a key twice
		if rest, ok := strings.CutPrefix(body, "{"); ok {
			return "{" + pick(rng, `"id":"made/1",`, `"kind":"feed",`, `"config":{},`, `"ids":[],`, `"\u0069d":"made/2",`, `"shards":1,`) + rest
		}
		return "{" + body + "," + body + "}"
	case 4: // deep
		depth := 1 << rng.IntN(16)
		open, end := "[", "]"
		if rng.IntN(2) == 0 {
			open, end = `{"a":`, "}"
		}
		deep := strings.Repeat(open, depth) + "0" + strings.Repeat(end, depth)
		return pick(rng, deep, `{"id":"made/4","kind":"http","config":{"url":"https://example.com","config":`+deep+`}}`, `{"hint":`+deep+`}`, `{"config":`+deep+`}`)
	case 5:
		return pick(rng, "", "null", "[]", "{}", "0", `""`, "true", "\xef\xbb\xbf{}", "{\"id\":\"\\ud800\"}", "id,kind\na,feed\n", "<xml/>", "---\na: b", "\x1f\x8b\x08\x00")
	case 6: // a lone surrogate, or another escape
		return body[:at] + pick(rng, `\ud800`, `\udc00\ud800`, `\u0000`, `\u`, `\x41`, `\`, `\ud83d\ude00`) + body[at:]
	case 7: // control bytes and what is no UTF-8
		return body[:at] + pick(rng, "\x00", "\x1b[2J", "\r", "\x7f", "\xff", "\xc0\xaf", "\xf4\x90\x80\x80", "\u2028", "\u202e") + body[at:]
	case 8:
		return strings.Repeat(body+"\n", 1+rng.IntN(50))
	case 9:
		return `{"id":"made/5","kind":"feed","config":{"url":"https://example.com/` + strings.Repeat("a", rng.IntN(300<<10)) + `"}}`
	case 10:
		return strings.Repeat(pick(rng, " ", "\n", "[", "0", "\x00", "{\"a\":1}\n"), rng.IntN(64<<10))
	case 11:
		return strings.ReplaceAll(body, `"`, pick(rng, "'", "", "\\\"", "“"))
	case 12:
		return strings.ToUpper(body)
	case 13:
		return `{"ids":[` + strings.TrimSuffix(strings.Repeat(`"kept/1",`, rng.IntN(2000)), ",") + `]}`
	case 14:
		return `{"id":"made/6","kind":"feed","config":{"url":"https://example.com"},"labels":{` + strings.TrimSuffix(strings.Repeat(`"`+pick(rng, "a", "b")+`":"x",`, rng.IntN(200)), ",") + `}}`
	default:
		text := []byte(body)
		for range 1 + rng.IntN(4) {
			if len(text) > 0 {
				text[rng.IntN(len(text))] = byte(rng.IntN(256))
			}
		}
		return string(text)
	}
}

// mutateJSON puts another value in the place of one. It is false where the text is no JSON
// object.
func mutateJSON(rng *rand.Rand, text string) (string, bool) {
	var value map[string]any
	if json.Unmarshal([]byte(text), &value) != nil || value == nil {
		return "", false
	}
	changed := change(rng, value, 0)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(changed) != nil {
		return "", false
	}
	made := strings.TrimSuffix(out.String(), "\n")
	// What no Go value is.
	made = strings.ReplaceAll(made, `"@huge"`, pick(rng, "1e999", "-1e999", strings.Repeat("9", 400), "0."+strings.Repeat("0", 400)+"1", "1e-999"))
	made = strings.ReplaceAll(made, `@lone`, pick(rng, `\ud800`, `\udfff`, `\udc00\ud800`))
	made = strings.ReplaceAll(made, `"@cut"`, pick(rng, "", "{", "[1,", "tru", "-", "01"))
	return made, true
}

func change(rng *rand.Rand, value any, depth int) any {
	if object, ok := value.(map[string]any); ok && len(object) > 0 && (depth == 0 || rng.IntN(3) > 0) {
		names := slices.Sorted(maps.Keys(object))
		name := names[rng.IntN(len(names))]
		switch {
		case rng.IntN(8) == 0:
			delete(object, name)
		case rng.IntN(8) == 0:
			object[pick(rng, strings.ToUpper(name), name+" ", "__proto__", "", "@lone", "secret", "state", "revision", word(rng))] = object[name]
		default:
			object[name] = change(rng, object[name], depth+1)
		}
		return object
	}
	if list, ok := value.([]any); ok && len(list) > 0 && rng.IntN(2) == 0 {
		i := rng.IntN(len(list))
		list[i] = change(rng, list[i], depth+1)
		return append(list, list...)
	}
	switch rng.IntN(10) {
	case 0:
		return nil
	case 1:
		return rng.IntN(2) == 0
	case 2:
		return []any{value, value}
	case 3:
		return map[string]any{"secret": word(rng)}
	case 4:
		return "@huge"
	case 5:
		return "@lone"
	case 6:
		return "@cut"
	case 7:
		return rng.Float64() * float64(int64(1)<<rng.IntN(63))
	case 8:
		return -rng.IntN(1 << 20)
	default:
		return word(rng)
	}
}
