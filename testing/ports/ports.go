// Package ports reserves loopback ports on which tests start servers.
//
// A port belongs to its caller as long as the process lives. No other caller of this
// package gets it, in any process, even if the server does not listen yet or is killed
// and started again. Many test programs run at once, each with a hundred servers, and of
// ports that were only found free some would be taken twice.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// The ports are below those that systems use for outgoing connections. A port in that
// range could be taken while its server restarts.
const (
	least = 20_000
	most  = 31_999
	tries = 200
)

// Take returns a port on 127.0.0.1 that nobody listens on. It returns an error if it
// found none among many.
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

// take marks a port as taken by a datagram socket on the same number that is never
// closed. The system frees it when the process ends, however it ends.
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
	// A socket of package net would be closed by the garbage collector.
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
