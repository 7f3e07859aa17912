//go:build !unix

package fetch

import "net"

// silent reports false: on this system, only a read shows whether a connection is open.
func silent(net.Conn) bool { return false }
