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

// mostBytes is the most that a picture may have.
const mostBytes = 60 << 10

// picture is one that the README or the guide shows.
type picture struct {
	name, path string
	dark       bool
	part       string // what is opened and scrolled to, as a selector; empty: the top of the page
}

// readme makes the pictures of the README: the Overview in light, and an account in dark.
func readme(tab *browser.Tab, o order) error {
	return take(tab, o, o.dir, 128, []picture{{name: "overview", path: "/"}, {name: "account", path: accountPath(o), dark: true}})
}

// guide makes the pictures of the guide in both languages, with fewer colours, because the service
// carries them.
func guide(tab *browser.Tab, o order) error {
	pictures := []picture{
		{name: "overview", path: "/"}, {name: "problems", path: "/problems"}, {name: "accounts", path: "/accounts"}, {name: "account", path: accountPath(o)},
		{name: "charts", path: "/charts", part: `[aria-labelledby="whole-title"]`}, {name: "messages", path: "/messages"}, {name: "delivery", path: "/delivery"}, {name: "endpoint", path: "/delivery", part: "#add-endpoint"},
		{name: "limits", path: "/limits"}, {name: "system", path: "/system"}, {name: "administration", path: "/administration"},
	}
	for _, language := range either(o.language, "en", "zh-CN") {
		dir := filepath.Join(o.dir, language)
		if err := errors.Join(os.MkdirAll(dir, 0o755), tab.Speak(language)); err != nil {
			return err
		}
		if err := take(tab, o, dir, 32, pictures); err != nil {
			return err
		}
	}
	return nil
}

func accountPath(o order) string { return "/account?id=" + url.QueryEscape(o.account) }

// take makes pictures of so many colours, or only the one that was asked for.
func take(tab *browser.Tab, o order, dir string, colours int, pictures []picture) error {
	for _, p := range pictures {
		if o.page != "" && o.page != p.name {
			continue
		}
		if err := errors.Join(tab.Widen(1280), tab.Darken(p.dark), tab.Go(p.path), tab.Settle()); err != nil {
			return err
		}
		if p.part != "" {
			if err := tab.Reveal(p.part); err != nil {
				return err
			}
		}
		taken, err := tab.Screenshot(false)
		if err != nil {
			return err
		}
		small, err := shrink(taken, colours)
		if err != nil {
			return err
		}
		if len(small) > mostBytes {
			return fmt.Errorf("%s: %d bytes, at most %d", p.name, len(small), mostBytes)
		}
		if err := os.WriteFile(filepath.Join(dir, p.name+".png"), small, 0o644); err != nil {
			return err
		}
		fmt.Printf("%s.png: %d KiB\n", p.name, len(small)>>10)
	}
	return nil
}

// shrink writes a PNG with a palette of so many colours, at most 256, the most frequent ones. A page
// has few besides those at the edges of letters, where a neighbouring one does as well.
func shrink(picture []byte, colours int) ([]byte, error) {
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
	palette := frequent(counts, colours)
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
