package hostile

import (
	"bytes"
	"strings"
)

const (
	rssOpen  = `<rss version="2.0"><channel>`
	rssClose = `</channel></rss>`
	atomOpen = `<feed xmlns="http://www.w3.org/2005/Atom">`
	baseOpen = `<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://x/">`
)

// xmlBodies are for readers of RSS, RDF and Atom.
func xmlBodies() []Body {
	in := func(name, before, part, after string) Body { return Body{name, "feed", repeat(before, part, after)} }
	of := func(name, before, part, after string) Body { return Body{name, "feed", count(before, part, after)} }
	return []Body{
		in("rss: empty items", rssOpen, "<item/>", rssClose),
		in("rss: elements in an item", rssOpen+"<item>", "<b/>", "</item>"+rssClose),
		of("rss: custom elements", rssOpen+"<item>", "<b#/>", "</item>"+rssClose),
		in("rss: foreign elements", rssOpen+`<item xmlns:a="a">`, "<a:b/>", "</item>"+rssClose),
		of("rss: foreign elements that differ", rssOpen+`<item xmlns:a="a">`, "<a:b#/>", "</item>"+rssClose),
		in("rss: categories", rssOpen+"<item>", "<category/>", "</item>"+rssClose),
		in("rss: links", rssOpen+"<item>", "<link/>", "</item>"+rssClose),
		of("rss: attributes", rssOpen+"<item ", "a# ", "/>"+rssClose),
		of("rss: attributes that have values", rssOpen+"<item ", `a#=""`, "/>"+rssClose),
		of("rss: foreign attributes", rssOpen+`<x:a xmlns:x="x" `, "a# ", "/>"+rssClose),
		in("rss: attributes of many elements", rssOpen+`<x:a xmlns:x="x">`, "<x:b a b c d e f g/>", "</x:a>"+rssClose),
		in("rss: images in content", rssOpen+"<item><description><![CDATA[", "<b>", "]]></description></item>"+rssClose),
		in("rss: many short contents", rssOpen, "<item><description>&lt;b></description></item>", rssClose),
		of("rss: namespaces", rssOpen+"<item ", `xmlns:a#="b" `, "/>"+rssClose),
		{"rss: namespaces in scope", "feed", scoped},
		in("rss: text in pieces", rssOpen+`<x:a xmlns:x="x">`, "<b/>x", "</x:a>"+rssClose),
		in("rss: CDATA in pieces", rssOpen+"<item><title>", "<![CDATA[]]>", "</title></item>"+rssClose),
		in("rss: entities", rssOpen+"<item><title>", "&amp;", "</title></item>"+rssClose),
		in("rss: dates", rssOpen, "<item><pubDate>Sun, 06 Nov 94 08:49:37 ABC</pubDate></item>", rssClose),
		in("rss: a long author", rssOpen+"<item><author>", "a@ (", "</author></item>"+rssClose),
		in("rss: comments", rssOpen, "<!---->", rssClose),
		in("rss: declarations", `<?xml version="1.0"?>`, `<?xml encoding="latin1"?>`, rssOpen+rssClose),
		in("rss: declarations inside", rssOpen, `<?xml encoding="latin1"?>`, rssClose),
		in("rss: Latin-1 that grows", `<?xml version="1.0" encoding="windows-1252"?>`+rssOpen+"<item><title>", "\x80", "</title></item>"+rssClose),
		{"rss: depth", "feed", nested(rssOpen)},
		{"rss: depth behind a control byte", "feed", nested(rssOpen + "\x01")},
		{"rss: depth in a hidden root", "feed", nested("<rss \x01version='2.0'>\x01<channel>")},
		in("atom: foreign depth behind a control byte", "<feed xmlns='x'>\x01", "<b>", ""),
		{"rss: depth behind a stray end", "feed", nested(rssOpen + "</nothing>")},
		in("rss: a doctype", "<!DOCTYPE rss [", "<!ENTITY a 'b'>", "]>"+rssOpen+rssClose),
		in("rdf: items", `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">`, "<item/>", "</rdf:RDF>"),
		in("atom: empty entries", atomOpen, "<entry/>", "</feed>"),
		in("atom: links", atomOpen+"<entry>", "<link/>", "</entry></feed>"),
		in("atom: links under a base", baseOpen+"<entry>", "<link href='a'/>", "</entry></feed>"),
		in("atom: authors", atomOpen+"<entry>", "<author/>", "</entry></feed>"),
		in("atom: sources", atomOpen+"<entry>", "<source/>", "</entry></feed>"),
		in("atom: HTML under a base", baseOpen+"<entry><content type='html'><![CDATA[", "<b>", "]]></content></entry></feed>"),
		in("atom: escaped HTML under a base", baseOpen+"<entry><content type='html'>", "&lt;b>", "</content></entry></feed>"),
		of("atom: formatting under a base", baseOpen+"<entry><content type='html'><![CDATA[", "<b a=#><p>", "]]></content></entry></feed>"),
		in("atom: misnested HTML under a base", baseOpen+"<entry><content type='html'><![CDATA["+strings.Repeat("<div>", 400), "<a><p></a>", "]]></content></entry></feed>"),
		in("atom: HTML in a comment", atomOpen+"<entry><content type='xhtml'><!-->", "<b>", "--></content></entry></feed>"),
		in("atom: HTML in an instruction", atomOpen+"<entry><content type='xhtml'><?x >", "<b>", "?></content></entry></feed>"),
		in("atom: XHTML", atomOpen+"<entry><content type='xhtml'>", "<b/>", "</content></entry></feed>"),
		in("atom: many contents under a base", baseOpen, "<entry><content type='html'>&lt;b></content></entry>", "</feed>"),
		in("atom: bases", atomOpen, "<entry xml:base='a/'/>", "</feed>"),
		in("page: HTML", "<!DOCTYPE html><html><body>", "<p>x</p>", "</body></html>"),
	}
}

// jsonFeedBodies are for readers of JSON Feed.
func jsonFeedBodies() []Body {
	const open = `{"version":"https://jsonfeed.org/version/1.1","items":[`
	return []Body{
		{"json: empty items", "feed", repeat(open+"{}", ",{}", "]}")},
		{"json: tags", "feed", repeat(open+`{"tags":[""`, `,""`, "]}]}")},
		{"json: authors", "feed", repeat(open+`{"authors":[{}`, `,{}`, "]}]}")},
		{"json: attachments", "feed", repeat(open+`{"attachments":[{}`, `,{}`, "]}]}")},
		{"json: authors of the feed", "feed", repeat(`{"version":"https://jsonfeed.org/version/1.1","authors":[{}`, `,{}`, "]}")},
		{"json: items again and again", "feed", repeat(open+"]", `,"items":[{}]`, "}")},
		{"json: depth", "feed", deep(open+`{"_x":`, "[", "]", "}]}", 9000)},
		{"json: depth beyond any decoder", "feed", repeat(open, "[", "")},
		{"json: an object for an id", "feed", repeat(open+`{"id":[0`, ",0", "]}]}")},
		{"json: a long text", "feed", repeat(open+`{"content_text":"`, `\u2028`, `"}]}`)},
	}
}

// nested opens elements and never closes one.
func nested(before string) func(int) []byte {
	return func(size int) []byte {
		return []byte(before + "<item>" + strings.Repeat("<b>", max(0, size-len(before)-6)/3))
	}
}

// scoped declares a thousand namespaces and uses one again and again.
func scoped(size int) []byte {
	declare := count("<item ", `xmlns:a#="b" `, "")(min(16<<10, size/4))
	var out bytes.Buffer
	out.WriteString(rssOpen)
	out.Write(declare)
	out.WriteString(">")
	after := "</item>" + rssClose
	for out.Len()+len(after)+7 < size {
		out.WriteString("<a0:b/>")
	}
	out.WriteString(after)
	return out.Bytes()
}
