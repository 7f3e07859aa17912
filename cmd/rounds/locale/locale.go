// Package locale has the languages that rounds speaks to people in, and its messages in each.
//
// English is the language of the source: of error values, logs, tests and stored texts. A message is
// translated once, where it leaves the program for a person: by the API when it writes a problem,
// and by a command when it prints a line. So errors stay ordinary errors, and nothing below the edge
// knows of languages.
//
// The catalogue, assets/text/*.zh.json, maps the English template of a message, as the source has it
// ("--set %q must be key=value"), to a Chinese one, in which %[1]s is what stands at the first verb,
// and %[1]m is that as a message of its own: what an error wraps. A problem has only the finished
// text of an error, and so has a command whose error came from the API. Translate therefore finds
// the template by its literal parts: an index has those before the first verb or behind the last
// one, and of the templates that fit the one with the most literal text is taken. The work is
// bounded whatever the text is. What has no template stays English, and so do the names and values
// that somebody wrote.
//
// The files divide the catalogue by where the English text is: record is for accounts and the
// packages below it, problem for the API, message for messages, keys and scans, kind for checkers,
// their requests and webhooks, and setting, service and command for the packages of these names.
// Two files have texts that no single place of the source has: composed has texts that are put
// together from parts, and library has those of other modules.
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
// encoding than UTF-8, which the terminal could not show. Lookup is like os.LookupEnv. With a nil
// lookup, nothing is set.
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
