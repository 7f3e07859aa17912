// Package broker has what the sinks of brokers and databases share: the fields that say how an endpoint's
// servers are reached, their TLS, their secrets, and errors that may be shown.
//
// The servers of an endpoint that the file declares may be anywhere. Those of an endpoint that was added
// while the service runs are reached by a [sink.Network] alone, which judges each address, also one that a
// server names as its own or another's. Such an endpoint reads no file of the process, uses only secrets
// that are bound to its servers, and speaks TLS to the public internet.
package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/fetch"
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

// Plain is an error that may be shown: it names no user or value, and no address but a refused one.
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

// Options are what all servers of a type of endpoints have in common.
type Options struct {
	Kind    string         // the type, which bindings of secrets name
	List    string         // the field with the addresses
	Port    string         // of an address that names none
	Secrets secrets.Source // has passwords and certificates
	Dial    Dial           // of declared endpoints; nil: the network
	Network sink.Network   // of endpoints that were added; nil: none can be
}

// Servers are the servers of an endpoint.
type Servers struct {
	Addresses []string // HOST:PORT
	TLS       bool

	options Options
	added   bool
	file    string      // of PEM certificates that sign the servers'; empty: there is none
	ca      secrets.Ref // the same, in a secret
	own     secrets.Ref // PEM of the client's certificate and its key
	uses    []sink.Use
}

// tlsFields are the names of the fields of TLS.
func tlsFields() []string { return []string{"tls", "ca_file", "ca_certificate", "client_certificate"} }

// Names returns the names of the fields of an endpoint that has servers and other fields of its own.
func (o Options) Names(own ...string) []string {
	return sink.Names(append(append([]string{o.List}, own...), tlsFields()...)...)
}

var hostPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)

// Read reads the servers of an endpoint.
func (o Options) Read(e sink.Endpoint, r *strict.Reader) (s Servers) {
	s.options, s.added = o, e.Added()
	if s.options.Secrets = o.Secrets.Service(); s.added {
		s.options.Secrets = s.options.Secrets.Bound()
	}
	list, port := o.List, o.Port
	r.Optional(list, "a list of strings", &s.Addresses)
	if len(s.Addresses) == 0 || len(s.Addresses) > maxServers {
		r.Fault(list, "must be 1 to "+strconv.Itoa(maxServers)+` addresses, as "HOST:`+port+`"`)
	}
	for i, address := range s.Addresses {
		var ok bool
		at := list + "[" + strconv.Itoa(i) + "]"
		if s.Addresses[i], ok = parse(address, port); !ok {
			r.Fault(at, `must be HOST or HOST:PORT, without a scheme, a user or a password, as "HOST:`+port+`"`)
		} else if s.added {
			s.judge(r, at, s.Addresses[i])
		}
	}
	r.Optional("tls", "true or false", &s.TLS)
	r.Optional("ca_file", "a string", &s.file)
	s.ca, s.own = s.Secret(r, "ca_certificate", false), s.Secret(r, "client_certificate", false)
	switch {
	case s.file != "" && s.added:
		r.Fault("ca_file", `is only for endpoints of the file: name the certificates as ca_certificate, which is {"secret": "NAME"}`)
	case s.file != "" && (!filepath.IsAbs(s.file) || filepath.Clean(s.file) != s.file):
		r.Fault("ca_file", "must be an absolute path without . or .. in it")
	case s.file != "" && !s.ca.IsZero():
		r.Fault("ca_file", "must be left out where there is a ca_certificate")
	}
	if !s.TLS && (s.file != "" || !s.ca.IsZero() || !s.own.IsZero()) {
		r.Fault("tls", "must be true where there is a ca_file, a ca_certificate or a client_certificate")
	}
	return s
}

// judge refuses an address that people typed and that is certainly not to be reached.
func (s *Servers) judge(r *strict.Reader, field, address string) {
	host, text, _ := net.SplitHostPort(address) // which parse has made
	port, _ := strconv.ParseUint(text, 10, 16)
	if s.options.Network == nil {
		r.Fault(field, "is only for endpoints of the file: this program reaches no others")
	} else if err := s.options.Network.ValidateHostPort(host, uint16(port)); err != nil {
		r.Refuse(field, err)
	}
}

// Hosts returns the addresses, for sink.Place.
func (s *Servers) Hosts() []string { return s.Addresses }

// Uses returns the secrets of the fields that Read and Secret have read, for sink.Place.
func (s *Servers) Uses() []sink.Use { return s.uses }

// Dial connects to a server, or to one that a server has named, within DialWithin.
func (s *Servers) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, DialWithin)
	defer cancel()
	switch {
	case s.added:
		return s.reach(ctx, address)
	case s.options.Dial != nil:
		return s.options.Dial(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// reach connects by the network for addresses that people type.
func (s *Servers) reach(ctx context.Context, address string) (net.Conn, error) {
	conn, err := s.options.Network.Dial(ctx, address)
	if err != nil || s.TLS {
		return conn, err
	}
	if at, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err != nil || fetch.Public(at.Addr()) {
		return nil, errors.Join(Plain("tls: must be true towards the public internet"), conn.Close())
	}
	return conn, nil
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

// Secret reads a field that is missing or refers to a secret. Sent says that the secret itself goes to the
// servers.
func (s *Servers) Secret(r *strict.Reader, field string, sent bool) secrets.Ref {
	ref, err := secrets.ParseRef(r.Take(field))
	switch {
	case errors.Is(err, secrets.ErrNotReference):
		r.Fault(field, `must be {"secret": "NAME"}: put the value into `+secrets.ServiceEnvPrefix+"NAME")
	case err != nil:
		r.Fault(field, err.Error())
	case !ref.IsZero():
		s.uses = append(s.uses, sink.Use{Field: field, Name: ref.Name, Sent: sent})
	}
	return ref
}

// Get returns a secret that the servers of an endpoint may know. Stays says that it signs or proves, and is not sent.
func (s *Servers) Get(ctx context.Context, ref secrets.Ref, stays bool) (value string, err error) {
	for _, address := range s.Addresses { // the client chooses among them
		if value, err = s.options.Secrets.Get(ctx, ref.Name, secrets.Use{Kind: s.options.Kind, Host: address, TLS: s.TLS, Stays: stays}); err != nil {
			return "", Plain(err.Error()) // names the secret only
		}
	}
	return value, nil
}

// Config returns how TLS is spoken, or nil if it is not. The client's certificate is read anew for each connection.
func (s *Servers) Config(ctx context.Context) (*tls.Config, error) {
	if !s.TLS {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if text, from, err := s.roots(ctx); err != nil {
		return nil, err
	} else if from != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, Plain(from + ": has no certificate in PEM")
		}
	}
	if s.own.IsZero() {
		return config, nil
	}
	if _, err := s.certificate(ctx); err != nil {
		return nil, err
	}
	config.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return s.certificate(info.Context())
	}
	return config, nil
}

// roots returns the certificates that sign the servers', and what to call them. Without a name they are
// the system's.
func (s *Servers) roots(ctx context.Context) (text []byte, from string, err error) {
	switch {
	case s.file != "":
		text, err = readFile(s.file)
		return text, "ca_file", err
	case !s.ca.IsZero():
		value, err := s.Get(ctx, s.ca, true)
		return []byte(value), "secret " + s.ca.Name, err
	}
	return nil, "", nil
}

func (s *Servers) certificate(ctx context.Context) (*tls.Certificate, error) {
	text, err := s.Get(ctx, s.own, true)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair([]byte(text), []byte(text))
	if err != nil {
		return nil, Plain("secret " + s.own.Name + ": must have a certificate and its key, both in PEM")
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

// Refused reports whether a connection failed because its address may not be reached.
func Refused(err error) bool { return errors.Is(err, fetch.ErrRefusedAddress) }

// Reason returns what went wrong on the way to a server, without its address.
func Reason(err error) error {
	var plain Plain
	var refused *fetch.Error
	var named x509.HostnameError
	var verifying *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var name *net.DNSError
	var operation *net.OpError
	switch {
	case errors.As(err, &plain):
		return plain
	case errors.As(err, &refused):
		return Plain(refused.Error()) // which names no address but one that was dialled and refused
	case errors.As(err, &named):
		return Plain("the server's certificate is for another name than the one by which it is reached: see servers or brokers")
	case errors.As(err, &verifying):
		return Plain("the server's certificate is not trusted: see ca_certificate")
	case errors.As(err, &record):
		return Plain("the server speaks no TLS")
	case errors.As(err, &name):
		return Plain("the name of a server is not resolved")
	case errors.As(err, &operation) && operation.Op == "remote error": // an alert, whose text is one of the library's
		text, cure := operation.Err.Error(), ""
		if strings.Contains(text, "certificate") {
			cure = ": see client_certificate"
		}
		return Plain("the server refused TLS: " + strings.TrimPrefix(text, "tls: ") + cure)
	case errors.As(err, &operation) && operation.Op == "dial":
		return Plain("the servers cannot be reached")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Plain("the servers did not answer in time")
	}
	return Plain("the connection broke")
}
