package thumbnail

import (
	"bytes"
	"encoding/binary"
	"image"
)

const (
	soiMarker  = "\xff\xd8" // the start of a JPEG
	app1Marker = 0xe1       // a segment for Exif, among others
	sosMarker  = 0xda       // the start of the pixels
	eoiMarker  = 0xd9       // the end of the image

	exifHeader       = "Exif\x00\x00"
	orientationTag   = 0x0112
	orientationShort = 3 // the tag's type
)

// orientation returns how a JPEG is to be turned to stand upright: 1 to 8, as its Exif tag says. It
// returns 1, which turns nothing, for an image without the tag, or with one that is odd in any way.
// Only segments before the pixels count, and none has more than 64 KiB.
func orientation(data []byte) int {
	rest, ok := bytes.CutPrefix(data, []byte(soiMarker))
	for ok && len(rest) >= 4 && rest[0] == 0xff {
		marker := rest[1]
		if marker == 0xff { // a byte that fills
			rest = rest[1:]
			continue
		}
		size := int(binary.BigEndian.Uint16(rest[2:])) // with its own two bytes
		if marker == sosMarker || marker == eoiMarker || size < 2 || len(rest) < 2+size {
			break
		}
		segment := rest[4 : 2+size]
		rest = rest[2+size:]
		if tiff, found := bytes.CutPrefix(segment, []byte(exifHeader)); found && marker == app1Marker {
			return orientationIn(tiff)
		}
	}
	return 1
}

// orientationIn reads the tag in the first directory of Exif's TIFF structure.
func orientationIn(tiff []byte) int {
	const header, entry = 8, 12
	if len(tiff) < header {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch string(tiff[:4]) {
	case "II*\x00":
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 1
	}
	at := int64(order.Uint32(tiff[4:]))
	if at < header || at+2 > int64(len(tiff)) {
		return 1
	}
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < entry {
			return 1
		}
		if order.Uint16(entries) == orientationTag {
			value := int(order.Uint16(entries[8:]))
			if order.Uint16(entries[2:]) != orientationShort || order.Uint32(entries[4:]) != 1 || value < 1 || value > 8 {
				return 1
			}
			return value
		}
		entries = entries[entry:]
	}
	return 1
}

// upright turns an image as its orientation says.
func upright(m *image.NRGBA, orientation int) *image.NRGBA {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	right, bottom := w-1, h-1
	from := map[int]func(x, y int) (int, int){ // the pixel that comes to a place
		2: func(x, y int) (int, int) { return right - x, y },
		3: func(x, y int) (int, int) { return right - x, bottom - y },
		4: func(x, y int) (int, int) { return x, bottom - y },
		5: func(x, y int) (int, int) { return y, x },
		6: func(x, y int) (int, int) { return y, bottom - x },
		7: func(x, y int) (int, int) { return right - y, bottom - x },
		8: func(x, y int) (int, int) { return right - y, x },
	}[orientation]
	if from == nil {
		return m
	}
	if orientation >= 5 { // it lies on its side
		w, h = h, w
	}
	turned := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			turned.SetNRGBA(x, y, m.NRGBAAt(from(x, y)))
		}
	}
	return turned
}
