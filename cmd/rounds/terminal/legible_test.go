package terminal

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a b\n\tc 客🙂": "a b\n\tc 客🙂", "\u202egnp.exe": `\u202egnp.exe`, "\x1b[2J\u009b\x7f": `\u001b[2J\u009b\u007f`,
		"\u2028\u200b\ufeff\U000e0041": `\u2028\u200b\ufeff\udb40\udc41`, "a\xff": "a\ufffd", "a\xe5\xae": "a\ufffd",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// What is escaped is nowhere in the text any more, and JSON keeps its meaning.
func FuzzText(f *testing.F) {
	f.Add("a\u202eb\x1b\xff\"\\")
	f.Fuzz(func(t *testing.T, text string) {
		got := Text(text)
		for _, c := range got {
			if obeyed(c) {
				t.Errorf("%q: %q has %U", text, got, c)
			}
		}
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal([]byte(Text(string(quoted))), &back); err != nil || utf8.ValidString(text) && back != text {
			t.Errorf("%q: JSON says %q, %v", text, back, err)
		}
	})
}
