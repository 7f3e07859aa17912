// Command shots takes pictures of all pages of a service with sample accounts, light and
// dark, English and Chinese, narrow and wide, and writes them into a directory as
// PAGE-LANGUAGE-SCHEME-WIDTH.png. It prints what is wrong with the pages.
//
//	go run -C testing/browser ./shots -o DIR
//	go run -C testing/browser ./shots -o DIR -page account -lang en -width 1280
//	go run -C testing/browser ./shots -o DIR -url http://127.0.0.1:8080
//
// With -readme it makes the two pictures that the README shows, as small as they can be
// without a loss, and with -guide those of the guide, in both languages:
//
//	go run -C testing/browser ./shots -readme -o ../../deployments/guide/assets
//	go run -C testing/browser ./shots -guide -o ../../deployments/guide/assets -wait 5m
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/testing/browser"
	"github.com/rounds-dev/rounds/testing/browser/scene"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// order is what the flags ask for.
type order struct {
	dir      string
	url      string // of a service that runs already; empty: one of our own
	page     string // empty: all
	account  string
	language string // en, zh-CN; empty: both
	scheme   string // light, dark; empty: both
	width    int64  // 0: 320 and 1280
	accounts int
	wait     time.Duration
	whole    bool
	readme   bool
	guide    bool
	secret   string // signs the person in whose pages are shown; empty: nobody needs to sign in
}

func main() {
	var o order
	flag.StringVar(&o.dir, "o", "", "write pictures to this directory")
	flag.StringVar(&o.url, "url", "", "take pictures of the service that runs there; empty: of one with sample accounts")
	flag.StringVar(&o.page, "page", "", "only this page, or any path such as /accounts?kind=feed; empty: all")
	flag.StringVar(&o.account, "account", "blogs-broken", "the account whose page is shown")
	flag.StringVar(&o.language, "lang", "", "only this language, en or zh-CN; empty: both")
	flag.StringVar(&o.scheme, "scheme", "", "only light or dark; empty: both")
	flag.Int64Var(&o.width, "width", 0, "only this width in pixels; 0: 320 and 1280")
	flag.IntVar(&o.accounts, "accounts", 300, "how many sample accounts are well")
	flag.DurationVar(&o.wait, "wait", 20*time.Second, "how long the service runs before the first picture")
	flag.BoolVar(&o.whole, "whole", true, "show the whole page, not only the first screen")
	flag.BoolVar(&o.readme, "readme", false, "make the pictures of the README")
	flag.BoolVar(&o.guide, "guide", false, "make the pictures of the guide")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "shots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o order) (err error) {
	if o.dir == "" {
		return errors.New("-o DIR is needed")
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	if o.url == "" {
		end, err := own(ctx, &o)
		if err != nil {
			return err
		}
		defer end()
	}
	path, err := browser.LookPath()
	if err != nil {
		return err
	}
	b, err := browser.Launch(path)
	if err != nil {
		return err
	}
	defer b.Close()
	tab, err := b.Open(o.url)
	if err != nil {
		return err
	}
	defer tab.Close()
	if o.readme {
		return readme(tab, o)
	}
	if o.guide {
		return guide(tab, o)
	}
	return all(ctx, tab, o)
}

// own starts a service with sample accounts, and lets it run for a while. For the README and the guide,
// people work there.
func own(ctx context.Context, o *order) (func(), error) {
	redis, err := redistest.Find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "shots")
	if err != nil {
		return nil, err
	}
	peopled := o.readme || o.guide
	s, err := scene.Start(scene.Options{Redis: redis, Dir: dir, Pollers: 2, Locked: peopled, Lasting: peopled, WeChat: "http://weixin.example"})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	leave := func() {}
	end := func() {
		leave()
		_ = s.Close() // the pictures are taken
		_ = os.RemoveAll(dir)
	}
	o.url = s.URL
	failing, err := s.Populate(ctx, o.accounts, "every 10s")
	fmt.Fprintf(os.Stderr, "the service at %s runs for %v first\n", s.URL, o.wait)
	switch {
	case err != nil:
	case peopled:
		var p *people
		if p, err = hire(ctx, s); err == nil {
			leave, o.secret = p.leave, p.keys["anna"]
			err = p.work(ctx, failing, *o)
		}
	default:
		err = wait(ctx, o.wait)
	}
	if err != nil {
		end()
		return nil, err
	}
	return end, nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// all takes every picture that was asked for, and tells what is wrong with the pages.
func all(ctx context.Context, tab *browser.Tab, o order) error {
	for _, page := range o.pages() {
		for _, language := range either(o.language, "en", "zh-CN") {
			if err := errors.Join(tab.Speak(language), tab.Go(page.Path)); err != nil {
				return err
			}
			if faults := tab.Faults(); len(faults) > 0 {
				fmt.Printf("%s: %s\n", language, faults)
				if slices.ContainsFunc(faults, func(f browser.Fault) bool { return strings.HasPrefix(f.Text, "404 "+o.url+page.Path) }) {
					break // it is not built
				}
			}
			for _, scheme := range either(o.scheme, "light", "dark") {
				if err := errors.Join(ctx.Err(), tab.Darken(scheme == "dark"), tab.Inspect(browser.Everything)); err != nil {
					return err
				}
				for _, width := range o.widths() {
					name := fmt.Sprintf("%s-%s-%s-%d.png", page.Name, language, scheme, width)
					if err := shoot(tab, width, o.whole, filepath.Join(o.dir, name)); err != nil {
						return err
					}
				}
				for _, f := range tab.Faults() {
					fmt.Printf("%s %s: %s\n", language, scheme, f)
				}
			}
		}
	}
	return nil
}

// shoot takes one picture.
func shoot(tab *browser.Tab, width int64, whole bool, path string) error {
	if err := tab.Measure(width); err != nil {
		return err
	}
	if err := tab.Widen(width); err != nil {
		return err
	}
	picture, err := tab.Screenshot(whole)
	if err != nil {
		return err
	}
	return os.WriteFile(path, picture, 0o644)
}

func (o order) pages() []scene.Page {
	if strings.HasPrefix(o.page, "/") {
		name := strings.Map(func(r rune) rune {
			if strings.ContainsRune("/?&=%", r) {
				return '_'
			}
			return r
		}, o.page)
		return []scene.Page{{Name: strings.Trim(name, "_"), Path: o.page}}
	}
	var chosen []scene.Page
	for _, page := range scene.Pages(o.account) {
		if o.page == "" || o.page == page.Name {
			chosen = append(chosen, page)
		}
	}
	return chosen
}

func (o order) widths() []int64 {
	if o.width > 0 {
		return []int64{o.width}
	}
	return []int64{320, 1280}
}

// either returns the one that was asked for, or else all.
func either(asked string, all ...string) []string {
	if asked != "" {
		return []string{asked}
	}
	return all
}
