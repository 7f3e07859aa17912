package feed

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
)

// A mark, the answer's header or the declaration names the encoding of a feed, and not always the
// right one.
func TestEncodings(t *testing.T) {
	wide := func(order binary.AppendByteOrder, mark bool, text string) string {
		var out []byte
		if mark {
			out = order.AppendUint16(out, 0xFEFF)
		}
		for _, unit := range utf16.Encode([]rune(text)) {
			out = order.AppendUint16(out, unit)
		}
		return string(out)
	}
	const declared, gbk = `<?xml version="1.0" encoding="utf-16"?>`, "<guid>\xd6\xd0\xce\xc4</guid>"
	for name, c := range map[string]struct{ body, header, want string }{
		"UTF-8":                               {rss("<guid>\u4e2d\u6587</guid>"), "", "\u4e2d\u6587"},
		"UTF-8 with a mark":                   {"\xef\xbb\xbf" + rss("<guid>\u4e2d\u6587</guid>"), "text/xml; charset=gbk", "\u4e2d\u6587"},
		"UTF-16, little":                      {wide(binary.LittleEndian, true, declared+rss("<guid>\u4e2d\u6587</guid>")), "", "\u4e2d\u6587"},
		"UTF-16, big":                         {wide(binary.BigEndian, true, declared+rss("<guid>\u4e2d\u6587</guid>")), "", "\u4e2d\u6587"},
		"UTF-16, no mark":                     {wide(binary.LittleEndian, false, declared+rss("<guid>\u4e2d\u6587</guid>")), "", "\u4e2d\u6587"},
		"UTF-16, no mark, big":                {wide(binary.BigEndian, false, declared+rss("<guid>\u4e2d\u6587</guid>")), "", "\u4e2d\u6587"},
		"UTF-16 that is none":                 {declared + rss("<guid>\u4e2d\u6587</guid>"), "", "\u4e2d\u6587"},
		"the header":                          {rss(gbk), "text/xml; charset=GBK", "\u4e2d\u6587"},
		"the header, in quotes":               {rss(gbk), `application/rss+xml; charset="gb2312"`, "\u4e2d\u6587"},
		"the declaration":                     {`<?xml version="1.0" encoding="GB18030"?>` + rss(gbk), "", "\u4e2d\u6587"},
		"the header before that":              {`<?xml version="1.0" encoding="iso-8859-1"?>` + rss(gbk), "text/xml; charset=gbk", "\u4e2d\u6587"},
		"a header that is wrong":              {rss("<guid>\u4e2d\u6587</guid>"), "text/xml; charset=iso-8859-1", "\u4e2d\u6587"},
		"a header of UTF-8 that is wrong":     {`<?xml version="1.0" encoding="gbk"?>` + rss("<title>\xd6\xd0</title><guid>\xd6\xd0</guid>", "<guid>\xce\xc4</guid>"), "text/xml; charset=utf-8", "\u4e2d \u6587"},
		"a header that is unknown":            {`<?xml version="1.0" encoding="gbk"?>` + rss(gbk), "text/xml; charset=martian", "\u4e2d\u6587"},
		"a header that is malformed":          {rss(gbk), "text/xml; charset=gbk;;x", "\u4e2d\u6587"},
		"ASCII that is declared as something": {`<?xml version="1.0" encoding="unicode"?>` + rss("<guid>1</guid>"), "text/xml; charset=hz-gb-2312", "1"},
		"an unknown encoding":                 {`<?xml version="1.0" encoding="martian"?>` + rss("<guid>m</guid>"), "", "m"},
		"XML 1.1":                             {`<?xml version="1.1" encoding="UTF-8"?>` + rss("<guid>1</guid>"), "", "1"},
		"XML 1.1, no encoding":                {`<?xml version='1.1'?>` + rss("<guid>1</guid>"), "", "1"},
		"text before it":                      {"warning: mysql is away\n<?xml version=\"1.0\"?>" + rss("<guid>1</guid>"), "", "1"},
		"blank lines before it":               {"\n \n<?xml version=\"1.0\" encoding=\"windows-1251\"?>" + rss("<guid>\xcf\xf0</guid>"), "", "\u041f\u0440"},
		"a bad byte":                          {rss("<guid>1</guid><title>a\xffb \u4e2d</title>", "<guid>2</guid>"), "", "1 2"},
		"no encoding is said":                 {rss("<guid>caf\xe9</guid>"), "", "caf\u00e9"},
		"a reference to no character":         {rss("<guid>1</guid><title>a&#x1F;&#0;b</title>", "<guid>2</guid>"), "", "1 2"},
		"a character that is none":            {rss("<guid>1</guid><title>a\uffffb</title>", "<guid>2</guid>"), "", "1 2"},
		"a reference to a good one":           {rss("<guid>&#x4e2d;&#25991;</guid>"), "", "\u4e2d\u6587"},
		"the end of UTF-16 is missing":        {strings.TrimSuffix(wide(binary.LittleEndian, true, rss("<guid>1</guid>")+"x"), "\x00"), "", "1"},
	} {
		read, err := parse(t.Context(), []byte(c.body), c.header, free)
		var ids []string
		for _, i := range read.items {
			ids = append([]string{i.id}, ids...)
		}
		if got := strings.Join(ids, " "); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
		if bad := strings.Contains(name, "bad byte") || strings.Contains(name, "no character") || strings.Contains(name, "that is none") && name != "UTF-16 that is none"; bad != (read.flaw.line > 0) || read.flaw.lossy {
			t.Errorf("%s: the flaw is %+v", name, read.flaw)
		}
	}
}

// A prepared text is never longer than convert allows. Preparing it twice changes nothing more.
func TestLegal(t *testing.T) {
	for given, want := range map[string]string{
		"": "", "a&#31;b": "ab", "a&#x1f;": "a", "&#38;": "&#38;", "&#xD800;": "", "&#1114112;": "", "&#;": "&#;", "&#12": "&#12", "&#x;": "&#x;",
		"\xff\xfe": "\uFFFD\uFFFD", "\xed\xa0\x80": "\uFFFD\uFFFD\uFFFD", "\uFFFE": "\uFFFD", "&&#1;#1;": "&#1;",
	} {
		got, _ := legal([]byte(given))
		if string(got) != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
	if text, line := legal([]byte("a\nb\n&#1;")); line != 3 || !bytes.Equal(text, []byte("a\nb\n")) {
		t.Errorf("%q, line %d", text, line)
	}
}
