package feed

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// These limits ensure that no answer costs the parser much more memory or time than its
// length suggests. Real feeds stay far below all of them.
const (
	maxDepth      = 512     // of nested elements; the parser recurses, and a stack overflow is fatal
	maxElements   = 200_000 // the parser needs some 200 bytes for each
	maxListed     = 10_000  // items and entries, of some KiB each
	maxAttributes = 200_000
	maxTokens     = 1 << 20
	maxDates      = 2*maxListed + 100 // the parser tries each in 180 formats
	maxDate       = 4 << 10           // bytes

	maxScope     = 256       // namespaces in scope; the parser copies all of them for each element
	maxScopeCost = 4 << 20   // such copies in all
	maxJoined    = 256 << 20 // bytes that are copied to join mixed text piece by piece
	maxBaseCost  = 64 << 20  // bytes of xml:base, counted once for each text that it may resolve

	// HTML is parsed where xml:base resolves it and where it is XHTML, even inside
	// comments and instructions.
	maxHidden = 20_000  // tags in comments and instructions
	maxMarkup = 100_000 // tags and entities of text under an xml:base
)

// textCost is how many bytes of memory the parser needs for a byte of text. It holds
// several copies at once.
const textCost = 8

const (
	xmlSpace = "http://www.w3.org/XML/1998/namespace"
	rdfSpace = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
)

// The reasons why a feed is too costly to parse.
var (
	errDepth      = errors.New("elements are nested too deeply")
	errElements   = errors.New("too many elements")
	errAttributes = errors.New("too many attributes")
	errDates      = errors.New("too many dates, or too long ones")
	errNamespaces = errors.New("too many namespaces are declared")
	errText       = errors.New("text is broken into too many pieces")
	errBase       = errors.New("too much depends on xml:base")
	errMarkup     = errors.New("too much markup in its text")
	errListed     = errors.New("too many items")
)

var (
	errXML  = errors.New("feed: broken XML")
	errRoot = errors.New("feed: neither RSS nor Atom")
)

// guard reads a document as the parser will, and refuses one that would cost too much.
// It also stops at the first error, because the parser might go on there and must not
// see text that guard did not judge. It returns the document up to the end of its root,
// and the counts. The error for broken XML is a *brokenXML, and the counts so far are
// returned with it.
//
// The parser accepts much that is not XML. So does guard unless it is strict. All
// parsers agree on a document that a strict guard accepts.
func guard(ctx context.Context, text []byte, strict bool) ([]byte, *ledger, error) {
	from := &source{ctx: ctx, text: text}
	decoder := xml.NewDecoder(from)
	decoder.Strict = strict
	decoder.CharsetReader = func(string, io.Reader) (io.Reader, error) { return nil, errDeclared }
	l := &ledger{}
	for {
		l.at = int(decoder.InputOffset())
		from.next(decoder.InputOffset())
		token, err := decoder.Token()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case errors.Is(err, errAttributes):
			return nil, nil, errAttributes
		case errors.Is(err, errDeclared):
			return nil, nil, errDeclared
		default: // also at the end of the text, where the root is still open
			line, _ := decoder.InputPos()
			return nil, l, &brokenXML{at: l.at, line: line}
		}
		if err := l.enter(token, int(decoder.InputOffset())); err != nil {
			return nil, nil, err
		}
		if l.elements > 0 && len(l.open) == 0 {
			return text[:decoder.InputOffset()], l, nil
		}
	}
}

// ledger has the counts of guard.
type ledger struct {
	open []element
	at   int // where the current token begins
	list int // how many elements are open around an item; 0: there was none

	abouts []string // the attributes rdf:about of the items, if the root is RDF's

	tokens, elements, attributes, listed, dates int
	joined, scopeCost, baseCost                 int64
	rdf                                         bool
	hidden, markup                              int
}

// element is an open element.
type element struct {
	tag   int // where its start tag begins
	item  bool
	start int // where its content begins
	text  int // bytes of text so far
	scope int // namespaces in scope
	base  int // bytes of xml:base in scope
	date  bool
}

// top returns the innermost open element.
func (l *ledger) top() element {
	if len(l.open) == 0 {
		return element{}
	}
	return l.open[len(l.open)-1]
}

// enter counts a token that ends at the offset at.
func (l *ledger) enter(token xml.Token, at int) error {
	l.tokens++
	switch token := token.(type) {
	case xml.StartElement:
		if err := l.begin(token, at); err != nil {
			return err
		}
	case xml.EndElement:
		if e := l.top(); e.date && at-e.start > maxDate {
			return errDates
		}
		l.open = l.open[:max(0, len(l.open)-1)]
	case xml.CharData:
		l.characters(token)
	case xml.Comment:
		l.hidden += bytes.Count(token, []byte("<"))
	case xml.ProcInst:
		l.hidden += bytes.Count(token.Inst, []byte("<"))
	case xml.Directive:
		l.hidden += bytes.Count(token, []byte("<"))
	}
	return l.verdict()
}

// begin counts a start tag that ends at the offset at, and opens its element.
func (l *ledger) begin(start xml.StartElement, at int) error {
	name := strings.ToLower(start.Name.Local)
	if l.elements == 0 && name != "rss" && name != "rdf" && name != "feed" {
		return errRoot
	}
	l.rdf = l.rdf || l.elements == 0 && name == "rdf"
	l.elements++
	l.attributes += len(start.Attr)
	e := element{tag: l.at, start: at, scope: l.top().scope, base: l.top().base}
	for _, attr := range start.Attr {
		switch {
		case attr.Name.Space == "xmlns" || attr.Name.Local == "xmlns":
			e.scope++
		case attr.Name.Space == xmlSpace && attr.Name.Local == "base":
			e.base += len(attr.Value) + 1
		}
	}
	switch name {
	case "item", "entry":
		l.listed++
		if l.rdf {
			l.abouts = append(l.abouts, aboutOf(start))
		}
		e.item = true
		if l.list == 0 {
			l.list = len(l.open)
		}
	case "pubdate", "lastbuilddate", "updated", "modified", "published", "issued", "date":
		l.dates++
		e.date = true
	}
	l.scopeCost += int64(e.scope)
	l.baseCost += int64(e.base) * int64(1+len(start.Attr))
	l.open = append(l.open, e)
	if e.scope > maxScope {
		return errNamespaces
	}
	return nil
}

// aboutOf returns the attribute rdf:about of an element, or "".
func aboutOf(start xml.StartElement) string {
	for _, attr := range start.Attr {
		if attr.Name.Local == "about" && attr.Name.Space == rdfSpace {
			return attr.Value
		}
	}
	return ""
}

// characters counts text, which the parser joins piece by piece.
func (l *ledger) characters(text xml.CharData) {
	if len(l.open) == 0 {
		return
	}
	e := &l.open[len(l.open)-1]
	l.joined += int64(e.text)
	e.text += len(text)
	if e.base > 0 {
		marks := bytes.Count(text, []byte("<")) + bytes.Count(text, []byte("&"))
		l.markup += marks
		l.baseCost += int64(e.base) * int64(marks)
	}
}

// cost returns roughly how many bytes of memory the parser needs for what was counted,
// without the text. The factors were measured and rounded up.
func (l *ledger) cost() int64 {
	return 400*int64(l.elements) + 150*int64(l.attributes) + 800*int64(l.listed) + 250*int64(l.markup+l.hidden) + l.scopeCost
}

// verdict returns the first reason why the document is too costly, or nil.
func (l *ledger) verdict() error {
	switch {
	case len(l.open) > maxDepth:
		return errDepth
	case l.elements > maxElements || l.tokens > maxTokens:
		return errElements
	case l.listed > maxListed:
		return errListed
	case l.attributes > maxAttributes:
		return errAttributes
	case l.dates > maxDates:
		return errDates
	case l.scopeCost > maxScopeCost:
		return errNamespaces
	case l.joined > maxJoined:
		return errText
	case l.baseCost > maxBaseCost:
		return errBase
	case l.hidden > maxHidden || l.markup > maxMarkup:
		return errMarkup
	}
	return nil
}

// jsonLimits are the limits of a JSON Feed as a whole. listLimits are those of its
// top-level arrays, one of which holds the items.
var (
	jsonLimits = strict.Limits{Depth: 64, Values: maxElements, Within: 64}
	listLimits = strict.Limits{Depth: 64, Values: maxListed + 1000, Within: 2}
)

// guardJSON refuses a JSON Feed that would cost the parser too much. It returns
// roughly how many bytes of memory the parser will need.
func guardJSON(body []byte) (int64, error) {
	listed, err := listLimits.Check(body)
	if err != nil {
		return 0, err
	}
	values, err := jsonLimits.Check(body)
	if err != nil {
		return 0, err
	}
	return textCost*int64(len(body)) + 1200*int64(listed) + 250*int64(values), nil
}

const (
	// A start tag longer than longTag is watched while it is read, because all its
	// attributes are in memory before the first is seen. A picture in an attribute makes a
	// tag long too, but has few marks.
	longTag      = 32 << 10
	longTagMarks = 8 << 10 // bytes that are = or white space, beyond longTag

	stopEvery = 4 << 10 // bytes after which the context is checked again
)

// source feeds a text to a parser until ctx is done. Nothing else can stop a parser.
type source struct {
	ctx  context.Context
	text []byte
	at   int

	token int // where the current token begins; see ReadByte
	marks int // marks in its part beyond longTag
}

// Read is for the parser, which reads a few KiB at a time.
func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	if s.at == len(s.text) {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), stopEvery)], s.text[s.at:])
	s.at += n
	return n, nil
}

// ReadByte is for guard, whose decoder reads no byte after the token that it returns.
func (s *source) ReadByte() (byte, error) {
	if s.at%stopEvery == 0 {
		if err := s.ctx.Err(); err != nil {
			return 0, err
		}
	}
	if s.at == len(s.text) {
		return 0, io.EOF
	}
	char := s.text[s.at]
	s.at++
	if s.at-s.token > longTag && (char == '=' || char == ' ' || char == '\t' || char == '\n' || char == '\r') && s.inTag() {
		if s.marks++; s.marks > longTagMarks {
			return 0, errAttributes
		}
	}
	return char, nil
}

// next notes that another token begins at an offset.
func (s *source) next(at int64) { s.token, s.marks = int(at), 0 }

// inTag reports whether the current token is a start tag.
func (s *source) inTag() bool {
	if s.text[s.token] != '<' || s.token+1 == len(s.text) {
		return false
	}
	second := s.text[s.token+1]
	return second != '!' && second != '?' && second != '/'
}
