package pages

import (
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// concern returns a concern as a sentence of the language.
func (l *language) concern(c *api.Concern) template.HTML {
	text := c.Sentence(l.Tag, api.ConcernStyle{
		Name:     func(name string) string { return string(marked("b", name)) },
		Text:     template.HTMLEscapeString,
		Number:   func(n int) string { return l.number(n) },
		Duration: func(d time.Duration) string { return l.duration(d) },
		Share:    l.percent,
	})
	if l.Tag == "en" { // as in a log, the sentence begins with a small letter and has no full stop
		if text != "" && 'a' <= text[0] && text[0] <= 'z' {
			text = strings.ToUpper(text[:1]) + text[1:]
		}
		text += "."
	}
	return template.HTML(text) // #nosec G203: every part is escaped
}

// At returns where a visitor finds more about a concern on this site, or nothing.
func (v *visit) At(c *api.Concern) string {
	if c.Link == "/" {
		return "/#live-replicas"
	}
	if page, _, _ := strings.Cut(c.Link, "?"); !v.offers(page) {
		return ""
	}
	return c.Link
}

// PageName returns the name of the page at an address, for a link to it.
func (v *visit) PageName(at string) string {
	if at == "/#live-replicas" {
		return v.lang.text("overview.replicas")
	}
	path, _, _ := strings.Cut(at, "?")
	if key := "menu." + strings.TrimPrefix(path, "/"); v.lang.has(key) {
		return v.lang.text(key)
	}
	i := slices.IndexFunc(v.pages, func(p *page) bool { return p.path == path })
	if i < 0 {
		return path
	}
	return v.lang.text(v.pages[i].name + ".title")
}

// sayOfConcern acknowledges or silences a concern, or ends both. A silence needs a reason, which is
// the note of the form.
func sayOfConcern(v *visit) (string, error) {
	form := v.r.PostForm
	do, subject, note := form.Get("do"), form.Get("subject"), form.Get("note")
	bodies := map[string]any{
		"acknowledge": api.AcknowledgeRequest{Subject: subject, Note: note},
		"silence":     api.SilenceRequest{Subject: subject, Lasts: form.Get("lasts"), Reason: note},
		"unsilence":   api.UnsilenceRequest{Subject: subject},
	}
	body, ok := bodies[do]
	if !ok {
		return "", v.unknownAction()
	}
	if err := v.do(http.MethodPost, "/v1/concerns/"+segment(form.Get("code"))+"/"+do, body, nil); err != nil {
		return "", err
	}
	return withSaid("/", "concern."+do), nil
}
