package guide

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
)

// maxHits is the most sections that a search shows.
const maxHits = 30

// A hit is a section that a search found.
type hit struct {
	Page, PageTitle, Section, Anchor string
	Excerpt                          string
}

// search returns the sections that have all words of a query, in any case. Sections with
// a word in their heading come first.
func search(pages []*page, query string) []hit {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil
	}
	var first, others []hit
	for _, p := range pages {
		for _, s := range p.sections {
			title, body := strings.ToLower(s.title), strings.ToLower(s.text)
			missing := slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(body, w) && !strings.Contains(title, w) })
			if missing {
				continue
			}
			h := hit{Page: p.Name, PageTitle: p.Title, Section: s.title, Anchor: s.anchor, Excerpt: excerpt(s.text, words[0])}
			if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(title, w) }) {
				first = append(first, h)
			} else {
				others = append(others, h)
			}
		}
	}
	found := append(first, others...)
	return found[:min(len(found), maxHits)]
}

// excerpt returns the part of a text around a word.
func excerpt(text, word string) string {
	const before, length = 60, 180
	at := max(0, strings.Index(strings.ToLower(text), word)-before)
	end := min(len(text), at+length)
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end++
	}
	cut := text[min(at, end):end]
	if at > 0 {
		cut = "… " + cut
	}
	if end < len(text) {
		cut += " …"
	}
	return cut
}

// sectionsOf returns a document's sections, one for each heading, with their plain text.
func sectionsOf(document ast.Node, source []byte) []section {
	var sections []section
	var plain strings.Builder
	end := func() {
		if len(sections) > 0 {
			sections[len(sections)-1].text = strings.Join(strings.Fields(plain.String()), " ")
		}
		plain.Reset()
	}
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		heading, ok := n.(*ast.Heading)
		if !ok {
			writePlain(&plain, n, source)
			continue
		}
		end()
		var title strings.Builder
		writePlain(&title, heading, source)
		anchor := ""
		if id, ok := heading.AttributeString("id"); ok {
			anchor = string(id.([]byte))
		}
		sections = append(sections, section{title: strings.TrimSpace(title.String()), anchor: anchor})
	}
	end()
	return sections
}

// writePlain writes a node's text without its markup.
func writePlain(to *strings.Builder, n ast.Node, source []byte) {
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock {
				to.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			to.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				to.WriteByte(' ')
			}
		case *ast.FencedCodeBlock:
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				to.Write(line.Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
}
