package datadir

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

const (
	// format is the version of the format that this program writes, and the latest that
	// it reads. A program that only reads version 1 does not know logs, and would leave
	// out their changes.
	format = 2
	// magic marks the file in the header.
	magic = "rounds data"
	// lineBytes is about how many bytes of strings a line has at most, unless one string
	// alone has more; lineValues how many strings.
	lineBytes  = 256 << 10
	lineValues = 4096
	// maxLine is the most bytes of a line that is read: enough for a value of 8 MiB in
	// base64 or escaped, and for a million pending messages.
	maxLine = 256 << 20
)

// Header is the first line of an image.
type Header struct {
	Is      string    `json:"is"`
	Format  int       `json:"format"`
	Program string    `json:"program,omitempty"` // the version that wrote it
	Time    time.Time `json:"time"`              // of the image
	Log     int       `json:"log,omitempty"`     // as in Image
}

// Counts are how many keys, and values in them, an image has.
type Counts struct {
	Keys   int `json:"keys"`
	Values int `json:"values"`
}

// line is one line of an image. Exactly one of Header, Key, More and End is set.
type line struct {
	Header *Header  `json:"header,omitempty"`
	Key    *keyLine `json:"key,omitempty"`
	More   []string `json:"more,omitempty"`   // further values of the key before
	Base64 bool     `json:"base64,omitempty"` // all strings of Key or More are encoded
	End    *Counts  `json:"end,omitempty"`
}

// keyLine is a key and its first values. The values of a hash alternate between fields
// and values, and the values of a sorted set between members and scores. For a stream they
// are, for each entry, its id, the number of strings that follow for it, and these
// strings.
type keyLine struct {
	Name    string       `json:"name"`
	Type    string       `json:"type"`
	Expires int64        `json:"expires,omitempty"` // unix ms
	Last    string       `json:"last,omitempty"`    // of a stream: the last id that it made
	First   string       `json:"first,omitempty"`   // of a stream: earlier entries are no longer in it
	Groups  []groupImage `json:"groups,omitempty"`
	Values  []string     `json:"values,omitempty"`
}

// strings calls each for every string of the line that may hold any bytes.
func (l *line) strings(each func(*string)) {
	for i := range l.More {
		each(&l.More[i])
	}
	if l.Key == nil {
		return
	}
	each(&l.Key.Name)
	for i := range l.Key.Values {
		each(&l.Key.Values[i])
	}
	for i := range l.Key.Groups {
		g := &l.Key.Groups[i]
		each(&g.Name)
		for c := range g.Consumers {
			each(&g.Consumers[c])
		}
		for p := range g.Pending {
			each(&g.Pending[p].Consumer)
		}
	}
}

// pack encodes the line's strings if one of them is not UTF-8.
func (l *line) pack() {
	valid := true
	l.strings(func(s *string) { valid = valid && utf8.ValidString(*s) })
	if valid {
		return
	}
	l.Base64 = true
	l.strings(func(s *string) { *s = base64.StdEncoding.EncodeToString([]byte(*s)) })
}

// unpack decodes what pack encoded.
func (l *line) unpack() error {
	if !l.Base64 {
		return nil
	}
	var failed error
	l.strings(func(s *string) {
		decoded, err := base64.StdEncoding.DecodeString(*s)
		if err != nil {
			failed = errors.New("a string is not base64")
		}
		*s = string(decoded)
	})
	return failed
}

// An image is packed: frames of zstd (RFC 8878), one after the other, and at the end a
// skippable frame with the SHA-256 of all of them. A reader of zstd skips that frame.
const (
	skippable   = 0x184D2A5E // of its sixteen magic numbers
	trailerSize = 8 + sha256.Size
	// maxWindow is how many unpacked bytes an image makes its reader hold at most.
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
	errCutOff  = errors.New("it has no end: it was cut off")
	errAltered = errors.New("the checksum does not match: the file was altered")
)

// unpack returns the lines of an image, and what is wrong with its packing. Even then the
// lines can be read, as far as they go.
func unpack(image []byte) (lines *zstd.Decoder, wrong error, err error) {
	if n := len(image) - trailerSize; n < 0 || !bytes.Equal(image[n:n+8], trailer(nil)) {
		wrong = errCutOff
	} else if sum := sha256.Sum256(image[:n]); !bytes.Equal(image[n+8:], sum[:]) {
		wrong = errAltered
	}
	lines, err = zstd.NewReader(bytes.NewReader(image), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	return lines, wrong, err
}
