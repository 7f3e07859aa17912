// Package locale has the languages that rounds speaks to people in: which one a request or an
// environment asks for, and how the texts of a language are read.
package locale

import (
	"net/http"
	"strings"

	"golang.org/x/text/language"
)

// Language is a language tag (BCP 47), which the names of catalogues have.
type Language string

// The languages.
const (
	English Language = "en"
	Chinese Language = "zh" // simplified
)

// All returns all languages. The first one is the default.
func All() []Language { return []Language{English, Chinese} }

// maxAccept is how much of Accept-Language is read, in bytes.
const maxAccept = 200

// Asked returns the language that a request asks for with Accept-Language. It is English if the
// header is missing or longer than 200 bytes.
func Asked(header http.Header) Language {
	accept := header.Get("Accept-Language")
	if accept == "" || len(accept) > maxAccept {
		return English
	}
	_, i := language.MatchStrings(language.NewMatcher([]language.Tag{language.English, language.Chinese}), accept)
	return All()[i]
}

// OfEnvironment returns the language that the environment asks for: the first of LC_ALL, LC_MESSAGES
// and LANG that is set and not empty decides, as POSIX has it. It is English if that names another
// encoding than UTF-8, which the terminal could not show. Lookup is like os.LookupEnv; nil: nothing
// is set.
func OfEnvironment(lookup func(name string) (value string, ok bool)) Language {
	if lookup == nil {
		return English
	}
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		locale, _ := lookup(name)
		if locale == "" {
			continue
		}
		locale, _, _ = strings.Cut(locale, "@")
		locale, encoding, _ := strings.Cut(locale, ".")
		spoken, _, _ := strings.Cut(strings.ReplaceAll(locale, "-", "_"), "_")
		utf8 := encoding == "" || strings.EqualFold(strings.ReplaceAll(encoding, "-", ""), "utf8")
		if strings.EqualFold(spoken, string(Chinese)) && utf8 {
			return Chinese
		}
		return English
	}
	return English
}
