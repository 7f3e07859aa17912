package datadir

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// An image is packed: frames of zstd (RFC 8878), one after the other, and at the end a
// skippable frame with the SHA-256 of all before. A reader of zstd passes over that.
const (
	skippable   = 0x184D2A5E // of its sixteen magic numbers
	trailerSize = 8 + sha256.Size
	// maxWindow is the most that an image makes its reader hold of what was unpacked.
	maxWindow = 64 << 20
)

// packAll packs lines into a frame of their own.
func packAll(lines []byte) ([]byte, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, err
	}
	return z.EncodeAll(lines, nil), z.Close()
}

// packer packs lines and frames into an image. After an error it writes nothing.
type packer struct {
	out  io.Writer // with the sum
	sum  hash.Hash
	z    *zstd.Encoder
	open bool // a frame is not ended
	err  error
}

func newPacker(out io.Writer) *packer {
	p := &packer{sum: sha256.New()}
	p.out = io.MultiWriter(out, p.sum)
	p.z, p.err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	return p
}

// Write packs lines.
func (p *packer) Write(lines []byte) (int, error) {
	if p.err == nil && !p.open {
		p.z.Reset(p.out)
		p.open = true
	}
	if p.err == nil {
		_, p.err = p.z.Write(lines)
	}
	return len(lines), p.err
}

// frame writes a frame as it is.
func (p *packer) frame(packed []byte) {
	p.end()
	if p.err == nil {
		_, p.err = p.out.Write(packed)
	}
}

// end ends the frame.
func (p *packer) end() {
	if p.err == nil && p.open {
		p.err = p.z.Close()
		p.open = false
	}
}

// close ends the image.
func (p *packer) close() error {
	p.end()
	if p.err != nil {
		return p.err
	}
	_, err := p.out.Write(trailer(p.sum.Sum(nil)))
	return err
}

func trailer(sum []byte) []byte {
	t := binary.LittleEndian.AppendUint32(nil, skippable)
	t = binary.LittleEndian.AppendUint32(t, sha256.Size)
	return append(t, sum...)
}

var (
	errCutOff  = errors.New("it does not end as an image does: it was cut off")
	errAltered = errors.New("the checksum is not that of what is before it: the file was altered")
)

// unpack returns the lines of an image, and what is wrong with its packing. The lines can be
// read even then, as far as they go.
func unpack(image []byte) (lines *zstd.Decoder, wrong error, err error) {
	if n := len(image) - trailerSize; n < 0 || !bytes.Equal(image[n:n+8], trailer(nil)) {
		wrong = errCutOff
	} else if sum := sha256.Sum256(image[:n]); !bytes.Equal(image[n+8:], sum[:]) {
		wrong = errAltered
	}
	lines, err = zstd.NewReader(bytes.NewReader(image), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	return lines, wrong, err
}
