package email

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/wlynxg/chardet"
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

const (
	maxGuesses = 32      // of one mail
	maxSample  = 4 << 10 // bytes of a text that a guess looks at
	fewBytes   = 6       // bytes beyond ASCII; fewer are too little for statistics
	likelihood = 0.9     // from which a guess by statistics is taken at once
)

// hint is what is known about a mail's texts without a declared charset. A nil hint
// knows nothing.
type hint struct {
	likely  encoding.Encoding // nil: unknown
	guesses int               // made by statistics so far, which cost a millisecond each
}

// spend reports whether one more guess by statistics may be made.
func (h *hint) spend() bool {
	if h == nil {
		return true
	}
	h.guesses++
	return h.guesses <= maxGuesses
}

// decodeBytes returns a text in UTF-8. label is the charset that the text declares, or empty. No
// text is lost because of its charset: undecodable bytes become U+FFFD, one by one.
func decodeBytes(raw []byte, label string, hint *hint) string {
	declared := lookup(label)
	if declared == nil {
		return undeclared(raw, hint)
	}
	if declared == unicode.UTF8 {
		if good, bad := countUTF8(raw); bad > 0 && good == 0 {
			return undeclared(raw, hint) // nothing in it is UTF-8
		}
		return valid(string(raw))
	}
	text, clean := decodeAs(declared, raw)
	if !clean && utf8.Valid(raw) {
		return string(raw)
	}
	return text
}

// undeclared guesses the charset of a text that declares none.
func undeclared(raw []byte, hint *hint) string {
	good, bad := countUTF8(raw)
	if 4*bad <= good {
		return valid(string(raw))
	}
	// Software that knows no charset often names Windows-1252, in which every byte has a
	// meaning.
	if hint != nil && hint.likely != nil && hint.likely != unicode.UTF8 && hint.likely != charmap.Windows1252 {
		if text, clean := decodeAs(hint.likely, raw); clean {
			return text
		}
	}
	text, _ := decodeAs(guess(raw, hint), raw)
	return text
}

// guess returns the charset that a text is probably in. Possible Chinese counts for more than an
// unsure result of the statistics, because most mail without a declared charset is Chinese, and
// statistics do not recognize short names.
func guess(raw []byte, hint *hint) encoding.Encoding {
	raw = raw[:min(len(raw), maxSample)]
	beyond := 0
	for _, b := range raw {
		if b >= utf8.RuneSelf {
			beyond++
		}
	}
	chinese := likelyChinese(raw)
	var found encoding.Encoding
	var detected chardet.Result
	if beyond >= fewBytes && hint.spend() {
		detected = chardet.Detect(raw)
		if found = lookup(detected.Encoding); found == unicode.UTF8 {
			found = nil
		}
	}
	switch {
	case found != nil && detected.Confidence >= likelihood:
		return found
	case chinese:
		return simplifiedchinese.GB18030
	case found != nil:
		return found
	}
	return charmap.Windows1252
}

// likelyChinese reports whether at least half of the characters beyond ASCII are pairs
// as in GB 2312, with two bytes beyond ASCII. In European texts such bytes mostly stand
// alone, or within a word. The sample may end within a character.
func likelyChinese(raw []byte) bool {
	var pairs, others int
	for i := 0; i < len(raw); i++ {
		switch {
		case raw[i] < utf8.RuneSelf:
		case raw[i] >= 0xa1 && raw[i] <= 0xf7 && i+1 < len(raw) && raw[i+1] >= 0xa1:
			if i++; i > 1 && letter(raw[i-2]) && i+1 < len(raw) && letter(raw[i+1]) {
				others++
			} else {
				pairs++
			}
		case i+1 == maxSample:
		default:
			others++
			if i+1 < len(raw) && raw[i] >= 0x81 && raw[i+1] >= 0x40 {
				i++ // a pair of GBK
			}
		}
	}
	return pairs > 0 && pairs >= others
}

func letter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

// decodeAs decodes a text, and reports whether all of it could be decoded.
func decodeAs(from encoding.Encoding, raw []byte) (text string, clean bool) {
	decoded, err := from.NewDecoder().Bytes(raw)
	if err != nil {
		return valid(string(raw)), false
	}
	text = string(decoded)
	return text, !strings.ContainsRune(text, utf8.RuneError)
}

// countUTF8 returns how many of a text's bytes beyond ASCII are part of UTF-8, and how
// many are not.
func countUTF8(raw []byte) (good, bad int) {
	for len(raw) > 0 {
		c, size := utf8.DecodeRune(raw)
		switch {
		case c == utf8.RuneError && size == 1:
			bad++
		case size > 1:
			good += size
		}
		raw = raw[size:]
	}
	return good, bad
}

// lookup returns the charset of a name, or nil if the name is unknown or only says that
// the charset is unknown. US-ASCII is such a name, because a text with bytes beyond
// ASCII is something else. For GB 2312 and GBK it returns GB 18030, which contains both
// and is often mistaken for them.
func lookup(label string) encoding.Encoding {
	label = strings.ToLower(strings.Trim(label, " \t\"'"))
	label, _, _ = strings.Cut(label, "*") // a language, RFC 2231, section 5
	switch label {
	case "", "us-ascii", "ascii", "ansi_x3.4-1968", "iso-ir-6", "unknown-8bit", "x-unknown", "unknown", "default", "binary":
		return nil
	case "gb2312", "gb_2312-80", "gbk", "gb18030", "gb-18030", "gb18030-2000", "gb18030-2005", "gb18030-2022", "gb2312.1980-0",
		"cp936", "cp-936", "ms936", "windows-936", "x-cp20936", "euc-cn", "x-euc-cn", "x-mac-chinesesimp", "chinese":
		return simplifiedchinese.GB18030
	case "hz", "hz-gb-2312", "hz-gb2312":
		return simplifiedchinese.HZGB2312
	case "cp950", "ms950", "windows-950", "x-windows-950", "x-mac-chinesetrad":
		return traditionalchinese.Big5
	case "cp949", "ms949":
		return korean.EUCKR
	case "cp932", "ms932":
		return japanese.ShiftJIS
	case "utf8", "cp65001", "utf-8-sig":
		return unicode.UTF8
	case "utf-16":
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM) // RFC 2781, section 4.3
	case "utf-32":
		return utf32.UTF32(utf32.BigEndian, utf32.UseBOM)
	case "utf-32be":
		return utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)
	case "utf-32le":
		return utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)
	}
	if m := looseName.FindStringSubmatch(label); m != nil {
		label = "windows-" + m[1]
		if m[2] != "" {
			label = "iso-8859-" + m[2]
		}
	}
	found, _ := htmlindex.Get(label)
	if found == nil || found == encoding.Replacement {
		found, _ = ianaindex.IANA.Encoding(label)
	}
	if found == simplifiedchinese.GBK {
		return simplifiedchinese.GB18030
	}
	return found
}

// looseName matches names of single-byte charsets that no registry has, such as win-1251, cp-1252
// and iso_8859_15.
var looseName = regexp.MustCompile(`^(?:(?:cp|ms|win|windows)[-_]?(125\d|874)|iso[-_]?8859[-_](\d\d?))$`)

// valid returns a text as valid UTF-8. Each wrong byte costs one character.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}
