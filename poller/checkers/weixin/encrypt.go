package weixin

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"io"
)

// sealedSize returns how many bytes a file has when it is encrypted.
func sealedSize(size int64) int64 { return (size/aes.BlockSize + 1) * aes.BlockSize }

// sealing encrypts a file while it is read: AES-128-ECB with the padding of PKCS #7.
type sealing struct {
	from   io.ReadCloser
	block  cipher.Block
	buffer []byte
	ready  []byte // encrypted and not read yet, within buffer
	at     int    // where what is not encrypted yet begins in buffer …
	rest   int    // … and how many bytes it has, less than a block
	err    error  // after ready
}

// encrypt returns a file as the CDN takes it.
func encrypt(from io.ReadCloser, key [keySize]byte) io.ReadCloser {
	block, err := aes.NewCipher(key[:])
	return &sealing{from: from, block: block, err: err}
}

// Close implements io.Closer.
func (s *sealing) Close() error { return s.from.Close() }

// Read implements io.Reader.
func (s *sealing) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(s.ready) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.fill()
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// fill reads some bytes and encrypts all whole blocks. At the end it adds the padding.
func (s *sealing) fill() {
	if s.buffer == nil {
		s.buffer = make([]byte, sealedAtOnce+aes.BlockSize)
	}
	copy(s.buffer, s.buffer[s.at:s.at+s.rest])
	n, err := s.from.Read(s.buffer[s.rest:sealedAtOnce])
	have := s.rest + n
	if errors.Is(err, io.EOF) {
		padding := aes.BlockSize - have%aes.BlockSize
		for range padding {
			s.buffer[have] = byte(padding)
			have++
		}
	}
	s.err = err
	s.at = have / aes.BlockSize * aes.BlockSize
	s.rest = have - s.at
	s.ready = s.buffer[:s.at]
	for blocks := s.ready; len(blocks) > 0; blocks = blocks[aes.BlockSize:] {
		s.block.Encrypt(blocks, blocks)
	}
}
