// Package broker has what the sinks of brokers share: the fields that say how an endpoint's servers
// are reached, their TLS, their secrets, and errors that may be shown.
package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	// Answer is how long a sink waits for its servers before a message is for later.
	Answer = 10 * time.Second
	// DialWithin bounds a connection with its TLS handshake.
	DialWithin = 5 * time.Second

	wait       = 5 * time.Second // before messages are tried again while the servers are away
	maxServers = 32
	mostCA     = 1 << 20 // bytes
)

// Plain is an error that may be shown: it names no address, user or value.
type Plain string

func (p Plain) Error() string { return string(p) }

// Later returns the error of messages that wait for the servers of an endpoint.
func Later(endpoint string, err error) error {
	return &delivery.Later{After: wait, Target: endpoint, Err: err}
}

// Refuse fills the answers that are still empty.
func Refuse(errs []error, err error) []error {
	for i := range errs {
		errs[i] = cmp.Or(errs[i], err)
	}
	return errs
}

// Dial makes a connection. Tests replace it.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Within dials with the network's dialer, or the one that replaces it, within DialWithin.
func (d Dial) Within(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, DialWithin)
	defer cancel()
	if d == nil {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return d(ctx, network, address)
}

// Servers are the servers of an endpoint.
type Servers struct {
	Addresses   []string // HOST:PORT
	TLS         bool
	CA          string      // a file of PEM certificates that sign the servers'; empty: the system's
	Certificate secrets.Ref // PEM of the client's certificate and its key
}

// Fields are the names of the fields that Read takes, beside the list of servers.
func Fields() []string { return []string{"tls", "ca_file", "client_certificate"} }

var hostPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)

// Read reads the servers of an endpoint. The list of addresses is the field list; port is for those that name none.
func Read(r *strict.Reader, list, port string) (s Servers) {
	r.Optional(list, "a list of strings", &s.Addresses)
	if len(s.Addresses) == 0 || len(s.Addresses) > maxServers {
		r.Fault(list, "must be 1 to "+strconv.Itoa(maxServers)+` addresses, as "HOST:`+port+`"`)
	}
	for i, address := range s.Addresses {
		var ok bool
		if s.Addresses[i], ok = parse(address, port); !ok {
			r.Fault(list+"["+strconv.Itoa(i)+"]", `must be HOST or HOST:PORT, without a scheme, a user or a password, as "HOST:`+port+`"`)
		}
	}
	r.Optional("tls", "true or false", &s.TLS)
	r.Optional("ca_file", "a string", &s.CA)
	s.Certificate = Secret(r, "client_certificate")
	if s.CA != "" && (!filepath.IsAbs(s.CA) || filepath.Clean(s.CA) != s.CA) {
		r.Fault("ca_file", "must be an absolute path without . or .. in it")
	}
	if !s.TLS && (s.CA != "" || !s.Certificate.IsZero()) {
		r.Fault("tls", "must be true where there is a ca_file or a client_certificate")
	}
	return s
}

// parse returns HOST:PORT.
func parse(address, port string) (string, bool) {
	host, given, err := net.SplitHostPort(address)
	if err != nil {
		if host, given, err = net.SplitHostPort(net.JoinHostPort(address, port)); err != nil {
			return "", false
		}
	}
	number, err := strconv.ParseUint(given, 10, 16)
	if err != nil || number == 0 || net.ParseIP(host) == nil && !hostPattern.MatchString(host) {
		return "", false
	}
	return net.JoinHostPort(host, given), true
}

// Secret reads a field that is missing or refers to a secret.
func Secret(r *strict.Reader, field string) secrets.Ref {
	ref, err := secrets.ParseRef(r.Take(field))
	switch {
	case errors.Is(err, secrets.ErrNotReference):
		r.Fault(field, `must be {"secret": "NAME"}: put the value into `+secrets.ServiceEnvPrefix+"NAME")
	case err != nil:
		r.Fault(field, err.Error())
	}
	return ref
}

// Get returns a secret that the servers of an endpoint may know. Stays says that it signs or proves, and is not sent.
func (s Servers) Get(ctx context.Context, source secrets.Source, kind string, ref secrets.Ref, stays bool) (value string, err error) {
	for _, address := range s.Addresses { // the client chooses among them
		if value, err = source.Service().Get(ctx, ref.Name, secrets.Use{Kind: kind, Host: address, TLS: s.TLS, Stays: stays}); err != nil {
			return "", Plain(err.Error()) // names the secret only
		}
	}
	return value, nil
}

// Config returns how TLS is spoken, or nil if it is not. The client's certificate is read anew for each connection.
func (s Servers) Config(ctx context.Context, source secrets.Source, kind string) (*tls.Config, error) {
	if !s.TLS {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		text, err := readFile(s.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, Plain("ca_file: has no certificate in PEM")
		}
	}
	if s.Certificate.IsZero() {
		return config, nil
	}
	if _, err := s.certificate(ctx, source, kind); err != nil {
		return nil, err
	}
	config.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return s.certificate(info.Context(), source, kind)
	}
	return config, nil
}

func (s Servers) certificate(ctx context.Context, source secrets.Source, kind string) (*tls.Certificate, error) {
	text, err := s.Get(ctx, source, kind, s.Certificate, true)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair([]byte(text), []byte(text))
	if err != nil {
		return nil, Plain("secret " + s.Certificate.Name + ": must have a certificate and its key, both in PEM")
	}
	return &pair, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostCA {
		return nil, Plain("ca_file: cannot be read, or is no file of at most 1 MiB")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, Plain("ca_file: cannot be read")
	}
	return text, nil
}

// Reason returns what went wrong on the way to a server, without its address.
func Reason(err error) error {
	var plain Plain
	var verifying *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var name *net.DNSError
	var operation *net.OpError
	switch {
	case errors.As(err, &plain):
		return plain
	case errors.As(err, &verifying):
		return Plain("the server's certificate is not trusted: see ca_file")
	case errors.As(err, &record):
		return Plain("the server speaks no TLS")
	case errors.As(err, &alert):
		return Plain("the server refused TLS: " + alert.Error())
	case errors.As(err, &name):
		return Plain("the name of a server is not resolved")
	case errors.As(err, &operation):
		return Plain("the servers cannot be reached")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Plain("the servers did not answer in time")
	}
	return Plain("the connection broke")
}
