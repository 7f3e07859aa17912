package s3

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/rounds-dev/rounds/poller/files"
)

// chunkSize is by how much a part grows, so that small files need little memory.
const chunkSize = 64 << 10

// chunks retains the memory of parts for later ones. A large file would leave its whole size as garbage
// otherwise.
type chunks struct{ pool sync.Pool }

func (c *chunks) get() *[chunkSize]byte {
	if chunk, ok := c.pool.Get().(*[chunkSize]byte); ok {
		return chunk
	}
	return new([chunkSize]byte)
}

// part is a part of a file in memory.
type part struct {
	from *chunks
	data []*[chunkSize]byte
	size int64
}

// fill replaces the part with the next bytes of a file, up to most of them. last reports that the file
// has ended.
func (p *part) fill(in *files.Intake, most int64) (last bool, err error) {
	p.size = 0
	for p.size < most {
		n := p.size / chunkSize
		if n == int64(len(p.data)) {
			p.data = append(p.data, p.from.get())
		}
		chunk := p.data[n][p.size%chunkSize:]
		read, err := in.Read(chunk[:min(int64(len(chunk)), most-p.size)])
		p.size += int64(read)
		if in.Ended() {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// release gives the memory back.
func (p *part) release() {
	for _, chunk := range p.data {
		p.from.pool.Put(chunk)
	}
	p.data, p.size = nil, 0
}

// SHA256 returns the part's hash in hex.
func (p *part) SHA256() string {
	hash := sha256.New()
	for n := int64(0); n*chunkSize < p.size; n++ {
		hash.Write(p.data[n][:min(chunkSize, p.size-n*chunkSize)])
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// body is a part as the body of one request. The transport may still read it after the request has
// failed, so a closed body no longer touches the part.
type body struct {
	mu     sync.Mutex
	part   *part
	at     int64
	closed bool
}

// Read implements io.Reader.
func (b *body) Read(into []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, fs.ErrClosed
	}
	if b.at >= b.part.size {
		return 0, io.EOF
	}
	end := min(b.part.size-b.at/chunkSize*chunkSize, chunkSize)
	n := copy(into, b.part.data[b.at/chunkSize][b.at%chunkSize:end])
	b.at += int64(n)
	return n, nil
}

// Seek goes back to the beginning. The client asks for nothing else.
func (b *body) Seek(offset int64, whence int) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if offset != 0 || whence != io.SeekStart {
		return 0, errors.ErrUnsupported
	}
	b.at = 0
	return 0, nil
}

// close ends all reading.
func (b *body) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
