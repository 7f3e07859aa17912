package connect

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/gomodule/redigo/redis"
)

// explain adds to the error of a server that refuses us that it was reached, and what may
// be wrong. Secure is whether we began TLS.
func explain(address string, secure bool, err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return explainCut(address, secure, err)
	}
	switch text := string(reply); {
	case strings.HasPrefix(text, "WRONGPASS"), strings.HasPrefix(text, "ERR invalid password"):
		return fmt.Errorf("redis at %s was reached, but refused the password: %w", address, err)
	case strings.HasPrefix(text, "NOAUTH"):
		return fmt.Errorf("redis at %s was reached, but wants a password and was given none: %w", address, err)
	case strings.HasPrefix(text, "ERR AUTH"):
		return fmt.Errorf("redis at %s was reached, but has no password and was given one: %w", address, err)
	case strings.HasPrefix(text, "DENIED"):
		return fmt.Errorf("redis at %s was reached, but without a password it serves only its own machine (protected mode): %w", address, err)
	case strings.HasPrefix(text, "ERR SELECT is not allowed in cluster mode"):
		return fmt.Errorf("redis at %s is a node of a cluster, which has no databases: begin the URL with redis+cluster:// and end it with the port: %w", address, err)
	case strings.HasPrefix(text, "ERR unknown command") && strings.Contains(text, "SELECT"):
		return fmt.Errorf("redis at %s has no databases, as Sentinels do not: a URL with Sentinels begins with redis+sentinel:// (or rediss+sentinel://) and ends with /MASTER: %w", address, err)
	case strings.HasPrefix(text, "ERR DB index is out of range"):
		// Valkey 9 says so on a node of a cluster, too.
		return fmt.Errorf("redis at %s has no database of the number behind the port; if it is a node of a cluster, begin the URL with redis+cluster:// and end it with the port: %w", address, err)
	}
	return err
}

// explainCut does the same where the other side does not answer as Redis does.
func explainCut(address string, secure bool, err error) error {
	var record tls.RecordHeaderError
	var slow net.Error
	var untrusted *tls.CertificateVerificationError
	var dial *net.OpError
	switch {
	case secure && errors.As(err, &record):
		return fmt.Errorf("redis at %s was reached, but does not speak TLS: the URL of a server without it begins with redis://, or redis+: %w", address, err)
	case secure && errors.As(err, &slow) && slow.Timeout() && strings.Contains(err.Error(), "TLS"):
		return fmt.Errorf("redis at %s was reached, but does not answer in TLS: the URL of a server without it begins with redis://, or redis+: %w", address, err)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		hint := "the URL of a server that wants it begins with rediss://, or rediss+"
		if secure {
			hint = "the URL of a server without it begins with redis://, or redis+"
		}
		return fmt.Errorf("redis at %s was reached, but closed the connection at once; if this is about TLS: %s: %w", address, hint, err)
	case errors.As(err, &untrusted):
		return fmt.Errorf("redis at %s was reached, but its certificate is not trusted; ROUNDS_REDIS_CA_FILE may name who signed it: %w", address, err)
	case strings.Contains(err.Error(), "unexpected response line"):
		return fmt.Errorf("what was reached at %s does not answer as Redis does; is it another server's port, or one that speaks TLS? %w", address, err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("redis at %s cannot be reached: %w", address, err)
	}
	return err
}
