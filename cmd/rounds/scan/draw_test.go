package scan

import (
	"encoding/xml"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDrawings(t *testing.T) {
	const link = "https://liteapp.weixin.qq.com/q/7GiQu1?qrcode=0123456789abcdef&bot_type=3"
	blocks, err := Blocks(link)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(blocks, "\n"), "\n")
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n != utf8.RuneCountInString(lines[0]) || n < 2*len(lines)-1 || n > 2*len(lines) {
			t.Errorf("%d of %d wide: %q", n, len(lines), line)
		}
	}
	// The corner of a finder pattern, behind a quiet zone of four modules.
	if strings.Trim(lines[0]+lines[1], "█") != "" || !strings.HasPrefix(lines[2], "████ ▄▄▄▄▄ █") {
		t.Errorf("got\n%s", blocks)
	}
	svg, err := SVG(link)
	if err != nil || xml.Unmarshal([]byte(svg), new(struct{})) != nil || strings.Contains(svg, "script") {
		t.Errorf("%v: %s", err, svg)
	}
	for _, draw := range []func(string) (string, error){Blocks, SVG} {
		if _, err := draw(strings.Repeat("x", 1025)); err == nil {
			t.Error("a link that is too long is drawn")
		}
	}
}
