// Package hostile makes answers that cost their reader far more than they cost their
// sender: what a third party may send by mistake, or on purpose. To a reader of its
// beginning alone, each is valid.
package hostile

import (
	"bytes"
	"strconv"
	"strings"
)

// Size is the default length of the bodies: the most that a check reads.
const Size = 8 << 20

// Body is one kind of hostile answer.
type Body struct {
	Name  string
	Route string // for whom it is meant: "feed", "connector" or "wecom"
	Make  func(size int) []byte
}

// Bodies returns all of them.
func Bodies() []Body { return append(append(xmlBodies(), jsonFeedBodies()...), answerBodies()...) }

// repeat fills size bytes with a beginning, a repeated part and an end.
func repeat(before, part, after string) func(int) []byte {
	return func(size int) []byte {
		n := max(0, size-len(before)-len(after)) / len(part)
		return []byte(before + strings.Repeat(part, n) + after)
	}
}

// count is repeat with parts that differ: # stands for a number.
func count(before, part, after string) func(int) []byte {
	return func(size int) []byte {
		var out bytes.Buffer
		out.Grow(size)
		out.WriteString(before)
		head, tail, _ := strings.Cut(part, "#")
		for n := 0; out.Len()+len(part)+len(after)+8 < size; n++ {
			out.WriteString(head)
			out.WriteString(strconv.FormatInt(int64(n), 36))
			out.WriteString(tail)
		}
		out.WriteString(after)
		return out.Bytes()
	}
}

// answerBodies are for readers of a JSON answer.
func answerBodies() []Body {
	const page = `{"errcode":0,"errmsg":"ok","next_cursor":"1","has_more":0,"msg_list":[`
	return []Body{
		{"connector: numbers for messages", "connector", repeat(`{"messages":[0`, ",0", "]}")},
		{"connector: empty messages", "connector", repeat(`{"messages":[{}`, ",{}", "]}")},
		{"connector: fields", "connector", count(`{"messages":[]`, `,"#":0`, "}")},
		{"connector: fields of a message", "connector", count(`{"messages":[{"id":"1"`, `,"#":0`, "}]}")},
		{"connector: messages again and again", "connector", repeat(`{"messages":[]`, `,"messages":[0]`, "}")},
		{"connector: depth", "connector", deep(`{"messages":[{"id":"1","data":`, "[", "]", "}]}", 9000)},
		{"connector: depth beyond any decoder", "connector", repeat(`{"messages":[{"id":"1","data":`, "[", "")},
		{"connector: fields of an error", "connector", count(`{"error":{"kind":"gone"`, `,"#":0`, "}}")},
		{"connector: one long text", "connector", repeat(`{"messages":[],"x":"`, `\u2028`, `"}`)},
		{"connector: a full page", "connector", fullPage},
		{"wecom: numbers for messages", "wecom", repeat(page+"0", ",0", "]}")},
		{"wecom: empty messages", "wecom", repeat(page+"{}", ",{}", "]}")},
		{"wecom: depth", "wecom", deep(page+`{"msgid":"1","msgtype":"text","text":`, "[", "]", "}]}", 9000)},
		{"wecom: lists again and again", "wecom", repeat(page+`]`, `,"msg_list":[0]`, "}")},
	}
}

// deep nests, and then fills up with harmless text.
func deep(before, open, shut, after string, depth int) func(int) []byte {
	return func(size int) []byte {
		nest := min(depth, max(0, size-len(before)-len(after))/2)
		text := before + strings.Repeat(open, nest) + strings.Repeat(shut, nest) + after
		return append([]byte(text), bytes.Repeat([]byte(" "), max(0, size-len(text)))...)
	}
}

// fullPage is what a connector may send, with as much of everything as is allowed.
func fullPage(size int) []byte {
	var out bytes.Buffer
	out.WriteString(`{"messages":[`)
	data := strings.Repeat("x", min(250<<10, size/2))
	for n := 0; out.Len()+len(data)+100 < size; n++ {
		if n > 0 {
			out.WriteByte(',')
		}
		out.WriteString(`{"id":"` + strconv.Itoa(n) + `","data":"` + data + `"}`)
	}
	out.WriteString("]}")
	return out.Bytes()
}
