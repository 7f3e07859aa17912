//go:build !unix

package imap

import "net"

// awaitInput returns at once: on this system, only a read waits.
func awaitInput(net.Conn) {}
