package email

import (
	"slices"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// Every charset that x/text knows is found by each of the names that x/text gives it.
func TestEveryCharset(t *testing.T) {
	all := slices.Concat(charmap.All, japanese.All, korean.All, simplifiedchinese.All, traditionalchinese.All, unicode.All, utf32.All)
	tried := 0
	for _, e := range all {
		for _, nameOf := range []func(encoding.Encoding) (string, error){htmlindex.Name, ianaindex.IANA.Name, ianaindex.MIME.Name} {
			name, err := nameOf(e)
			if err != nil || name == "" {
				continue
			}
			tried++
			if lookup(name) == nil && name != "US-ASCII" {
				t.Errorf("%v: not found as %s", e, name)
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d names", tried)
	}
}

// Names that are in no registry, and that mail has all the same.
func TestNamesOfCharsets(t *testing.T) {
	for name, want := range map[string]encoding.Encoding{
		"win-1251": charmap.Windows1251, "cp-1252": charmap.Windows1252, "windows_1250": charmap.Windows1250, "cp874": charmap.Windows874,
		"iso_8859_15": charmap.ISO8859_15, "ISO8859-2": charmap.ISO8859_2, "latin1": charmap.Windows1252, "koi8-r": charmap.KOI8R, "cp866": charmap.CodePage866,
		"win-1399": nil, "iso-8859-12": nil, "utf-7": nil,
	} {
		if got := lookup(name); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	for name, raw := range map[string]string{"UTF-32": "\x00\x00\x4f\x60", "utf-32le": "\x60\x4f\x00\x00", "utf-16": "\xff\xfe\x60\x4f"} {
		if got := decodeBytes([]byte(raw), name, nil); got != "你" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
