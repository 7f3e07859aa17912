package imap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

var errHost = errors.New("must be a name or an address, without a port")

const (
	portImplicit = 993 // RFC 8314
	portPlain    = 143
	maxText      = 1 << 10 // bytes of a user or a mailbox
)

// How a connection is encrypted.
const (
	tlsImplicit = "implicit"
	tlsStart    = "starttls"
	tlsNone     = "none"
)

// config is a record's parsed config.
type config struct {
	host     string // as it is dialled
	port     int
	tls      string
	user     string
	password secrets.Ref
	mailbox  string
}

func (c *Checker) parse(raw json.RawMessage) (config, error) {
	r := strict.ReadConfig(raw)
	read := config{tls: tlsImplicit, mailbox: "INBOX"}
	if given := r.Text("host"); given != "" {
		dialled, err := strict.Hostname(given)
		if read.host = strings.TrimSuffix(dialled, "."); err == nil {
			err = c.client.ValidateHost(read.host)
		}
		if err != nil {
			r.Refuse("host", hostFault(err))
		}
	}
	if raw := r.Take("tls"); raw != nil {
		read.tls = ""
		if json.Unmarshal(raw, &read.tls) != nil || read.tls != tlsImplicit && read.tls != tlsStart && read.tls != tlsNone {
			r.Fault("tls", "must be implicit, starttls or none")
		}
	}
	read.port = portPlain
	if read.tls == tlsImplicit {
		read.port = portImplicit
	}
	if raw := r.Take("port"); raw != nil && (json.Unmarshal(raw, &read.port) != nil || read.port < 1 || read.port > 65535) {
		r.Fault("port", "must be a number from 1 to 65535")
	}
	read.user = oneLine(r, "user", r.Text("user"))
	ref, err := secrets.ParseRequired(r.Take("password"))
	if err != nil {
		r.Fault("password", err.Error())
	}
	read.password = ref
	if raw := r.Take("mailbox"); raw != nil {
		if json.Unmarshal(raw, &read.mailbox) != nil || read.mailbox == "" {
			r.Fault("mailbox", "must be a string that is not empty")
		}
		read.mailbox = oneLine(r, "mailbox", read.mailbox)
	}
	return read, r.Err()
}

// hostFault returns a host's error without the part about the port.
func hostFault(err error) error {
	if errors.Is(err, fetch.ErrPrivate) {
		return err
	}
	return errHost
}

func oneLine(r *strict.Reader, name, text string) string {
	if len(text) > maxText || strings.ContainsFunc(text, unicode.IsControl) {
		r.Fault(name, fmt.Sprintf("must be one line of at most %d bytes", maxText))
	}
	return text
}

// password finds the secret. An error names it, never its value.
func (c *Checker) password(ctx context.Context, config config) (string, error) {
	use := secrets.Use{Kind: Kind, Host: net.JoinHostPort(config.host, strconv.Itoa(config.port)), TLS: config.tls != tlsNone}
	value, err := c.secrets.Get(ctx, config.password.Name, use)
	if err != nil {
		return "", err
	}
	if len(value) > maxText || strings.ContainsFunc(value, unicode.IsControl) {
		return "", fmt.Errorf("secret %s: %w", config.password.Name, errPassword)
	}
	return value, nil
}

var errPassword = errors.New("must be one line of at most 1024 bytes to be a password")
