package listen

import (
	"fmt"
	"io/fs"
	"net"
)

// Options are what opening an address needs besides it.
type Options struct {
	Mode   fs.FileMode                      // of a unix socket
	Lookup func(name string) (string, bool) // of the environment, where systemd says what it has opened; nil: nowhere
}

// Open listens at an address. Of a unix socket it removes what a process that has ended
// left behind, and nothing else; the socket appears with its mode, and goes when the
// listener is closed.
func Open(a Address, o Options) (net.Listener, error) {
	switch a.Network {
	case Unix:
		return openUnix(a.Name, o.Mode)
	case Systemd:
		if o.Lookup == nil {
			return nil, errNothingPassed
		}
		return inherited(a.Name, o.Lookup)
	}
	listener, err := net.Listen("tcp", a.Name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name, err)
	}
	return listener, nil
}
