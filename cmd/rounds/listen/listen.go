package listen

import (
	"errors"
	"io/fs"
	"net"
)

// Options are what opening an address needs besides the address.
type Options struct {
	Mode   fs.FileMode                      // of a unix socket
	Lookup func(name string) (string, bool) // of the environment, in which systemd names its sockets; nil: none
}

// Open listens at an address. For a unix socket it removes only what an ended process
// left behind. The socket appears with its mode, and is removed when the listener is
// closed.
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
	return net.Listen("tcp", a.Name) // its error has the address
}

// errNothingPassed reports a process that systemd did not start with sockets.
var errNothingPassed = errors.New("systemd has passed no socket to this process: is the socket unit started, and does the service belong to it?")
