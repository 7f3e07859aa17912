package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
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
	then       func(*browser.Tab) error // what a person does on the page before the picture is taken; nil: nothing
}

// readme makes the pictures of the README: the Overview in light, and an account in dark.
func readme(tab *browser.Tab, o order) error {
	if err := signIn(tab, o); err != nil {
		return err
	}
	return take(tab, o, o.dir, 128, []picture{{name: "overview", path: "/"}, {name: "account", path: accountPath(o), dark: true}})
}

// guide makes the pictures of the guide in both languages, with few colours, because the service
// carries them. Those of the dashboard's pages have the pages' names.
func guide(tab *browser.Tab, o order) error {
	pictures := []picture{
		{name: "trail", path: "/trail"}, // before others add to it
		{name: "overview", path: "/"}, {name: "problems", path: "/problems"}, {name: "accounts", path: "/accounts"}, {name: "account", path: accountPath(o)},
		{name: "charts", path: "/charts", then: reveal(`[aria-labelledby="whole-title"]`)},
		{name: "messages", path: "/messages"}, {name: "message", path: "/messages?account=desk-city", then: follow(`#rows li [data-f=at]`)},
		{name: "delivery", path: "/delivery"}, {name: "endpoint", path: "/delivery", then: reveal("#add-endpoint")},
		{name: "webhook", path: "/delivery/webhook?name=archive"}, {name: "letter", path: "/delivery", then: follow(`.letters a[href^="/delivery/letter"]`)},
		{name: "sends", path: "/delivery/sends"},
		{name: "edit", path: "/account/new?kind=feed&url=http%3A%2F%2Fpress.example%2Ffeeds%2Fculture", then: submit(`#account .actions button[value=try]`, "#id", "press-culture")},
		{name: "versions", path: "/account/versions?id=" + url.QueryEscape(o.account)},
		{name: "scan", path: "/account/weixin", then: submit("#id", "#id", "weixin-desk")}, {name: "mail", path: "/account/mail"},
		{name: "moving", path: "/accounts/moving", then: preview}, {name: "jobs", path: "/jobs"}, {name: "job", path: "/jobs", then: follow(`tr:has(.badge.good) a[href^="/job"]`)},
		{name: "limits", path: "/limits"}, {name: "system", path: "/system"}, {name: "administration", path: "/administration"},
	}
	switch told, err := tab.Tells("中", "文"); {
	case err != nil:
		return err
	case !told:
		return errors.New("no font of this machine has Chinese letters: install one, such as fonts-wqy-zenhei")
	}
	// The page where one signs in is shown to those alone who have not.
	for _, pictures := range [][]picture{{{name: "signin", path: "/signin"}}, pictures} {
		for _, language := range either(o.language, "en", "zh-CN") {
			dir := filepath.Join(o.dir, language)
			if err := errors.Join(os.MkdirAll(dir, 0o755), tab.Speak(language)); err != nil {
				return err
			}
			if err := take(tab, o, dir, 16, pictures); err != nil {
				return err
			}
		}
		if err := signIn(tab, o); err != nil {
			return err
		}
		o.secret = ""
	}
	return nil
}

// signIn signs the person in whose pages are shown, if that is needed.
func signIn(tab *browser.Tab, o order) error {
	if o.secret == "" {
		return nil
	}
	return errors.Join(tab.Go("/signin"), tab.Fill("#secret", o.secret), tab.Submit("#secret"))
}

// reveal opens what is closed in a part of the page, and scrolls to it.
func reveal(part string) func(*browser.Tab) error {
	return func(tab *browser.Tab) error { return tab.Reveal(part) }
}

// follow follows a link.
func follow(link string) func(*browser.Tab) error {
	return func(tab *browser.Tab) error { return errors.Join(tab.Follow(link), tab.Settle()) }
}

// preview asks what the import of a list would do.
func preview(tab *browser.Tab) error {
	return errors.Join(tab.Attach("#file", "feeds.opml", feeds), tab.Submit("#file"))
}

// feeds is a list of another program.
const feeds = `<?xml version="1.0"?><opml version="2.0"><head><title>Feeds</title></head><body>
<outline text="Culture">
<outline type="rss" text="Theatre" xmlUrl="http://press.example/feeds/theatre"/>
<outline type="rss" text="Film" xmlUrl="http://press.example/feeds/film"/>
<outline type="rss" text="Books" xmlUrl="http://blogs.example/feeds/books"/>
</outline>
<outline text="City">
<outline type="rss" text="Council" xmlUrl="http://city.example/feeds/council"/>
<outline type="rss" text="Trams" xmlUrl="http://city.example/feeds/trams"/>
<outline type="rss" text="Old town" xmlUrl="gopher://city.example/old-town"/>
</outline>
<outline type="rss" text="Harbour" xmlUrl="http://harbour.example/feeds/news"/>
<outline type="rss" text="Weather" xmlUrl="http://user:secret@weather.example/feeds/8"/>
<outline type="rss" text="Nothing" xmlUrl=""/>
<outline type="rss" text="Radio" xmlUrl="feeds/radio"/>
<outline type="rss" text="Archive" xmlUrl="file:///srv/archive.xml"/>
</body></opml>`

// submit fills a field and submits a form by a button, or by the field.
func submit(by, field, value string) func(*browser.Tab) error {
	return func(tab *browser.Tab) error {
		return errors.Join(tab.Fill(field, value), tab.Submit(by), tab.Settle())
	}
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
		if p.then != nil {
			if err := p.then(tab); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
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

// shrink writes a PNG with a palette of so many colours, at most 256. A page
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

// frequent returns n colours by which the picture changes little: each one has many pixels and is far from
// those before. The distance counts for more, so that the sign of a single word keeps its colour, too.
func frequent(counts map[color.RGBA]int, n int) color.Palette {
	all := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	far := make([]int, len(all)) // from the nearest colour that was chosen
	for i := range far {
		far[i] = math.MaxInt32
	}
	palette := make(color.Palette, 0, n)
	for next := 0; len(palette) < min(n, len(all)); {
		chosen, most := all[next], -1
		palette = append(palette, chosen)
		for i, c := range all {
			far[i] = min(far[i], apart(c, chosen))
			if gain := int(math.Sqrt(float64(counts[c]))) * far[i]; gain > most {
				next, most = i, gain
			}
		}
	}
	return palette
}

// apart returns the square of the distance between two colours.
func apart(a, b color.RGBA) int {
	r, g, blue := int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B)
	return r*r + g*g + blue*blue
}
