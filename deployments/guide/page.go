package guide

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

//go:embed *.md zh-CN/*.md
var sources embed.FS

// home is the address of the repository's files that are not pages.
const home = "https://github.com/rounds-dev/rounds/blob/main/"

// A page is one rendered file.
type page struct {
	Name     string // "accounts", "zh-CN/accounts"; "" and "zh-CN" for the README
	Title    string // its first heading
	Language string // "en", "zh-CN"
	Body     template.HTML
	sections []section
}

// A section is a heading with the text below it.
type section struct {
	title, anchor, text string
}

// readPages renders all pages, with links that begin with prefix.
func readPages(files fs.FS, prefix string) (map[string]*page, error) {
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		return nil, err
	}
	chinese, err := fs.Glob(files, "zh-CN/*.md")
	if err != nil {
		return nil, err
	}
	pages := make(map[string]*page)
	for _, file := range append(names, chinese...) {
		source, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		p, err := render(source, file, prefix)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		pages[p.Name] = p
	}
	return pages, nil
}

// pageName returns the name of a file's page.
func pageName(file string) string {
	name := strings.TrimSuffix(file, ".md")
	if path.Base(name) == "README" {
		return strings.TrimPrefix(path.Dir(name), ".")
	}
	return name
}

// origin matches the first line of a translation, which tells from which text of the original it was made.
var origin = regexp.MustCompile(`^<!-- translated from [0-9a-f]+ -->\n`)

func render(source []byte, file, prefix string) (*page, error) {
	source = origin.ReplaceAll(source, nil)
	md := goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough),
		goldmark.WithParserOptions(parser.WithAutoHeadingID(), parser.WithASTTransformers(util.Prioritized(links{file, prefix}, 500), util.Prioritized(rows{}, 501))),
		goldmark.WithRendererOptions(html.WithUnsafe()), // our own text, with anchors
	)
	document := md.Parser().Parse(text.NewReader(source))
	p := &page{Name: pageName(file), Language: "en"}
	if strings.HasPrefix(file, "zh-CN/") {
		p.Language = "zh-CN"
	}
	p.sections = sectionsOf(document, source)
	if len(p.sections) == 0 {
		return nil, fmt.Errorf("has no heading")
	}
	p.Title = p.sections[0].title
	var body bytes.Buffer
	if err := md.Renderer().Render(&body, source, document); err != nil {
		return nil, err
	}
	// What scrolls must be reachable by keyboard, which not every browser sees to.
	p.Body = template.HTML(strings.ReplaceAll(body.String(), "<pre>", `<pre tabindex="0">`))
	return p, nil
}

// links changes links to pages into links to the handler's paths, and gives headings the anchors
// that they name.
type links struct{ file, prefix string }

// headingAnchor matches the tag at the beginning of a heading that has no anchor of its own words, such as
// a Chinese one.
var headingAnchor = regexp.MustCompile(`^<a id="([a-z0-9-]+)">$`)

func (l links) Transform(document *ast.Document, reader text.Reader, _ parser.Context) {
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination = []byte(l.target(string(n.Destination)))
		case *ast.Image:
			n.Destination = []byte(l.target(string(n.Destination)))
		case *ast.Heading:
			tag, ok := n.FirstChild().(*ast.RawHTML)
			if !ok {
				break
			}
			named := headingAnchor.FindSubmatch(tag.Segments.Value(reader.Source()))
			end, ok := tag.NextSibling().(*ast.RawHTML) // </a>
			if named == nil || !ok {
				break
			}
			n.SetAttributeString("id", named[1])
			n.RemoveChild(n, end)
			n.RemoveChild(n, tag)
		}
		return ast.WalkContinue, nil
	})
}

// rows gives the rows of the table of settings anchors: the names of the variables.
type rows struct{}

// variable matches the name of a setting, and nothing else.
var variable = regexp.MustCompile(`^ROUNDS(_[A-Z0-9]+)+$`)

func (rows) Transform(document *ast.Document, reader text.Reader, _ parser.Context) {
	named := make(map[string]bool)
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		row, ok := n.(*tables.TableRow)
		if !entering || !ok || row.FirstChild() == nil || row.FirstChild().ChildCount() != 1 {
			return ast.WalkContinue, nil
		}
		code, ok := row.FirstChild().FirstChild().(*ast.CodeSpan)
		if !ok || code.FirstChild() == nil {
			return ast.WalkContinue, nil
		}
		if t, ok := code.FirstChild().(*ast.Text); ok {
			if name := t.Segment.Value(reader.Source()); variable.Match(name) && !named[string(name)] {
				named[string(name)] = true
				row.SetAttributeString("id", name)
			}
		}
		return ast.WalkContinue, nil
	})
}

func (l links) target(to string) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "#") || strings.HasPrefix(to, "/") {
		return to
	}
	to, anchor, has := strings.Cut(to, "#")
	if has {
		anchor = "#" + anchor
	}
	file := path.Join(path.Dir(l.file), to)
	if strings.HasSuffix(file, ".md") && !strings.HasPrefix(file, "../") {
		return path.Join(l.prefix, pageName(file)) + anchor
	}
	if _, err := fs.Stat(pictures, file); err == nil || file == "connector.schema.json" {
		return path.Join(l.prefix, file)
	}
	return home + path.Join("deployments/guide", path.Dir(l.file), to) + anchor
}
