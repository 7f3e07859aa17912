package moving

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html/charset"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

const (
	// Namespace is that of the attributes which OPML of rounds has beyond the specification: id and
	// cadence.
	Namespace = "https://github.com/rounds-dev/rounds/opml"

	minifluxNamespace = "https://miniflux.app/opml" // internal/reader/opml/opml.go of Miniflux

	maxDepth = 64        // of elements
	maxToken = 256 << 10 // bytes of an element with its attributes, or of a text
)

// readOPML reads OPML leniently, as feed readers do: an unknown entity stays text. encoding/xml
// expands no entities that a document declares.
func readOPML(text []byte) ([]Entry, error) {
	bounded := &tokenReader{in: bytes.NewReader(text)}
	in := xml.NewDecoder(bounded)
	in.Strict, in.Entity = false, xml.HTMLEntity
	in.CharsetReader = func(label string, in io.Reader) (io.Reader, error) {
		if strings.HasPrefix(strings.ToLower(label), "utf-16") {
			return in, nil // it was decoded by its byte order mark
		}
		return charset.NewReaderLabel(label, in)
	}
	var r opmlReader
	depth := 0
	for {
		line, _ := in.InputPos()
		bounded.left = maxToken
		token, err := in.Token()
		switch {
		case errors.Is(err, io.EOF) && r.closed:
			return r.entries, nil
		case errors.Is(err, io.EOF):
			return nil, unreadable("there is no <opml> that ends")
		case errors.Is(err, errToken):
			return nil, unreadable("line %d: an element has more than %d bytes", line, maxToken)
		case err != nil:
			return nil, unreadable("line %d: it is not XML; within an attribute a quote is written &quot;", line)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return nil, unreadable("line %d: elements are nested more than %d deep", line, maxDepth)
			}
			if err := r.start(t, line); err != nil {
				return nil, err
			}
		case xml.EndElement:
			depth--
			r.end(t)
		}
		if len(r.entries) > MaxEntries {
			return nil, errMany
		}
	}
}

// tokenReader is a reader of which only so much may be read for one token.
type tokenReader struct {
	in   *bytes.Reader
	left int
}

var errToken = errors.New("token too long")

// ReadByte reads within the bound.
func (r *tokenReader) ReadByte() (byte, error) {
	if r.left <= 0 {
		return 0, errToken
	}
	r.left--
	return r.in.ReadByte()
}

// Read reads within the bound, for what decodes another encoding.
func (r *tokenReader) Read(p []byte) (int, error) {
	if r.left <= 0 && len(p) > 0 {
		return 0, errToken
	}
	n, err := r.in.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// opmlReader reads the outlines of a document.
type opmlReader struct {
	entries []Entry
	opened  bool
	closed  bool
	folders []string // the names of the open outlines
	comment int      // the depth at which a comment began; 0: none
}

func (r *opmlReader) start(t xml.StartElement, line int) error {
	if !r.opened {
		if t.Name.Local != "opml" {
			return unreadable("line %d: OPML begins with <opml>", line)
		}
		r.opened = true
	}
	if t.Name.Local != "outline" {
		return nil
	}
	o := readOutline(t.Attr)
	folder := joinFolders(r.folders)
	r.folders = append(r.folders, cmp.Or(o.title, o.text))
	if o.comment && r.comment == 0 {
		r.comment = len(r.folders)
	}
	if r.comment > 0 {
		return nil
	}
	if e, ok := o.entry(line, folder); ok {
		r.entries = append(r.entries, e)
	}
	return nil
}

func (r *opmlReader) end(t xml.EndElement) {
	switch {
	case t.Name.Local == "opml":
		r.closed = true
	case t.Name.Local == "outline" && len(r.folders) > 0:
		if r.comment == len(r.folders) {
			r.comment = 0
		}
		r.folders = r.folders[:len(r.folders)-1]
	}
}

// joinFolders returns the label for the outlines around a feed. Those without a name count for
// nothing.
func joinFolders(names []string) string {
	var named []string
	for _, name := range names {
		if name = strings.TrimSpace(name); name != "" {
			named = append(named, name)
		}
	}
	return strings.Join(named, "/")
}

// outline is an outline as it is written.
type outline struct {
	title, text, kind, xmlURL string
	category                  string
	comment, disabled         bool
	id, cadence               string // of rounds
	settings                  []string
}

func readOutline(attributes []xml.Attr) outline {
	var o outline
	for _, a := range attributes {
		switch {
		case a.Name.Space == Namespace && a.Name.Local == "id":
			o.id = a.Value
		case a.Name.Space == Namespace && a.Name.Local == "cadence":
			o.cadence = a.Value
		case a.Name.Space == minifluxNamespace && a.Name.Local == "disabled":
			o.disabled = a.Value == "true"
		case a.Name.Space != "" && a.Name.Space != "xmlns":
			if a.Value != "" && a.Value != "false" {
				o.settings = append(o.settings, a.Name.Local)
			}
		default:
			switch strings.ToLower(a.Name.Local) { // readers differ
			case "title":
				o.title = strings.TrimSpace(a.Value)
			case "text":
				o.text = strings.TrimSpace(a.Value)
			case "type":
				o.kind = strings.TrimSpace(a.Value)
			case "xmlurl":
				o.xmlURL = strings.TrimSpace(a.Value)
			case "category":
				o.category = a.Value
			case "iscomment":
				o.comment = a.Value == "true"
			}
		}
	}
	return o
}

// entry returns the entry of an outline that is no mere folder.
func (o *outline) entry(line int, folder string) (Entry, bool) {
	e := Entry{Line: line}
	switch kind := strings.ToLower(o.kind); {
	case kind == "link" || kind == "include":
		e.Faults.Add("type", "is another list, which is not fetched: import that one too")
		return e, true
	case o.xmlURL == "" && kind == "rss":
		e.Faults.Add("xmlUrl", "is missing")
		return e, true
	case o.xmlURL == "":
		return e, false
	case strings.ContainsAny(kind, "+"): // such as HTML+XPath of FreshRSS
		e.Faults.Add("type", "is a page that the other program scrapes, and no feed; a connector can do that")
		return e, true
	}
	if folder == "" {
		// Categories of OPML 2.0: slashed paths with commas between them. The first one counts.
		first, _, _ := strings.Cut(o.category, ",")
		folder = strings.Trim(strings.TrimSpace(first), "/")
	}
	title := cmp.Or(o.title, o.text)
	if o.id != "" {
		title = o.title // the text of what has no title is its id
	}
	f := feed{url: o.xmlURL, title: title, folder: folder}
	e = f.entry(line)
	if e.Faults != nil {
		e.Faults[0].Field = "xmlUrl"
		return e, true
	}
	if o.id != "" {
		e.Account.ID = o.id
	}
	e.Account.Cadence, e.Paused = o.cadence, o.disabled
	slices.Sort(o.settings)
	for _, name := range slices.Compact(o.settings) {
		e.left(name)
	}
	return e, true
}

// left notes that a setting has no counterpart.
func (e *Entry) left(field string) { e.Left.Add(field, "has no counterpart") }

// seconds returns the cadence for an interval.
func seconds(n int64) (string, error) {
	c, err := cadence.Parse(fmt.Sprintf("every %ds", n))
	if err != nil {
		return "", err
	}
	return c.String(), nil
}
