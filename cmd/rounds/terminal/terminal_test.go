package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestWriterShowsAndObeysNothing(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\n":                  "plain\ttext\n",
		"客服 ü 🙂　é":                       "客服 ü 🙂　é",
		"\x1b[2J\x1b]0;title\x07":        `\u001b[2J\u001b]0;title\u0007`,
		"a\rb\bc\x00\x7f":                `a\u000db\u0008c\u0000\u007f`,
		"\u009b31m\u0085":                `\u009b31m\u0085`,
		"\x9b31m\xff":                    "\ufffd31m\ufffd",
		"abc\u202egnp.exe\u2066\u200b":   `abc\u202egnp.exe\u2066\u200b`,
		"one\u2028two\u2029":             `one\u2028two\u2029`,
		"\U000e0041tag":                  `\udb40\udc41tag`,
		"\ufeffmark":                     `\ufeffmark`,
		"a \ufffd that was there before": "a \ufffd that was there before",
	} {
		for step := 1; step <= len(text); step++ {
			var b bytes.Buffer
			w := NewWriter(&b)
			for rest := []byte(text); len(rest) > 0; {
				n := min(step, len(rest))
				if done, err := w.Write(rest[:n]); err != nil || done != n {
					t.Fatal(done, err)
				}
				rest = rest[n:]
			}
			if b.String() != want {
				t.Errorf("%q in steps of %d: got %q, want %q", text, step, b.String(), want)
			}
		}
	}
}

// JSON that goes through a Writer keeps its meaning.
func TestWriterKeepsJSON(t *testing.T) {
	want := map[string]string{"a": "\x1b\u009b\u202e\U000e0041\u2028客🙂"}
	var b bytes.Buffer
	e := json.NewEncoder(NewWriter(&b))
	if err := e.Encode(want); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got["a"] != want["a"] || strings.ContainsAny(b.String(), "\u009b\u202e\U000e0041") {
		t.Errorf("%q, %v: %q", got, err, b.String())
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"a b 客": "a b 客", "a\nb\tc": `a\nb\tc`, "\x1b[2J": `\x1b[2J`, "\u202e": `\u202e`, `"quoted"`: `"quoted"`,
	} {
		if got := OneLine(text); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriterTellsErrors(t *testing.T) {
	w := NewWriter(failing{})
	if n, err := w.Write([]byte("a")); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%d, %v", n, err)
	}
	if NewWriter(w) != w || Raw(w) != any(failing{}) || Raw(failing{}) != any(failing{}) {
		t.Error("wrapped twice, or not unwrapped")
	}
}
