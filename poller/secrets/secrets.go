// Package secrets resolves the references that account records hold in place of
// secrets: {"secret": "NAME"}.
//
// A secret comes from a file in a directory, as Docker and Kubernetes mount them, from
// the environment variable ROUNDS_SECRET_NAME, or from a store. The first place that
// has it counts. It is read at each use, so a change takes effect with the next check.
// Errors name the secret, never its value.
//
// # Where a secret may go
//
// Each use of a secret must be declared: Source.Get takes a Use. A secret may be bound to hosts and
// to kinds of accounts, by the file NAME.binding beside it, by ROUNDS_BINDING_NAME, or in the
// store. All bindings of a name apply, wherever its value comes from. A binding that cannot be read
// refuses every use.
//
// A secret that is sent goes over TLS. Without TLS it may be sent to this machine, and to hosts
// that its binding names in full or that are in Source.PlainHosts, if their addresses turn out to
// be private; see fetch.Call.Confined. A key that only signs is not sent, and needs no TLS.
//
// # The service's own secrets
//
// Only Source.Service finds the secrets of callbacks and webhooks, as the file
// service.NAME or as ROUNDS_SERVICE_SECRET_NAME. No record can name them.
package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/poller/internal/conceal"
)

// These prefixes, followed by a secret's name, are names of environment variables.
const (
	EnvPrefix        = "ROUNDS_SECRET_"
	ServiceEnvPrefix = "ROUNDS_SERVICE_SECRET_" // of the service's own
	BindingEnvPrefix = "ROUNDS_BINDING_"
)

// ServiceBindingEnvPrefix begins the name of the environment variable with the binding of one of
// the service's own secrets, whose name follows.
const ServiceBindingEnvPrefix = "ROUNDS_SERVICE_BINDING_"

// bindingSuffix ends the name of a binding's file.
const bindingSuffix = ".binding"

const (
	// maxSize is how many bytes a secret may have.
	maxSize = 64 << 10

	maxBinding = 16 << 10
)

// The reasons why a secret cannot be used.
var (
	ErrName     = secret.ErrName
	ErrNotFound = errors.New("is not there") // the error of Get says where it should be
	ErrEmpty    = errors.New("is empty")
	ErrUnusable = errors.New("is not a readable file of at most 64 KiB")

	// ErrUnavailable reports that the store is unreachable, so nobody knows whether the
	// secret exists.
	ErrUnavailable = errors.New("cannot be looked up: the store is out of reach")
)

// ErrMisplaced is the ErrNotFound for one of the service's own secrets that is stored among the
// records' secrets, where any record could name it.
var ErrMisplaced = errors.New("is where any record could name it")

// notFound is an ErrNotFound that says where the secret should be.
type notFound struct {
	text string
	as   error // ErrMisplaced, or nil
}

// Error says where the secret should be.
func (e *notFound) Error() string { return e.text }

// Is reports whether target is ErrNotFound, or ErrMisplaced if that is the reason.
func (e *notFound) Is(target error) bool {
	return target == ErrNotFound || e.as != nil && target == e.as
}

// absent returns the error for a secret that is nowhere.
func (s Source) absent(name string) error {
	file, variable := "a file of ROUNDS_SECRETS_DIR", EnvPrefix+name
	switch {
	case !s.own && s.Store != nil:
		return &notFound{text: "is neither stored, nor " + file + ", nor " + variable}
	case !s.own:
		return &notFound{text: "is neither " + file + " nor " + variable}
	case s.misplaced(name):
		return &notFound{as: ErrMisplaced, text: ErrMisplaced.Error() + ": rename its file " + name + " to " + secret.ServicePrefix + name + ", or " +
			variable + " to " + ServiceEnvPrefix + name}
	}
	return &notFound{text: "is neither the file " + secret.ServicePrefix + name + " of the secrets directory nor in the environment as " + ServiceEnvPrefix + name}
}

// Store has secrets that are stored elsewhere. Get returns ErrNotFound if it has none
// of the name, and ErrUnavailable if that is unknown.
type Store interface {
	Get(ctx context.Context, name string) (value string, b secret.Binding, err error)
}

// Source says where secrets are, and how strictly their use is checked. The zero Source has
// no secrets.
type Source struct {
	// Dir holds one file for each secret; empty: no files. A file has precedence over the
	// environment.
	Dir string
	// Lookup reads the environment, as os.LookupEnv does; nil: none.
	Lookup func(string) (string, bool)
	// Store is asked for secrets that neither of them has; nil: there is no store.
	Store Store

	// RequireHosts refuses secrets whose bindings name no hosts.
	RequireHosts bool
	// PlainHosts are private hosts to which secrets may be sent without TLS, as
	// secret.Hosts returns them.
	PlainHosts []string
	// Reserved are files that records cannot use, even if they are in Dir: the files that
	// settings name.
	Reserved []string

	own   bool
	bound bool
}

// Service returns the source of the service's own secrets, for callbacks and webhooks.
func (s Source) Service() Source {
	s.own = true
	return s
}

// Bound returns the source without secrets whose bindings name no hosts: for uses that people order
// while the service runs, who must not be able to send a secret anywhere.
func (s Source) Bound() Source {
	s.bound = true
	return s
}

// Get returns a secret's value for a use. One newline at the end is not part of it. The
// error wraps ErrName, ErrNotFound, ErrEmpty, ErrUnusable, ErrUnavailable or, if
// the use is not allowed, ErrRefused. If ctx is that of a check, the value is
// scrubbed from the message of the check's failure.
func (s Source) Get(ctx context.Context, name string, use Use) (string, error) {
	if secret.ValidateName(name) != nil {
		// A wrong name is not quoted, because it may be the secret itself.
		return "", fmt.Errorf("secret: %w", ErrName)
	}
	value, err := s.get(ctx, name, use)
	if err != nil {
		return "", fmt.Errorf("secret %s: %w", name, err)
	}
	conceal.Note(ctx, value, Scrub)
	return value, nil
}

func (s Source) get(ctx context.Context, name string, use Use) (string, error) {
	bindings, err := s.bindings(name)
	if err != nil {
		return "", err
	}
	value, bound, err := s.read(ctx, name)
	if err != nil {
		return "", err
	}
	if err := s.allow(use, append(bindings, bound)); err != nil {
		return "", err
	}
	value = strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")
	if value == "" {
		return "", ErrEmpty
	}
	return value, nil
}

// misplaced reports whether one of the service's own secrets is stored among the records' secrets.
func (s Source) misplaced(name string) bool {
	s.own, s.Store = false, nil
	_, _, err := s.read(context.Background(), name)
	return !errors.Is(err, ErrNotFound)
}

// read returns the value, and its binding in the store if it comes from there.
func (s Source) read(ctx context.Context, name string) (string, secret.Binding, error) {
	prefix, full := EnvPrefix, name
	if s.own {
		prefix, full = ServiceEnvPrefix, secret.ServicePrefix+name
	}
	if s.Dir != "" {
		value, err := s.readFile(full, maxSize)
		if !errors.Is(err, os.ErrNotExist) {
			return value, secret.Binding{}, err
		}
	}
	if s.Lookup != nil {
		if value, ok := s.Lookup(prefix + name); ok {
			return value, secret.Binding{}, nil
		}
	}
	if s.Store != nil {
		value, b, err := s.Store.Get(ctx, full)
		if !errors.Is(err, ErrNotFound) {
			return value, b, err
		}
	}
	return "", secret.Binding{}, s.absent(name)
}

// bindings returns the bindings that the directory and the environment have for a name.
func (s Source) bindings(name string) ([]secret.Binding, error) {
	prefix, full := BindingEnvPrefix, name
	if s.own {
		prefix, full = ServiceBindingEnvPrefix, secret.ServicePrefix+name
	}
	var texts []string
	if s.Dir != "" {
		text, err := s.readFile(full+bindingSuffix, maxBinding)
		switch {
		case err == nil:
			texts = append(texts, text)
		case !errors.Is(err, os.ErrNotExist):
			return nil, fmt.Errorf("%w: its binding %s%s %w", ErrRefused, full, bindingSuffix, err)
		}
	}
	if s.Lookup != nil {
		if text, ok := s.Lookup(prefix + name); ok {
			texts = append(texts, text)
		}
	}
	all := make([]secret.Binding, len(texts))
	for i, text := range texts {
		b, err := secret.ParseBinding(text)
		if err != nil {
			return nil, fmt.Errorf("%w: its binding %w", ErrRefused, err)
		}
		all[i] = b
	}
	return all, nil
}

// readFile refuses anything but a regular file before it opens it: a pipe would
// block for ever.
func (s Source) readFile(name string, most int64) (string, error) {
	path := filepath.Join(s.Dir, name)
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if err != nil || !info.Mode().IsRegular() {
		return "", ErrUnusable
	}
	for _, reserved := range s.Reserved {
		if other, err := os.Stat(reserved); err == nil && os.SameFile(info, other) {
			return "", errOwn
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return "", ErrUnusable
	}
	defer func() { _ = file.Close() }() // it is only read
	value, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil || int64(len(value)) > most {
		return "", ErrUnusable
	}
	return string(value), nil
}
