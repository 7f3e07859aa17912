// Package ports hands out loopback ports on which tests start servers of their own.
//
// A port is its caller's as long as the process lives: nobody else who asks this
// package is given it, in whatever process, though the server on it has not begun to
// listen yet or is killed and started again. Many test programs run at once, each with
// a hundred servers, and of ports that were only found free some are taken twice.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// The ports are below those that systems give to outgoing connections, which would
// otherwise take one while its server is restarted.
const (
	least = 20_000
	most  = 31_999
	tries = 200
)

// Take returns a port on 127.0.0.1 that nobody listens on. An error says that there was
// none among many.
func Take() (int, error) {
	var err error
	for range tries {
		port := least + rand.IntN(most-least+1)
		if err = take(port); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port: %w", err)
}

// Address is like Take, and returns an address to listen on.
func Address() (string, error) {
	port, err := Take()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// take marks a port as taken, by a datagram socket on the same number that is never
// closed: the system frees it when the process ends, however it ends.
func take(port int) error {
	fd, err := mark(port)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return errors.Join(err, syscall.Close(fd))
	}
	return listener.Close()
}

func mark(port int) (fd int, err error) {
	// A socket of package net would be closed when garbage is collected.
	syscall.ForkLock.RLock()
	fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, errors.Join(err, syscall.Close(fd))
	}
	return fd, nil
}
