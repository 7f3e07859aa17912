package pages

import (
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	xlanguage "golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/locale"
)

const languageCookie = "rounds_language"

// language has the texts of one language.
type language struct {
	Tag  string // such as en
	Name string // in the language itself

	printer *message.Printer
	texts   map[string]string
}

// newLanguages reads the texts of all languages. The first language is the default.
func newLanguages(files fs.FS) ([]*language, error) {
	all := []*language{
		{Tag: string(locale.English), Name: "English", printer: message.NewPrinter(xlanguage.English)},
		{Tag: string(locale.Chinese), Name: "中文", printer: message.NewPrinter(xlanguage.SimplifiedChinese)},
	}
	for _, l := range all {
		var err error
		if l.texts, err = locale.Texts(files, l.spoken()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (l *language) spoken() locale.Language { return locale.Language(l.Tag) }

// has reports whether there is a text.
func (l *language) has(key string) bool {
	_, ok := l.texts[key]
	return ok
}

// words returns the words in the language.
func (l *language) words(w api.Words) string {
	if l.spoken() == locale.Chinese {
		return w.ZH
	}
	return w.EN
}

// text returns a text with its arguments, which it names as %[1]s, %[2]s and so on. Integers are
// grouped. If the first argument is the number 1 and there is a text KEY.one, that one is used. A
// key without a text is returned itself, so that nothing is hidden.
func (l *language) text(key string, args ...any) string {
	return fmt.Sprintf(l.format(key, args), l.shown(args, fmt.Sprint)...)
}

// html is text, where arguments of the type template.HTML are markup and everything else is
// escaped.
func (l *language) html(key string, args ...any) template.HTML {
	escaped := l.shown(args, func(a ...any) string {
		if markup, ok := a[0].(template.HTML); ok {
			return string(markup)
		}
		return template.HTMLEscapeString(fmt.Sprint(a...))
	})
	return template.HTML(fmt.Sprintf(template.HTMLEscapeString(l.format(key, args)), escaped...)) // #nosec G203: every part is escaped
}

// format returns the text of a key as a format that takes all its arguments as strings.
func (l *language) format(key string, args []any) string {
	if len(args) > 0 {
		if n, ok := whole(args[0]); ok && n == 1 && l.has(key+".one") {
			key += ".one"
		}
	}
	text, ok := l.texts[key]
	if !ok {
		text = strings.ReplaceAll(key, "%", "%%")
	}
	if len(args) > 0 && !strings.Contains(text, "%[") {
		return text + "%.0[1]s" // the text needs none of its arguments
	}
	return text
}

// shown returns arguments as strings.
func (l *language) shown(args []any, other func(...any) string) []any {
	all := make([]any, len(args))
	for i, a := range args {
		if n, ok := whole(a); ok {
			all[i] = l.printer.Sprintf("%d", n)
			continue
		}
		all[i] = other(a)
	}
	return all
}

// whole returns an integer, and whether it is one.
func whole(a any) (int64, bool) {
	switch n := a.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case int32:
		return int64(n), true
	}
	return 0, false
}

// languageOf returns the language that the visitor has chosen, or else the browser's.
func (d *Dashboard) languageOf(r *http.Request) *language {
	if c, err := r.Cookie(languageCookie); err == nil {
		for _, l := range d.languages {
			if l.Tag == c.Value {
				return l
			}
		}
	}
	asked := locale.Asked(r.Header)
	return d.languages[slices.IndexFunc(d.languages, func(l *language) bool { return l.spoken() == asked })]
}

// changeLanguage stores the chosen language in a cookie, and sends the browser back.
func changeLanguage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	to := q.Get("to")
	if to == "en" || to == "zh" {
		http.SetCookie(w, &http.Cookie{Name: languageCookie, Value: to, Path: "/", MaxAge: int((365 * 24 * time.Hour).Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode})
	}
	http.Redirect(w, r, local(q.Get("next")), http.StatusSeeOther)
}

// LanguageAddress returns the address that switches to another language.
func (v *visit) LanguageAddress(to string) string {
	return address("/language", url.Values{"to": {to}, "next": {v.Here()}})
}
