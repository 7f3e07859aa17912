package connector

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// The fields of an answer, object by object.
const (
	pageFields    = "messages next_cursor has_more next_poll_after cursor_reset hold error"
	failureFields = "error retry_after"
	errorFields   = "kind code message"
	messageFields = "id type time data"
)

// otherWords are common wrong names of fields, in lower case and without underscores.
const otherWords = " cursor=next_cursor more=has_more hasnext=has_more items=messages timestamp=time payload=data "

// misspelt describes the first unknown field of an answer that was probably meant as a
// missing known one. It returns an empty text if there is none. A value that is not an
// object has no fields.
func misspelt(body []byte) string {
	if _, err := limits.Check(body); err != nil {
		return ""
	}
	var answer object
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	fields := pageFields
	if answer.take("error") != nil {
		fields = failureFields
	}
	if found := misspeltIn("", answer, fields); found != "" {
		return found
	}
	var failure object
	if json.Unmarshal(answer["error"], &failure) == nil {
		if _, there := failure["retry_after"]; there {
			return misplacedWait
		}
		if found := misspeltIn("error.", failure, errorFields); found != "" {
			return found
		}
	}
	var list []json.RawMessage
	if json.Unmarshal(answer["messages"], &list) != nil {
		return ""
	}
	for i, raw := range list {
		var message object
		if json.Unmarshal(raw, &message) != nil {
			continue
		}
		if found := misspeltIn(fmt.Sprintf("messages[%d].", i), message, messageFields); found != "" {
			return found
		}
	}
	return ""
}

// misspeltIn searches one object. A name counts only if the field that it resembles is
// missing. Other unknown fields are the connector's own.
func misspeltIn(path string, o object, fields string) string {
	known := 0
	for field := range strings.FieldsSeq(fields) {
		if _, there := o[field]; there {
			known++
		}
	}
	if known == len(o) {
		return "" // the case almost always
	}
	var missing []string
	for field := range strings.FieldsSeq(fields) {
		if _, there := o[field]; !there {
			missing = append(missing, field)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if slices.Contains(strings.Fields(fields), name) {
			continue
		}
		for _, field := range missing {
			if alike(name, field) {
				return fmt.Sprintf("%s%s: no field has this name, %s is likely meant", path, strict.Printable(name), field)
			}
		}
	}
	return ""
}

// alike reports whether a name was probably meant as a field.
func alike(name, field string) bool {
	name, plain := bare(name), bare(field)
	if name == plain || strings.Contains(otherWords, " "+name+"="+field+" ") {
		return true
	}
	most := 1
	if len(plain) > 5 {
		most = 2
	}
	return len(plain) > 2 && len(name) < 2*len(plain) && edits(name, plain) <= most
}

// bare returns a name in lower case and without the characters that join its words.
func bare(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}

// edits returns how many letters must be changed, removed, inserted or swapped with
// their neighbour to turn one word into the other.
func edits(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			row[j+1] = min(last[j]+change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
