//go:build unix

package imap

import (
	"errors"
	"net"
	"syscall"
)

// awaitInput waits until the server has sent something, the connection is closed, or its deadline for
// reading is over. It takes little stack, which a read through TLS does not. It may return at once.
func awaitInput(conn net.Conn) {
	plain, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := plain.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		var first [1]byte
		_, _, err := syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK)
		return !errors.Is(err, syscall.EAGAIN)
	})
}
