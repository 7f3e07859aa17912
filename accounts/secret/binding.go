package secret

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
)

const (
	maxHosts = 32
	maxKinds = 16
	maxHost  = 253 // bytes, as DNS has it
)

// Binding says where a secret may go. If it names both hosts and kinds, the secret goes only
// to these hosts, and only for accounts of these kinds. The zero Binding names nothing.
type Binding struct {
	// Hosts are names and addresses, each with an optional :PORT. *.example.com covers every
	// name below example.com, but not example.com itself.
	Hosts []string `json:"hosts,omitempty"`
	// Kinds are kinds of accounts.
	Kinds []string `json:"kinds,omitempty"`
}

// ParseBinding reads a binding as String writes it: "hosts=a.example,*.b.example kinds=imap".
// The fields may stand in any order, and one may be left out. An empty text and an unknown
// field are errors, so that a mistyped binding does not count as no binding.
func ParseBinding(text string) (Binding, error) {
	var b Binding
	var seen []string
	for field := range strings.FieldsSeq(text) {
		name, list, _ := strings.Cut(field, "=")
		if slices.Contains(seen, name) {
			return Binding{}, fmt.Errorf("%s: appears twice", name)
		}
		seen = append(seen, name)
		values := strings.Split(list, ",")
		switch name {
		case "hosts":
			b.Hosts = values
		case "kinds":
			b.Kinds = values
		default:
			return Binding{}, errors.New(`must be written as "hosts=api.example.com,*.example.org kinds=http", of which one may be left out`)
		}
	}
	if len(seen) == 0 {
		return Binding{}, errors.New("is empty: a binding names hosts, kinds or both")
	}
	return b.Normalized()
}

// Normalized returns the binding as it is stored: hosts in lower case and ASCII, without a
// dot at their end, and no entry twice. The error names each entry that is wrong.
func (b Binding) Normalized() (Binding, error) {
	var n Binding
	var errs []error
	if len(b.Hosts) > maxHosts {
		errs = append(errs, fmt.Errorf("hosts: must be at most %d", maxHosts))
	} else {
		for _, text := range b.Hosts {
			host, err := normalPattern(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("hosts: %.80q %w", text, err))
			} else if !slices.Contains(n.Hosts, host) {
				n.Hosts = append(n.Hosts, host)
			}
		}
	}
	if len(b.Kinds) > maxKinds {
		errs = append(errs, fmt.Errorf("kinds: must be at most %d", maxKinds))
	} else {
		for _, kind := range b.Kinds {
			if !kindPattern.MatchString(kind) {
				errs = append(errs, fmt.Errorf("kinds: %.80q must be a kind's name, such as http", kind))
			} else if !slices.Contains(n.Kinds, kind) {
				n.Kinds = append(n.Kinds, kind)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Binding{}, err
	}
	return n, nil
}

var kindPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// String writes the binding for people and for ParseBinding. It is empty for a binding that
// names nothing.
func (b Binding) String() string {
	var fields []string
	if len(b.Hosts) > 0 {
		fields = append(fields, "hosts="+strings.Join(b.Hosts, ","))
	}
	if len(b.Kinds) > 0 {
		fields = append(fields, "kinds="+strings.Join(b.Kinds, ","))
	}
	return strings.Join(fields, " ")
}

// IsZero reports whether the binding names nothing.
func (b Binding) IsZero() bool { return len(b.Hosts) == 0 && len(b.Kinds) == 0 }

// AllowsKind reports whether the secret may be used for accounts of a kind.
func (b Binding) AllowsKind(kind string) bool {
	return len(b.Kinds) == 0 || slices.Contains(b.Kinds, kind)
}

// AllowsHost reports whether the secret may go to HOST:PORT.
func (b Binding) AllowsHost(hostport string) bool {
	return len(b.Hosts) == 0 || MatchHost(b.Hosts, hostport)
}

// Names reports whether the binding names HOST:PORT itself, not only by a pattern such as
// *.example.com.
func (b Binding) Names(hostport string) bool {
	return MatchHost(slices.DeleteFunc(slices.Clone(b.Hosts), isPattern), hostport)
}

// MatchHost reports whether one of the hosts, as Normalized returns them, covers HOST:PORT.
// It returns false for a text that is not HOST:PORT.
func MatchHost(hosts []string, hostport string) bool {
	host, port, err := splitHost(hostport)
	if err != nil || isPattern(host) {
		return false
	}
	return slices.ContainsFunc(hosts, func(text string) bool {
		name, wanted, err := splitHost(text)
		if err != nil || wanted != "" && wanted != port {
			return false
		}
		if below, ok := strings.CutPrefix(name, "*"); ok {
			return len(host) > len(below) && strings.HasSuffix(host, below)
		}
		return name == host
	})
}

// Hosts reads a setting's list of hosts, separated by commas, and returns them normalized.
func Hosts(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	hosts := strings.Split(list, ",")
	for i := range hosts {
		hosts[i] = strings.TrimSpace(hosts[i])
	}
	b, err := Binding{Hosts: hosts}.Normalized()
	return b.Hosts, err
}

func isPattern(host string) bool { return strings.HasPrefix(host, "*") }

// normalPattern returns a binding's host in normal form.
func normalPattern(text string) (string, error) {
	if strings.Contains(text, "://") || strings.ContainsAny(text, "/@?#") {
		return "", errors.New("must be a host alone, without a scheme or a path")
	}
	host, port, err := splitHost(text)
	if err != nil {
		return "", err
	}
	if port == "" {
		return bracketed(host), nil
	}
	return net.JoinHostPort(host, port), nil
}

// bracketed returns a host, an IPv6 address in brackets.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

var errHost = errors.New("must be a host's name or address, such as api.example.com, *.example.com, 10.1.0.7 or [::1]:8443")

// splitHost splits HOST, HOST:PORT or an IPv6 address. It returns the host in the form in
// which hosts are compared.
func splitHost(text string) (host, port string, err error) {
	host = text
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return normalAddr(addr)
	}
	if strings.Contains(text, ":") {
		if host, port, err = net.SplitHostPort(text); err != nil {
			return "", "", errHost
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", "", errors.New("must have a port from 1 to 65535, if any")
		}
		if addr, err := netip.ParseAddr(host); err == nil {
			host, _, err := normalAddr(addr)
			return host, port, err
		}
	}
	star := ""
	if below, ok := strings.CutPrefix(host, "*."); ok {
		star, host = "*.", below
	}
	if host, err = strict.Hostname(host); err != nil {
		return "", "", errHost
	}
	host = strings.TrimSuffix(host, ".") // after ToASCII, which also turns other full stops into dots
	if host == "" || len(host) > maxHost || strings.ContainsFunc(host, badInHost) || strings.HasPrefix(host, ".") || strings.HasSuffix(host, ".") || strings.Contains(host, "..") {
		return "", "", errHost
	}
	return star + host, port, nil
}

func normalAddr(addr netip.Addr) (host, port string, err error) {
	if addr.Zone() != "" {
		return "", "", errHost
	}
	return addr.Unmap().String(), "", nil
}

func badInHost(char rune) bool {
	switch {
	case 'a' <= char && char <= 'z', '0' <= char && char <= '9', char == '-', char == '_', char == '.':
		return false
	}
	return true
}
