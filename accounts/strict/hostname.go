package strict

import (
	"errors"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Names of hosts are compared in one form: the one that is dialled. If a name were
// compared in another form, it could belong to an attacker who registered its dialled
// form.

// ErrHostname reports a name with characters that no host's name has.
var ErrHostname = errors.New("has characters that no host's name has")

// Hostname returns the name that net/http dials for a host's name or address, in lower
// case. A name that is not ASCII is converted as UTS #46 prescribes for look-ups; the
// error is ErrHostname. As in net/http it is converted before it is lowered: lowered
// first, U+0130 becomes a plain i and the name of another host.
func Hostname(name string) (string, error) {
	if !strings.ContainsFunc(name, notASCII) {
		return strings.ToLower(name), nil
	}
	ascii, err := idna.Lookup.ToASCII(name)
	if err != nil || ascii == "" || strings.ContainsFunc(ascii, notASCII) {
		return "", ErrHostname
	}
	return strings.ToLower(ascii), nil
}

func notASCII(char rune) bool { return char >= utf8.RuneSelf }
