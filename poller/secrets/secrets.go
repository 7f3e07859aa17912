// Package secrets resolves the references that account records hold in place of
// secrets: {"secret": "NAME"}.
//
// A secret comes from a file in a directory, as Docker and Kubernetes mount
// them, or from the environment variable ROUNDS_SECRET_NAME. It is read at each
// use, so a changed file counts from the next check on. Errors name the secret,
// never its value.
package secrets

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// EnvPrefix is what comes before a secret's name in the environment.
const EnvPrefix = "ROUNDS_SECRET_"

// MaxSize is how many bytes a secret may have.
const MaxSize = 64 << 10

// Why a secret cannot be had.
var (
	ErrName     = errors.New("is not a name: only A-Z a-z 0-9 _ - are allowed, 1 to 64 of them")
	ErrNotFound = errors.New("is neither a file in the secrets directory nor in the environment as " + EnvPrefix + "NAME")
	ErrEmpty    = errors.New("is empty")
	ErrUnusable = errors.New("is not a readable file of at most 64 KiB")
)

// Source says where secrets are. The zero Source has none.
type Source struct {
	// Dir holds one file for each secret; empty: no files. A file goes before
	// the environment.
	Dir string
	// Lookup reads the environment, as os.LookupEnv does; nil: none.
	Lookup func(string) (string, bool)
}

// Get returns a secret's value. One newline at the end is not part of it. The
// error wraps ErrName, ErrNotFound, ErrEmpty or ErrUnusable.
func (s Source) Get(name string) (string, error) {
	if !validName(name) {
		// What stands in a name's place may be the secret itself: not quoted.
		return "", fmt.Errorf("secret: %w", ErrName)
	}
	value, err := s.read(name)
	if err != nil {
		return "", fmt.Errorf("secret %s: %w", name, err)
	}
	value = strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")
	if value == "" {
		return "", fmt.Errorf("secret %s: %w", name, ErrEmpty)
	}
	return value, nil
}

func (s Source) read(name string) (string, error) {
	if s.Dir != "" {
		value, err := readFile(filepath.Join(s.Dir, name))
		if !errors.Is(err, os.ErrNotExist) {
			return value, err
		}
	}
	if s.Lookup != nil {
		if value, ok := s.Lookup(EnvPrefix + name); ok {
			return value, nil
		}
	}
	return "", ErrNotFound
}

// readFile refuses anything but a regular file before it opens it: a pipe would
// block for ever.
func readFile(path string) (string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if err != nil || !info.Mode().IsRegular() {
		return "", ErrUnusable
	}
	file, err := os.Open(path)
	if err != nil {
		return "", ErrUnusable
	}
	defer func() { _ = file.Close() }() // it is only read
	value, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err != nil || len(value) > MaxSize {
		return "", ErrUnusable
	}
	return string(value), nil
}

func validName(name string) bool {
	if len(name) < 1 || len(name) > 64 {
		return false
	}
	for _, char := range []byte(name) {
		switch {
		case 'a' <= char && char <= 'z', 'A' <= char && char <= 'Z', '0' <= char && char <= '9', char == '_', char == '-':
		default:
			return false
		}
	}
	return true
}
