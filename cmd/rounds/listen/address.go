// Package listen opens the address at which a process serves: a TCP address, a unix
// socket, or a socket that systemd opened for it. It does not know what is served.
package listen

import (
	"errors"
	"net"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// The networks of an Address.
const (
	TCP     = "tcp"     // its name is HOST:PORT
	Unix    = "unix"    // its name is a path
	Systemd = "systemd" // its name is the FileDescriptorName= of the socket unit
)

// maxPath is the most bytes of a socket's path. The smallest system limit is larger, which leaves
// room for the path's suffix while the socket is created.
const maxPath = 100

// Address is where to listen.
type Address struct{ Network, Name string }

// errAddress reports a text that is not an Address.
var errAddress = errors.New("must be HOST:PORT, such as 127.0.0.1:8080, unix:PATH, such as unix:/run/rounds/api.sock, or systemd:NAME")

// errPath reports a path that no socket can have.
var errPath = errors.New("must be unix: with an absolute path of at most 100 bytes")

// Parse reads HOST:PORT, unix:PATH or systemd:NAME. The error is errAddress or errPath.
func Parse(text string) (Address, error) {
	network, name, _ := strings.Cut(text, ":")
	switch network {
	case Unix:
		if !path.IsAbs(name) || len(name) > maxPath || path.Clean(name) != name || strings.ContainsRune(name, 0) {
			return Address{}, errPath
		}
		return Address{Unix, name}, nil
	case Systemd:
		if !regexp.MustCompile(`^[!-9;-~]{1,255}$`).MatchString(name) { // as systemd allows
			return Address{}, errAddress
		}
		return Address{Systemd, name}, nil
	}
	_, port, err := net.SplitHostPort(text)
	number, portErr := strconv.Atoi(port)
	if err != nil || portErr != nil || number < 0 || number > 65535 {
		return Address{}, errAddress
	}
	return Address{TCP, text}, nil
}

// String returns the text from which Parse reads the address.
func (a Address) String() string {
	if a.Network == TCP {
		return a.Name
	}
	return a.Network + ":" + a.Name
}

// Local reports whether only this machine can reach the address, as far as its text shows. An
// empty host means every address. A systemd address does not show it: use Exposed with the
// listener.
func (a Address) Local() bool {
	if a.Network != TCP {
		return true
	}
	host, _, err := net.SplitHostPort(a.Name)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// Exposed reports whether other machines can reach a listener.
func Exposed(listener net.Listener) bool {
	tcp, ok := listener.Addr().(*net.TCPAddr)
	return ok && !tcp.IP.IsLoopback()
}
