package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/rounds-dev/rounds/testing/browser"
)

// mostBytes is the most that a picture of the README may have.
const mostBytes = 60 << 10

// readme makes the pictures of the README: the Overview in light, and an account in dark.
func readme(tab *browser.Tab, o order) error {
	for _, p := range []struct {
		name, path string
		dark       bool
	}{{"overview", "/", false}, {"account", "/account?id=" + url.QueryEscape(o.account), true}} {
		if err := errors.Join(tab.Widen(1280), tab.Darken(p.dark), tab.Go(p.path)); err != nil {
			return err
		}
		picture, err := tab.Screenshot(false)
		if err != nil {
			return err
		}
		small, err := shrink(picture)
		if err != nil {
			return err
		}
		if len(small) > mostBytes {
			return fmt.Errorf("%s: %d bytes, at most %d", p.name, len(small), mostBytes)
		}
		if err := os.WriteFile(filepath.Join(o.dir, p.name+".png"), small, 0o644); err != nil {
			return err
		}
		fmt.Printf("%s.png: %d KiB\n", p.name, len(small)>>10)
	}
	return nil
}

// shrink writes a PNG with a palette of at most 256 colours, the most frequent ones. A page
// has few besides those at the edges of letters, where a neighbouring one does as well.
func shrink(picture []byte) ([]byte, error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	bounds := decoded.Bounds()
	counts := make(map[color.RGBA]int)
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(decoded.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	palette := frequent(counts, 128)
	nearest := make(map[color.RGBA]uint8, len(counts))
	for c := range counts {
		nearest[c] = uint8(palette.Index(c))
	}
	small := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			small.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, small); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// frequent returns the n most frequent colours.
func frequent(counts map[color.RGBA]int, n int) color.Palette {
	all := make([]color.RGBA, 0, len(counts))
	for c := range counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	palette := make(color.Palette, 0, n)
	for _, c := range all[:min(n, len(all))] {
		palette = append(palette, c)
	}
	return palette
}
