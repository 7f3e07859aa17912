// Package egress says by which way the calls of an account leave: through a proxy, from an address
// of this machine, or as those of all other accounts.
//
// A way is named by the operator. An account goes by one way only, and always by the same: when a
// way is down its accounts wait, because a third party may bind a session to the address from which
// it was begun, and because a secret leaves by no other way than the named one.
package egress

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Label is the label by which an account names its way.
const Label = "egress"

// Target is a name that no kind may have: egress/NAME would otherwise mean a kind's host where
// people expect the way NAME.
const Target = "egress"

const (
	maxWays = 64
	maxWho  = 256 // choices in all
)

// Way is a named way out.
type Way struct {
	Name string
	// Proxy is the proxy, which resolves the names of hosts: of the scheme http, https or socks5,
	// perhaps with a user and a password. Nil: none.
	Proxy *url.URL
	// Source is the address of this machine from which connections are made. Zero: any.
	Source netip.Addr
}

// Where says where the way leads, without a user and a password.
func (w *Way) Where() string {
	switch {
	case w.Proxy != nil:
		bare := *w.Proxy
		bare.User = nil
		return bare.String()
	case w.Source.IsValid():
		return schemeSource + "://" + hostOf(w.Source)
	}
	return direct
}

// Account is what the choice of a way depends on.
type Account struct {
	ID     string
	Kind   string
	Labels map[string]string
}

// Ways are named ways, and who goes by them. The zero value has none.
type Ways struct {
	all []Way
	who []choice
}

// choice sends accounts by a way.
type choice struct {
	of, name, value string // of is one of the words below
	way             int
}

// What a choice is about, the most exact first.
const (
	byLabel = "label"
	byKind  = "kind"
	byAll   = "all"
)

const (
	schemeSource = "source"
	direct       = "direct"
)

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// Parse reads ways in the form of the setting: ways separated by semicolons or new lines,
//
//	berlin socks5://USER:PASSWORD@10.0.0.1:1080 kind=weixin
//	home source://192.0.2.7 label=region=de; plain direct kind=http
//
// Each way has a name, of small letters, digits and hyphens, then where it leads:
//
//	http://[USER:PASSWORD@]HOST:PORT, https://…    an HTTP proxy
//	socks5://[USER:PASSWORD@]HOST:PORT             a SOCKS5 proxy
//	source://ADDRESS                               no proxy, from this address of the machine
//	direct                                         no proxy, from any address
//
// then who goes by it, beside the accounts that name it in their label egress:
//
//	label=NAME=VALUE   accounts with this label; write a space or a semicolon as %XX
//	kind=KIND          accounts of this kind
//	all                all accounts
//
// An account's own label comes before label=, that before kind=, and that before all. Among several
// ways of one such step, the account's id decides. The error has all faults. It quotes no URL.
func Parse(text string) (Ways, error) {
	var ways Ways
	var errs []error
	n := 0
	for rule := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		words := strings.Fields(rule)
		if len(words) == 0 {
			continue
		}
		n++
		called := ""
		if namePattern.MatchString(words[0]) {
			called = fmt.Sprintf(", %q", words[0]) // anything else may be a URL
		}
		for _, err := range ways.add(words) {
			errs = append(errs, fmt.Errorf("egress: way %d%s: %w", n, called, err))
		}
	}
	if len(ways.all) > maxWays || len(ways.who) > maxWho {
		errs = append(errs, fmt.Errorf("egress: must be at most %d ways with %d choices", maxWays, maxWho))
	}
	if len(errs) > 0 {
		return Ways{}, errors.Join(errs...)
	}
	return ways, nil
}

// add takes a way and returns its faults.
func (w *Ways) add(words []string) (faults []error) {
	way, at := Way{Name: words[0]}, len(w.all)
	switch {
	case !namePattern.MatchString(way.Name):
		faults = append(faults, errors.New("must begin with a name of small letters, digits and hyphens, such as berlin"))
	case w.named(way.Name) != nil:
		faults = append(faults, errors.New("the name is given twice"))
	}
	if len(words) < 2 {
		return append(faults, errors.New("where it leads is missing: a URL such as socks5://10.0.0.1:1080, or direct"))
	}
	if err := way.lead(words[1]); err != nil {
		faults = append(faults, err)
	}
	w.all = append(w.all, way)
	for _, word := range words[2:] {
		of, value, has := strings.Cut(word, "=")
		c := choice{of: of, way: at}
		value, err := url.PathUnescape(value)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("%s=: %% must be followed by two hexadecimal digits", of))
		case of == byAll && !has:
		case of == byKind && value != "":
			c.value = value
		case of == byLabel && strings.Contains(value, "="):
			c.name, c.value, _ = strings.Cut(value, "=")
			if c.name == Label {
				faults = append(faults, errors.New("label=egress=…: the label egress is an account's own choice, which needs no word here"))
			}
		default:
			faults = append(faults, errors.New("who goes by it must be label=NAME=VALUE, kind=KIND or all"))
		}
		w.who = append(w.who, c)
	}
	return faults
}

var errWhere = errors.New("where it leads must be http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT, perhaps with USER:PASSWORD@, source://ADDRESS or direct")

// lead reads where a way leads.
func (w *Way) lead(text string) error {
	if text == direct {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return errWhere // its own error would quote the URL
	}
	u.Path = ""
	switch u.Scheme {
	case schemeSource:
		addr, err := netip.ParseAddr(u.Hostname())
		if err != nil || u.User != nil || u.Port() != "" || addr.IsUnspecified() {
			return errors.New("source:// must be followed by an address of this machine, such as source://192.0.2.7 or source://[2001:db8::7]")
		}
		w.Source = addr.Unmap()
		return nil
	case "http", "https", "socks5":
		port, err := strconv.ParseUint(u.Port(), 10, 16)
		if u.Hostname() == "" || err != nil || port == 0 {
			return errWhere
		}
		if password, _ := u.User.Password(); u.Scheme == "socks5" && (len(u.User.Username()) > 255 || len(password) > 255) {
			return errors.New("SOCKS5 has users and passwords of at most 255 bytes") // RFC 1929
		}
		w.Proxy = u
		return nil
	}
	return errWhere
}

// hostOf returns an address as a URL has it.
func hostOf(addr netip.Addr) string {
	if addr.Is6() {
		return "[" + addr.String() + "]"
	}
	return addr.String()
}

// All returns the ways in the setting's order.
func (w Ways) All() []Way { return slices.Clone(w.all) }

// Kinds returns the kinds that the ways name, for those who know which there are.
func (w Ways) Kinds() (kinds []string) {
	for _, c := range w.who {
		if c.of == byKind {
			kinds = append(kinds, c.value)
		}
	}
	return kinds
}

// Has reports whether there is a way with that name.
func (w Ways) Has(name string) bool { return w.named(name) != nil }

func (w Ways) named(name string) *Way {
	for i := range w.all {
		if w.all[i].Name == name {
			return &w.all[i]
		}
	}
	return nil
}

// String returns the ways in the form that Parse reads, without users and passwords.
func (w Ways) String() string {
	rules := make([]string, len(w.all))
	for i := range w.all {
		rules[i] = w.all[i].Name + " " + w.all[i].Where()
	}
	for _, c := range w.who {
		switch rules[c.way] += " " + c.of; c.of {
		case byKind:
			rules[c.way] += "=" + c.value
		case byLabel:
			rules[c.way] += "=" + c.name + "=" + c.value
		}
	}
	return strings.Join(rules, "; ")
}

// UnknownError reports an account whose label names a way that there is not.
type UnknownError struct{ Name string }

// Error names the way and the cure.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("the label %s names the way %.40q, which is not one of ROUNDS_EGRESS: add it there, or correct the label", Label, e.Name)
}

// Choose returns the name of an account's way. It is empty for an account that goes as if there were
// no ways. The error is an *UnknownError: the account then goes by no way at all.
func (w Ways) Choose(a *Account) (string, error) {
	if len(w.all) == 0 {
		return "", nil // a label is then a label
	}
	if own, ok := a.Labels[Label]; ok {
		if w.named(own) == nil {
			return "", &UnknownError{own}
		}
		return own, nil
	}
	for _, step := range []string{byLabel, byKind, byAll} {
		best, weight := -1, uint64(0)
		for _, c := range w.who {
			if c.of == step && c.takes(a) {
				if here := weigh(w.all[c.way].Name, a.ID); best < 0 || here > weight {
					best, weight = c.way, here
				}
			}
		}
		if best >= 0 {
			return w.all[best].Name, nil
		}
	}
	return "", nil
}

// takes reports whether a choice is about an account.
func (c *choice) takes(a *Account) bool {
	switch c.of {
	case byLabel:
		value, ok := a.Labels[c.name]
		return ok && value == c.value
	case byKind:
		return a.Kind == c.value
	}
	return true
}

// weigh returns how much a way attracts an account (rendezvous hashing): a new way takes its share
// of the accounts, and the others stay where they are. A replica must come to the same as any other.
func weigh(way, id string) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(way + "\x00" + id))
	// FNV alone leaves texts that differ at their end close together.
	x := sum.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Key is the key under which a context holds the *Account for which it calls; see For. Pollers have
// contexts of their own.
type Key struct{}

// For returns a context whose calls are an account's.
func For(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, Key{}, a)
}

// Of returns the account for which a context calls, or nil.
func Of(ctx context.Context) *Account {
	a, _ := ctx.Value(Key{}).(*Account)
	return a
}
