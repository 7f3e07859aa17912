package thumbnail

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/webp"
)

// format is a format of images.
type format struct {
	begins string // a question mark stands for any byte
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
	// memory returns how many bytes decoding may need, and false for a file that would mislead
	// the decoder about that.
	memory func(data []byte, c image.Config) (bytes int64, ok bool)
}

func formats() []format {
	return []format{
		{"\xff\xd8\xff", jpeg.DecodeConfig, jpeg.Decode, ofJPEG},
		{"\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode, ofPNG},
		{"GIF8?a", gif.DecodeConfig, gif.Decode, ofGIF},
		{"RIFF????WEBPVP8", webp.DecodeConfig, webp.Decode, ofWebP},
	}
}

// formatOf returns the format of an image, or nil.
func formatOf(data []byte) *format {
	for _, f := range formats() {
		if begins(data, f.begins) {
			return &f
		}
	}
	return nil
}

func begins(data []byte, with string) bool {
	if len(data) < len(with) {
		return false
	}
	for i := range len(with) {
		if with[i] != '?' && with[i] != data[i] {
			return false
		}
	}
	return true
}

// measure returns the format of an image, or a *Refusal.
func measure(data []byte) (*format, error) {
	f := formatOf(data)
	if f == nil {
		return nil, &Refusal{notImage}
	}
	c, err := f.config(bytes.NewReader(data))
	if err != nil || c.Width <= 0 || c.Height <= 0 {
		return nil, &Refusal{unreadable}
	}
	if tooMany(int64(c.Width), int64(c.Height)) {
		return nil, &Refusal{tooManyPixels}
	}
	need, ok := f.memory(data, c)
	switch {
	case !ok:
		return nil, &Refusal{unreadable}
	case need > maxMemory:
		return nil, &Refusal{tooMuchMemory}
	}
	return f, nil
}

func tooMany(width, height int64) bool { return width > MaxPixels || height > MaxPixels/width }

// pixels returns how many pixels an image has whose sides are multiples of a block's.
func pixels(c image.Config, block int) int64 {
	return int64(c.Width+block-1) * int64(c.Height+block-1)
}

// ofJPEG counts planes that are not subsampled. A progressive image also needs four bytes for each
// coefficient. Colors that are not YCbCr are copied into another image.
func ofJPEG(data []byte, c image.Config) (int64, bool) {
	each := int64(3)
	switch c.ColorModel {
	case color.GrayModel:
		each = 1
	case color.CMYKModel:
		each = 4
	}
	planes := each
	// Within pixels, 0xff comes only before 0x00 and 0xd0 to 0xd7.
	if bytes.Contains(data, []byte{0xff, 0xc2}) { // the marker of progressive images
		each += 4 * planes
	}
	if c.ColorModel == color.CMYKModel || c.ColorModel == color.RGBAModel || bytes.Contains(data, []byte{0xff, 0xee}) { // Adobe's
		each += 4
	}
	return each * pixels(c, 32), true
}

func ofPNG(data []byte, c image.Config) (int64, bool) {
	const header = 8 + 8 + 13
	if len(data) < header {
		return 0, false
	}
	each := int64(4)
	depth, colors, interlaced := data[24], data[25], data[28] != 0
	switch {
	case depth == 16:
		each = 8
	case colors == 3: // a palette
		each = 1
	}
	if interlaced { // each pass is an image of its own
		each *= 2
	}
	return each * pixels(c, 1), true
}

// ofGIF counts a frame, which fits into the screen, and its copy if it is interlaced.
func ofGIF(_ []byte, c image.Config) (int64, bool) { return 2 * pixels(c, 1), true }

const (
	// huffmanMost is what WebP's lossless decoder allocates for as many groups of codes as there
	// can be, however short the file is, and huffmanByte what each byte of the file can make it
	// allocate for codes.
	huffmanMost = 65536 * 5 * (24 + 4*128)
	huffmanByte = 256
)

// ofWebP finds the frame: a header of the extended format may say another size. It refuses chunks
// that are not all there, because the decoder allocates as much as a chunk says it has.
func ofWebP(data []byte, c image.Config) (need int64, ok bool) {
	canvas := pixels(c, 16)
	need = canvas
	for rest := data[12:]; len(rest) >= 8; {
		id, n := string(rest[:4]), int64(binary.LittleEndian.Uint32(rest[4:]))
		if rest = rest[8:]; n > int64(len(rest)) {
			return 0, false
		}
		body := rest[:n]
		rest = rest[min(n+n%2, int64(len(rest))):]
		var width, height int64
		switch id {
		case "ALPH":
			need += 8*canvas + huffmanMost + huffmanByte*n
			continue
		case "VP8 ":
			if n < 10 {
				return 0, false
			}
			width, height = int64(binary.LittleEndian.Uint16(body[6:])&0x3fff), int64(binary.LittleEndian.Uint16(body[8:])&0x3fff)
			need += 3*(width+16)*(height+16) + 2*n
		case "VP8L":
			if n < 5 {
				return 0, false
			}
			bits := int64(binary.LittleEndian.Uint32(body[1:]))
			width, height = bits&0x3fff+1, bits>>14&0x3fff+1
			need += 8*width*height + huffmanMost + huffmanByte*n
		default:
			continue
		}
		return need, width > 0 && height > 0 && !tooMany(width, height)
	}
	return 0, false
}
