package weixin

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"io"

	"github.com/rounds-dev/rounds/poller"
)

const (
	keySize = 16
	// sealedAtOnce is how many bytes are decrypted at once.
	sealedAtOnce = 32 << 10
)

// opened decrypts a file while it comes: AES-128-ECB with the padding of PKCS #7. The last block is
// held back until the end has come, because it has the padding.
type opened struct {
	from   io.ReadCloser
	block  cipher.Block
	buffer []byte
	plain  []byte // decrypted and not read yet, within buffer
	at     int    // where what is still encrypted begins in buffer …
	rest   int    // … and how many bytes it has
	err    error  // after plain
}

// decrypt returns what is within an encrypted file.
func decrypt(from io.ReadCloser, key [keySize]byte) io.ReadCloser {
	block, err := aes.NewCipher(key[:])
	return &opened{from: from, block: block, err: err}
}

// Close implements io.Closer.
func (o *opened) Close() error { return o.from.Close() }

// Read implements io.Reader.
func (o *opened) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(o.plain) == 0 {
		if o.err != nil {
			return 0, o.err
		}
		o.fill()
	}
	n := copy(p, o.plain)
	o.plain = o.plain[n:]
	return n, nil
}

// fill reads some bytes, and decrypts all whole blocks but the last. At the end it decrypts that one
// too.
func (o *opened) fill() {
	if o.buffer == nil {
		o.buffer = make([]byte, sealedAtOnce+aes.BlockSize)
	}
	copy(o.buffer, o.buffer[o.at:o.at+o.rest])
	n, err := o.from.Read(o.buffer[o.rest:])
	have := o.rest + n
	if errors.Is(err, io.EOF) {
		o.finish(have)
		return
	}
	o.err = err
	o.at = max(0, have-1) / aes.BlockSize * aes.BlockSize // a byte or more stays
	o.rest = have - o.at
	o.decrypt(o.buffer[:o.at])
	o.plain = o.buffer[:o.at]
}

// finish decrypts the last blocks and takes their padding away.
func (o *opened) finish(have int) {
	o.err = io.EOF
	if have == 0 || have%aes.BlockSize != 0 {
		o.err = undecrypted("file_length", "the encrypted file does not end with a whole block: it is not whole, or not encrypted")
		return
	}
	o.decrypt(o.buffer[:have])
	padding := int(o.buffer[have-1])
	ok := padding >= 1 && padding <= aes.BlockSize
	for i := have - min(max(padding, 1), aes.BlockSize); i < have; i++ {
		ok = ok && int(o.buffer[i]) == padding
	}
	if !ok {
		o.err = undecrypted("file_padding", "the decrypted file does not end with a padding: its key in the message is another one's, or the file is damaged")
		return
	}
	o.plain = o.buffer[:have-padding]
}

// decrypt decrypts whole blocks in place.
func (o *opened) decrypt(blocks []byte) {
	for ; len(blocks) > 0; blocks = blocks[aes.BlockSize:] {
		o.block.Decrypt(blocks, blocks)
	}
}

// undecrypted returns the error for a file that cannot be decrypted.
func undecrypted(code, message string) *poller.CheckError {
	return &poller.CheckError{Kind: poller.Protocol, Scope: poller.ScopeAccount, Code: code, Message: message}
}
