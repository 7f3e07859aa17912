//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package listen

import (
	"errors"
	"io/fs"
	"net"
)

var errUnknown = errors.New("unix sockets are served on Linux, macOS and BSD only")

func openUnix(string, fs.FileMode) (net.Listener, error) { return nil, errUnknown }

func inherited(string, func(string) (string, bool)) (net.Listener, error) {
	return nil, errNothingPassed
}
