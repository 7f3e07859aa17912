package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// fileContent is the bytes of a file. Any part of them is made when it is needed.
type fileContent struct {
	number int
	size   int64
}

// writeTo writes the bytes from one place to another.
func (c fileContent) writeTo(w io.Writer, from, to int64) error {
	key := sha256.Sum256(fmt.Appendf(nil, "file %d", c.number))
	block, err := aes.NewCipher(key[:aes.BlockSize])
	if err != nil {
		return err
	}
	var counter [aes.BlockSize]byte
	binary.BigEndian.PutUint64(counter[8:], uint64(from/aes.BlockSize))
	stream := cipher.NewCTR(block, counter[:])
	skip := int(from % aes.BlockSize)
	buffer := make([]byte, min(to-from+int64(skip), 64<<10))
	for from < to {
		part := buffer[:min(to-from+int64(skip), int64(len(buffer)))]
		clear(part)
		stream.XORKeyStream(part, part)
		n, err := w.Write(part[skip:])
		if err != nil {
			return err
		}
		from, skip = from+int64(n), 0
	}
	return nil
}

// sum returns the SHA-256 of all bytes, in hex.
func (c fileContent) sum() (string, error) {
	hash := sha256.New()
	err := c.writeTo(hash, 0, c.size)
	return hex.EncodeToString(hash.Sum(nil)), err
}

// comparing is a writer that fails at the first byte that is not the file's.
type comparing struct {
	content fileContent
	at      int64
}

var errOtherBytes = errors.New("other bytes than the third party has")

// Write compares the next bytes.
func (c *comparing) Write(p []byte) (int, error) {
	want := make(expected, 0, len(p))
	end := min(c.at+int64(len(p)), c.content.size)
	if err := c.content.writeTo(&want, c.at, end); err != nil {
		return 0, err
	}
	if string(want) != string(p) {
		return 0, errOtherBytes
	}
	c.at = end
	return len(p), nil
}

type expected []byte

// Write appends.
func (e *expected) Write(p []byte) (int, error) {
	*e = append(*e, p...)
	return len(p), nil
}

// Of each filesFaulty files one has a fault that concerns its whole host, at the first request, and
// of each filesRefused one is refused at first.
const (
	filesFaulty  = 1000
	filesRefused = 50
)

// fileFakes are the third parties: hosts with files. Each forgets a file some time after it was named.
type fileFakes struct {
	port   int
	until  time.Duration
	server *http.Server

	mu      sync.Mutex
	files   []fakeFile
	asked   int
	expired int           // requests for files that are forgotten
	least   time.Duration // that a file had left when it was given
}

type fakeFile struct {
	size  int64
	until time.Time
	asked int
}

func newFileFakes(until time.Duration) (*fileFakes, error) {
	listener, err := net.Listen("tcp4", "0.0.0.0:0") // all of 127/8
	if err != nil {
		return nil, err
	}
	f := &fileFakes{port: listener.Addr().(*net.TCPAddr).Port, until: until, least: until}
	f.server = &http.Server{Handler: f, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = f.server.Serve(listener) }()
	return f, nil
}

func (f *fileFakes) close() { _ = f.server.Close() }

// host returns the host of an account.
func (f *fileFakes) host(account int) string {
	return fmt.Sprintf("http://127.0.0.%d:%d", 1+account%filesHosts, f.port)
}

// name has a file from now on. It returns until when.
func (f *fileFakes) name(c fileContent) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.files) <= c.number {
		f.files = append(f.files, fakeFile{})
	}
	f.files[c.number] = fakeFile{size: c.size, until: time.Now().Add(f.until)}
	return f.files[c.number].until
}

// said returns how often files were asked for, how many of these requests came too late, and the least time
// that a file had left when it was given.
func (f *fileFakes) said() (asked, expired int, least time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked, f.expired, f.least
}

// take notes a request for a file.
func (f *fileFakes) take(number int) (file fakeFile, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number < 0 || number >= len(f.files) {
		return fakeFile{}, false
	}
	f.asked++
	file = f.files[number]
	f.files[number].asked++
	left := time.Until(file.until)
	if left <= 0 {
		f.expired++
		return fakeFile{}, false
	}
	f.least = min(f.least, left)
	return file, true
}

// ServeHTTP gives a file.
func (f *fileFakes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.Atoi(r.URL.Path[1:])
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	file, ok := f.take(number)
	if !ok {
		w.WriteHeader(http.StatusGone)
		return
	}
	end := file.size
	switch first := file.asked == 0; {
	case first && number%filesFaulty == filesFaulty/4:
		panic(http.ErrAbortHandler) // no answer
	case first && number%filesFaulty == filesFaulty/2:
		end /= 2
	case first && number%filesFaulty == 3*filesFaulty/4:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case first && number%filesRefused == 1:
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(file.size, 10))
	if err := (fileContent{number, file.size}).writeTo(w, 0, end); err != nil || end < file.size {
		panic(http.ErrAbortHandler) // in the middle of the answer
	}
}
