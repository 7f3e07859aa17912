package thumbnail

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"runtime"
	"strings"
	"testing"
)

// drawn is an image whose left half is red. The right half is blue, or transparent.
func drawn(width, height int, right color.Color) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			if x < width/2 {
				m.Set(x, y, color.NRGBA{255, 0, 0, 255})
			} else {
				m.Set(x, y, right)
			}
		}
	}
	return m
}

func encoded(t testing.TB, format string, m image.Image) []byte {
	var out bytes.Buffer
	var err error
	switch format {
	case "jpeg":
		err = jpeg.Encode(&out, m, nil)
	case "png":
		err = png.Encode(&out, m)
	case "gif":
		err = gif.Encode(&out, m, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func webps(t testing.TB) (lossy, lossless, alpha []byte) {
	all := make([][]byte, 3)
	for i, text := range []string{
		"UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA",
		"UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==",
		"UklGRkoAAABXRUJQVlA4WAoAAAAQAAAAAAAAAAAAQUxQSAwAAAARBxAR/Q9ERP8DAABWUDggGAAAABQBAJ0BKgEAAQAAAP4AAA3AAP7mtQAAAA==",
	} {
		var err error
		if all[i], err = base64.StdEncoding.DecodeString(text); err != nil {
			t.Fatal(err)
		}
	}
	return all[0], all[1], all[2]
}

// A thumbnail shows what its image shows, at most 256 pixels wide and high, and is encoded anew.
func TestThumbnails(t *testing.T) {
	blue, clear := color.NRGBA{0, 0, 255, 255}, color.NRGBA{}
	lossy, lossless, alpha := webps(t)
	marked := append(encoded(t, "png", drawn(8, 8, blue)), "<script>alert(1)</script>"...)
	for name, test := range map[string]struct {
		data          []byte
		mediaType     string
		width, height int
	}{
		"wide jpeg":       {encoded(t, "jpeg", drawn(512, 128, blue)), "image/jpeg", 256, 64},
		"high png":        {encoded(t, "png", drawn(100, 400, blue)), "image/jpeg", 64, 256},
		"transparent png": {encoded(t, "png", drawn(300, 300, clear)), "image/png", 256, 256},
		"gif":             {encoded(t, "gif", drawn(256, 256, blue)), "image/jpeg", 256, 256},
		"small":           {encoded(t, "png", drawn(4, 2, blue)), "image/jpeg", 4, 2},
		"thin":            {encoded(t, "png", drawn(5000, 1, blue)), "image/jpeg", 256, 1},
		"marked":          {marked, "image/jpeg", 8, 8},
		"lossy webp":      {lossy, "image/jpeg", 1, 1},
		"lossless webp":   {lossless, "", 1, 1},
		"alpha webp":      {alpha, "", 1, 1},
	} {
		small, err := Make(t.Context(), test.data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m, _, err := image.Decode(bytes.NewReader(small.Bytes))
		if err != nil || m.Bounds().Dx() != test.width || m.Bounds().Dy() != test.height || test.mediaType != "" && small.Type != test.mediaType {
			t.Errorf("%s: %s, %v, %v", name, small.Type, m.Bounds(), err)
			continue
		}
		if bytes.Contains(small.Bytes, []byte("script")) {
			t.Errorf("%s: it has bytes of the image", name)
		}
		if test.width < 16 || test.height < 2 {
			continue
		}
		if r, _, b, a := m.At(2, test.height/2).RGBA(); r < 0xe000 || b > 0x3000 || a != 0xffff {
			t.Errorf("%s: left is %x, %x, %x", name, r, b, a)
		}
		r, _, b, a := m.At(test.width-3, test.height/2).RGBA()
		if small.Type == "image/png" && a != 0 || small.Type == "image/jpeg" && (b < 0xe000 || r > 0x3000) {
			t.Errorf("%s: right is %x, %x, %x", name, r, b, a)
		}
	}
}

// pngOf is the beginning of a PNG with a header that says so.
func pngOf(width, height uint32, depth, colors, interlaced byte) []byte {
	header := []byte("IHDR")
	header = binary.BigEndian.AppendUint32(header, width)
	header = binary.BigEndian.AppendUint32(header, height)
	header = append(header, depth, colors, 0, 0, interlaced)
	data := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), header...)
	return binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(header))
}

// jpegOf is the beginning of a JPEG with a frame that says so.
func jpegOf(width, height uint16, marker byte) []byte {
	data := []byte{0xff, 0xd8, 0xff, marker, 0, 17, 8}
	data = binary.BigEndian.AppendUint16(data, height)
	data = binary.BigEndian.AppendUint16(data, width)
	data = append(data, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0)
	return append(data, 0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0)
}

func gifOf(width, height uint16) []byte {
	data := []byte("GIF89a")
	data = binary.LittleEndian.AppendUint16(data, width)
	return append(binary.LittleEndian.AppendUint16(data, height), 0, 0, 0)
}

// webpOf is a WebP file with chunks: their ids and bytes in turns.
func webpOf(chunks ...string) []byte {
	body := []byte("WEBP")
	for i := 0; i+1 < len(chunks); i += 2 {
		body = append(body, chunks[i]...)
		body = binary.LittleEndian.AppendUint32(body, uint32(len(chunks[i+1])))
		body = append(body, chunks[i+1]...)
		if len(chunks[i+1])%2 == 1 {
			body = append(body, 0)
		}
	}
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

// bombs are files that claim to be images, by the reason for which each is refused.
func bombs(t testing.TB) map[string][][]byte {
	lossy, _, _ := webps(t)
	lies := bytes.Clone(lossy)
	binary.LittleEndian.PutUint32(lies[4:], 0x7ffffff8)
	binary.LittleEndian.PutUint32(lies[16:], 0x7fffffe0)
	const extended, translucent = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\x10\x00\x00\x00\xff\xff\xff\xff\xff\xff"
	const square = "\x2f\xff\xff\xff\x0f" // 16384 × 16384 pixels
	return map[string][][]byte{
		notImage: {nil, []byte("<svg xmlns='http://www.w3.org/2000/svg'/>"), []byte("<html>"), []byte("GIF"), []byte("RIFF\x00\x00\x00\x00WAVE"), []byte("BM")},
		tooManyPixels: {
			pngOf(8001, 8000, 8, 2, 0), pngOf(1<<31-1, 1, 8, 0, 0), pngOf(64_000_001, 1, 1, 0, 0), jpegOf(65535, 65535, 0xc0), gifOf(65535, 65535),
			webpOf("VP8X", "\x00\x00\x00\x00\xff\x9f\x00\xff\x9f\x00", "VP8L", "\x2f\x00\x00\x00\x00"),
		},
		tooMuchMemory: {
			pngOf(8000, 8000, 16, 6, 0), pngOf(8000, 8000, 8, 6, 1), jpegOf(8000, 8000, 0xc2), append(jpegOf(8000, 8000, 0xc0), 0xff, 0xee),
			webpOf("VP8L", "\x2f\x00\x00\x00\x00"+strings.Repeat("x", 1<<20)),
		},
		unreadable: {
			pngOf(8000, 8000, 8, 0, 0), pngOf(0, 1, 8, 0, 0), []byte("\x89PNG\r\n\x1a\n"), jpegOf(10, 10, 0xc0), []byte("\xff\xd8\xff"), gifOf(10, 10), []byte("GIF89a"),
			webpOf("VP8X", extended, "VP8L", square), webpOf("VP8X", extended, "ANMF", ""), webpOf("VP8X", translucent), lies, lossy[:len(lossy)-9], []byte("RIFF\x00\x00\x00\x00WEBPVP8 "),
		},
		tooLarge: {append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, MaxBytes)...)},
	}
}

// What would take too much memory or is no image is refused before it is decoded.
func TestBombsAreRefused(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for reason, all := range bombs(t) {
		for i, data := range all {
			var refused *Refusal
			if small, err := Make(t.Context(), data); !errors.As(err, &refused) || refused.Reason != reason {
				t.Errorf("%s, %d: %v, %v", reason, i, small, err)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 2*MaxBytes+maxMemory/2 { // a gray PNG of 64 megapixels, and the largest file
		t.Errorf("they took %d MiB", took>>20)
	}
}

// Decoding ends with its context, which is no refusal.
func TestDecodingEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Make(ctx, encoded(t, "png", drawn(8, 8, color.Black))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A Maker reads each image once while it remembers the thumbnail, or that there is none. What it
// could not read, it reads again.
func TestAMakerRemembers(t *testing.T) {
	m, reads := NewMaker(), 0
	image, away := encoded(t, "png", drawn(8, 8, color.Black)), errors.New("the store is away")
	of := func(hash string, data []byte, failed error) (*Image, error) {
		return m.Of(t.Context(), hash, func(context.Context) ([]byte, error) {
			reads++
			return data, failed
		})
	}
	if _, err := of("a", nil, away); !errors.Is(err, away) {
		t.Error(err)
	}
	for range 2 {
		if small, err := of("a", image, nil); err != nil || small.Type != "image/jpeg" {
			t.Error(err)
		}
		if _, err := of("b", []byte("no image"), nil); err == nil {
			t.Error("no refusal")
		}
	}
	if reads != 3 {
		t.Errorf("%d reads", reads)
	}
	large := &entry{hash: "large", image: &Image{Bytes: make([]byte, keptBytes-2*besides)}}
	m.remember(large)
	if m.remembered("a") != nil || m.remembered("large") == nil || m.bytes > keptBytes || len(m.by) != m.latest.Len() {
		t.Errorf("%d bytes in %d", m.bytes, len(m.by))
	}
}

// Whatever comes, there is a thumbnail within bounds or a refusal.
func FuzzMake(f *testing.F) {
	lossy, lossless, alpha := webps(f)
	for _, data := range [][]byte{lossy, lossless, alpha} {
		f.Add(data)
	}
	for _, format := range []string{"jpeg", "png", "gif"} {
		f.Add(encoded(f, format, drawn(9, 5, color.NRGBA{0, 0, 255, 128})))
	}
	for reason, all := range bombs(f) {
		if reason == tooLarge || reason == tooMuchMemory {
			continue
		}
		for _, data := range all {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		small, err := Make(t.Context(), data)
		var refused *Refusal
		if err != nil {
			if !errors.As(err, &refused) {
				t.Fatal(err)
			}
			return
		}
		c, _, err := image.DecodeConfig(bytes.NewReader(small.Bytes))
		if err != nil || c.Width > Side || c.Height > Side || small.Type != "image/jpeg" && small.Type != "image/png" {
			t.Fatalf("%s of %d × %d: %v", small.Type, c.Width, c.Height, err)
		}
	})
}
