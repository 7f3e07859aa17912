package thumbnail

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"time"
)

const (
	// Side is the most pixels that a side of a thumbnail has.
	Side = 256
	// MaxBytes is the most bytes of an image.
	MaxBytes = 32 << 20
	// MaxPixels is the most pixels of an image.
	MaxPixels = 64_000_000

	maxMemory = 320 << 20        // bytes, for decoding an image
	maxTime   = 10 * time.Second // for decoding an image
	quality   = 80               // of JPEG
	samples   = 8                // of a pixel of the thumbnail, along each side
)

// The reasons of a Refusal.
const (
	notImage      = "it is not a JPEG, PNG, GIF or WebP image"
	unreadable    = "the image cannot be decoded"
	tooManyPixels = "the image has more than 64 megapixels"
	tooMuchMemory = "decoding the image could take too much memory"
	tooSlow       = "decoding the image takes too long"
	tooLarge      = "the image has more than 32 MiB"
)

// Refusal reports an image of which there is no thumbnail. It stays so.
type Refusal struct{ Reason string }

// Error returns the reason.
func (r *Refusal) Error() string { return r.Reason }

// Image is a thumbnail.
type Image struct {
	Type  string // image/jpeg, or image/png if some of it is transparent
	Bytes []byte
}

// Make makes a thumbnail of an image. Its error is a *Refusal, or that of ctx.
func Make(ctx context.Context, data []byte) (*Image, error) {
	if len(data) > MaxBytes {
		return nil, &Refusal{tooLarge}
	}
	f, err := measure(data)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	made, err := f.small(within, data)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case within.Err() != nil:
		return nil, &Refusal{tooSlow}
	case err != nil:
		return nil, &Refusal{unreadable}
	}
	return made, nil
}

// small decodes an image, shrinks it and encodes it. A decoder that panics has met an image that it
// cannot read.
func (f *format) small(ctx context.Context, data []byte) (made *Image, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			made, err = nil, fmt.Errorf("thumbnail: the decoder panicked: %v", reason)
		}
	}()
	full, err := f.decode(&timed{ctx, bytes.NewReader(data)})
	if err != nil {
		return nil, err
	}
	b := full.Bounds()
	if b.Empty() || tooMany(int64(b.Dx()), int64(b.Dy())) {
		return nil, fmt.Errorf("thumbnail: the image is %v", b)
	}
	shrunk := upright(shrink(full), orientation(data))
	var out bytes.Buffer
	if shrunk.Opaque() {
		err = jpeg.Encode(&out, shrunk, &jpeg.Options{Quality: quality})
		return &Image{"image/jpeg", out.Bytes()}, err
	}
	err = png.Encode(&out, shrunk)
	return &Image{"image/png", out.Bytes()}, err
}

// timed is a reader that ends when its context does. It gives little at once: in a progressive JPEG
// some bytes stand for a pass over all pixels.
type timed struct {
	ctx context.Context
	in  io.Reader
}

// Read reads at most 256 bytes.
func (t *timed) Read(p []byte) (int, error) {
	if err := t.ctx.Err(); err != nil {
		return 0, err
	}
	return t.in.Read(p[:min(len(p), 256)])
}

// shrink returns an image whose sides have at most Side pixels. A pixel is the mean of up to
// samples × samples that it stands for.
func shrink(full image.Image) *image.NRGBA {
	from := full.Bounds()
	width, height := from.Dx(), from.Dy()
	longest := max(width, height, Side)
	w, h := max(1, width*Side/longest), max(1, height*Side/longest)
	at := func(x, y int) color.RGBA64 {
		r, g, b, a := full.At(x, y).RGBA()
		return color.RGBA64{uint16(r), uint16(g), uint16(b), uint16(a)} // #nosec G115: RGBA returns 16 bits each
	}
	if quick, ok := full.(image.RGBA64Image); ok {
		at = quick.RGBA64At
	}
	to := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		top, bottom := y*height/h, max((y+1)*height/h, y*height/h+1)
		for x := range w {
			left, right := x*width/w, max((x+1)*width/w, x*width/w+1)
			var r, g, b, a, n uint64
			for sy := top; sy < bottom; sy += (bottom-top-1)/samples + 1 {
				for sx := left; sx < right; sx += (right-left-1)/samples + 1 {
					c := at(from.Min.X+sx, from.Min.Y+sy)
					r, g, b, a, n = r+uint64(c.R), g+uint64(c.G), b+uint64(c.B), a+uint64(c.A), n+1
				}
			}
			if a == 0 {
				continue
			}
			part := func(sum uint64) uint8 { return uint8(min(sum*255/a, 255)) } // #nosec G115: it is at most 255
			to.SetNRGBA(x, y, color.NRGBA{part(r), part(g), part(b), uint8(a / n >> 8)})
		}
	}
	return to
}
