package files

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"iter"
	"strings"
	"time"
)

// Store holds objects. Its methods may be called by any goroutine, and by several processes at once.
type Store interface {
	// Put reads r to its end, stores the bytes and returns the object. Only a small part of them is in
	// memory at once. Put cannot interrupt a Read, so r must fail when ctx is done, as the body of an HTTP
	// response does.
	//
	// If r is at fault, the error is a *ReadError, ErrTooLarge or ErrDiffers. Otherwise the store is, or
	// ctx is done. After an error there is no object, or one whose name nobody knows.
	Put(ctx context.Context, r io.Reader, want Want) (Object, error)

	// Open opens an object for reading. The error is ErrNotFound if no object has this name. The
	// caller closes the Reader, which can be used until ctx is done.
	Open(ctx context.Context, name string) (Reader, error)

	// Remove removes an object. It succeeds if there is none.
	Remove(ctx context.Context, name string) error

	// List yields every object, in any order. It ends with the first error. Objects that are stored or
	// removed meanwhile may be missing.
	List(ctx context.Context) iter.Seq2[Object, error]

	// Tidy removes what killed processes left under temporary names before a time, and counts it. A Put
	// that began before that time may fail; see LeftoverAge.
	Tidy(ctx context.Context, before time.Time) (int, error)

	// Check finds out whether objects can be stored now, by storing something and removing it.
	Check(ctx context.Context) (Room, error)

	// String says for people where the store is. It contains no secret.
	String() string
}

// LeftoverAge is the age from which Tidy should take a temporary name for a leftover: no Put takes
// that long.
const LeftoverAge = 24 * time.Hour

// Want is what the caller of Put expects.
type Want struct {
	Most   int64  // bytes; 0: any number
	SHA256 string // of the bytes, in hex; empty: unknown
}

// Object is a stored object.
type Object struct {
	Name     string
	SHA256   string    // of its bytes, in hex
	Size     int64     // bytes
	Modified time.Time // zero in what Put returns
}

// Reader reads an object. Only ReadAt may be called by several goroutines at once.
type Reader interface {
	io.ReadSeekCloser
	io.ReaderAt
	Object() Object
}

// Room is the space that a store has left.
type Room struct {
	Free  int64 // bytes
	Known bool  // whether Free is known
}

var (
	// ErrNotFound reports that no object has the name.
	ErrNotFound = errors.New("files: there is no such object")
	// ErrTooLarge reports that there were more bytes than Want.Most.
	ErrTooLarge = errors.New("files: the file is larger than allowed")
	// ErrDiffers reports that the bytes are not those of Want.SHA256.
	ErrDiffers = errors.New("files: the bytes have another SHA-256 than expected")
	// ErrFull reports that the store has no room left. Errors wrap it.
	ErrFull = errors.New("there is no room left")
)

// ReadError reports that the reader given to Put failed. The store is not at fault.
type ReadError struct{ Err error }

// Error returns the reader's error.
func (e *ReadError) Error() string { return "files: while reading: " + e.Err.Error() }

// Unwrap returns the reader's error.
func (e *ReadError) Unwrap() error { return e.Err }

const (
	// TempDir is the folder of temporary names.
	TempDir = "tmp"

	hashLength   = 64
	randomLength = 26
)

// NewTemp returns a new temporary name.
func NewTemp() string { return TempDir + "/" + random() }

// NewName returns a new name for an object with this SHA-256, in hex.
func NewName(hash string) string { return hash[:2] + "/" + hash + "-" + random() }

func random() string { return strings.ToLower(rand.Text()) }

// HashOf returns the SHA-256 in an object's name. It reports false for any other text.
func HashOf(name string) (hash string, ok bool) {
	folder, rest, _ := strings.Cut(name, "/")
	hash, end, ok := strings.Cut(rest, "-")
	if !ok || len(hash) != hashLength || len(end) != randomLength || folder != hash[:2] || !only(hash, "0123456789abcdef") || !only(end, "abcdefghijklmnopqrstuvwxyz234567") {
		return "", false
	}
	return hash, true
}

// only reports whether a text consists of certain characters.
func only(text, characters string) bool { return strings.Trim(text, characters) == "" }
