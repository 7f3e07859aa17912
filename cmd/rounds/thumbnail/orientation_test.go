package thumbnail

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"strings"
	"testing"
)

// app1 is a segment of a JPEG with an Exif header.
func app1(tiff string) string {
	return "\xff\xe1" + string(binary.BigEndian.AppendUint16(nil, uint16(2+len(exifHeader)+len(tiff)))) + exifHeader + tiff
}

// tagged is the TIFF structure of Exif with some other tag and then the orientation.
func tagged(order binary.AppendByteOrder, kind uint16, count uint32, value uint16) string {
	tiff := []byte("II*\x00")
	if order.String() == binary.BigEndian.String() {
		tiff = []byte("MM\x00*")
	}
	tiff = order.AppendUint32(tiff, 10)
	tiff = append(tiff, 0, 0) // before the directory
	tiff = order.AppendUint16(tiff, 2)
	tiff = order.AppendUint32(order.AppendUint16(order.AppendUint16(tiff, 0x0100), 4), 1)
	tiff = order.AppendUint32(tiff, 7)
	tiff = order.AppendUint32(order.AppendUint16(order.AppendUint16(tiff, orientationTag), kind), count)
	tiff = order.AppendUint16(order.AppendUint16(tiff, value), 0)
	return string(order.AppendUint32(tiff, 0))
}

// within returns a JPEG with more segments before its own.
func within(jpeg []byte, segments string) []byte {
	return append([]byte(soiMarker+segments), jpeg[2:]...)
}

// corners draws an image with a colour in each quarter: top left, top right, bottom left, bottom right.
func corners(width, height int, of string) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			m.SetNRGBA(x, y, map[byte]color.NRGBA{'r': {255, 0, 0, 255}, 'g': {0, 255, 0, 255}, 'b': {0, 0, 255, 255}, 'w': {255, 255, 255, 255}}[of[2*(2*y/height)+2*x/width]])
		}
	}
	return m
}

// An image whose camera was turned stands upright: red and green on top, blue and white below.
func TestThumbnailsStandUpright(t *testing.T) {
	stored := []string{"rgbw", "grwb", "wbgr", "bwrg", "rbgw", "gwrb", "wgbr", "brwg"}
	for i, of := range stored {
		width, height := 64, 32
		if i >= 4 {
			width, height = height, width
		}
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			data := within(encoded(t, "jpeg", corners(width, height, of)), app1(tagged(order, orientationShort, 1, uint16(i+1))))
			small, err := Make(t.Context(), data)
			if err != nil {
				t.Fatal(err)
			}
			m, _, err := image.Decode(bytes.NewReader(small.Bytes))
			if err != nil || m.Bounds() != image.Rect(0, 0, 64, 32) {
				t.Fatalf("%d: %v, %v", i+1, m.Bounds(), err)
			}
			shown := ""
			for _, at := range []image.Point{{16, 8}, {48, 8}, {16, 24}, {48, 24}} {
				r, g, b, _ := m.At(at.X, at.Y).RGBA()
				name := map[[3]bool]string{{true, false, false}: "r", {false, true, false}: "g", {false, false, true}: "b", {true, true, true}: "w"}[[3]bool{r > 0x8000, g > 0x8000, b > 0x8000}]
				shown += name
			}
			if shown != "rgbw" {
				t.Errorf("%d, %s: %q", i+1, order, shown)
			}
		}
	}
}

// orientations are JPEGs and what turns each.
func orientations(t testing.TB) map[string]struct {
	data []byte
	want int
} {
	plain := encoded(t, "jpeg", corners(16, 16, "rgbw"))
	little, big := binary.LittleEndian, binary.BigEndian
	six := tagged(little, orientationShort, 1, 6)
	far := []byte(six)
	little.PutUint32(far[4:], 1<<31)
	longer := []byte(app1(six))
	big.PutUint16(longer[2:], 0xffff)
	type one = struct {
		data []byte
		want int
	}
	return map[string]one{
		"a plain one":                      {plain, 1},
		"a tag":                            {within(plain, app1(six)), 6},
		"a tag behind other segments":      {within(plain, "\xff\xe0\x00\x04ab\xff\xff\xff\xe1\x00\x06XMP.\xff\xfe\x00\x02"+app1(six)), 6},
		"a segment of 64 KiB":              {within(plain, app1(six+strings.Repeat("x", 0xffff-2-len(exifHeader)-len(six)))), 6},
		"the value 0":                      {within(plain, app1(tagged(big, orientationShort, 1, 0))), 1},
		"the value 9":                      {within(plain, app1(tagged(big, orientationShort, 1, 9))), 1},
		"another type":                     {within(plain, app1(tagged(little, 4, 1, 6))), 1},
		"two values":                       {within(plain, app1(tagged(little, orientationShort, 2, 6))), 1},
		"another byte order":               {within(plain, app1("MI*\x00"+six[4:])), 1},
		"a directory elsewhere":            {within(plain, app1(string(far))), 1},
		"a directory in the header":        {within(plain, app1(six[:4]+"\x00\x00\x00\x00"+six[8:])), 1},
		"a directory that is cut":          {within(plain, app1(six[:len(six)-9])), 1},
		"a header that is cut":             {within(plain, app1(six[:7])), 1},
		"no header":                        {within(plain, strings.Replace(app1(six), "Exif", "exif", 1)), 1},
		"another segment":                  {within(plain, strings.Replace(app1(six), "\xff\xe1", "\xff\xe2", 1)), 1},
		"a first segment without":          {within(plain, app1(six[:8])+app1(six)), 1},
		"a tag behind the pixels":          {append(bytes.Clone(plain), app1(six)...), 1},
		"a tag behind the pixels' segment": {within(plain, "\xff\xda\x00\x02"+app1(six)), 1},
		"a length beyond the end":          {within(plain, string(longer)), 1},
		"a length of nothing":              {within(plain, "\xff\xe0\x00\x01"+app1(six)), 1},
		"no JPEG":                          {[]byte("\x89PNG" + app1(six)), 1},
		"nothing":                          {nil, 1},
		"a start alone":                    {[]byte(soiMarker), 1},
	}
}

func TestOrientation(t *testing.T) {
	for name, test := range orientations(t) {
		if got := orientation(test.data); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// Whatever a JPEG says, it is turned in one of eight ways.
func FuzzOrientation(f *testing.F) {
	for _, test := range orientations(f) {
		f.Add(test.data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := orientation(data)
		if got < 1 || got > 8 {
			t.Fatalf("%d", got)
		}
		if turned := upright(image.NewNRGBA(image.Rect(0, 0, 3, 2)), got).Rect; turned.Dx()*turned.Dy() != 6 {
			t.Fatalf("%d: %v", got, turned)
		}
	})
}
