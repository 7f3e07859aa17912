package moving

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"slices"
	"strings"
)

// Outline is a feed as OPML lists it.
type Outline struct {
	ID, URL       string
	Title, Folder string // labels; may be empty
	Cadence       string // may be empty
}

// foldersDeep is how deep folders are nested when they are written. Slashes below that stay in the
// last one's name.
const foldersDeep = maxDepth / 2

// path returns the folders around a feed.
func (o Outline) path() []string {
	if folder := joinFolders(strings.Split(o.Folder, "/")); folder != "" {
		return strings.SplitN(folder, "/", foldersDeep)
	}
	return nil
}

// WriteOPML returns feeds as OPML 2.0, in folders, in the order of folders and titles.
func WriteOPML(feeds []Outline) []byte {
	slices.SortFunc(feeds, func(a, b Outline) int {
		return cmp.Or(slices.Compare(a.path(), b.path()), strings.Compare(a.Title, b.Title), strings.Compare(a.ID, b.ID))
	})
	var out bytes.Buffer
	out.WriteString(xml.Header)
	out.WriteString(`<opml version="2.0" xmlns:rounds="` + Namespace + `">` + "\n<head><title>rounds</title></head>\n<body>\n")
	var open []string
	for _, f := range feeds {
		within := f.path()
		same := 0
		for same < len(open) && same < len(within) && open[same] == within[same] {
			same++
		}
		for ; len(open) > same; open = open[:len(open)-1] {
			out.WriteString("</outline>\n")
		}
		for _, name := range within[same:] {
			out.WriteString("<outline")
			writeAttribute(&out, "text", name)
			out.WriteString(">\n")
			open = append(open, name)
		}
		out.WriteString(`<outline type="rss"`)
		writeAttribute(&out, "text", cmp.Or(f.Title, f.ID)) // the specification requires a text
		if f.Title != "" {
			writeAttribute(&out, "title", f.Title)
		}
		writeAttribute(&out, "xmlUrl", f.URL)
		writeAttribute(&out, "rounds:id", f.ID)
		if f.Cadence != "" {
			writeAttribute(&out, "rounds:cadence", f.Cadence)
		}
		out.WriteString("/>\n")
	}
	for range open {
		out.WriteString("</outline>\n")
	}
	out.WriteString("</body>\n</opml>\n")
	return out.Bytes()
}

func writeAttribute(out *bytes.Buffer, name, value string) {
	out.WriteString(" " + name + `="`)
	_ = xml.EscapeText(out, []byte(value)) // a buffer does not fail
	out.WriteByte('"')
}
