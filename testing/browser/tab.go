package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// patience is how long a step in the browser may take.
const patience = 60 * time.Second

// height is that of the window, in CSS pixels.
const height = 900

// Tab is a window of its own, which shares cookies and cache with no other.
type Tab struct {
	origin string // what its pages may load from: http://HOST:PORT
	ctx    context.Context
	cancel context.CancelFunc
	watch  *watch
	still  bool // pages may run no JavaScript
}

// Open opens an empty tab, 1,280 pixels wide, in English and light. Its pages may load
// only from the origin, such as http://127.0.0.1:8080. The caller calls Close.
func (b *Browser) Open(origin string) (*Tab, error) {
	t := &Tab{origin: strings.TrimSuffix(origin, "/"), watch: newWatch(origin)}
	t.ctx, t.cancel = chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(t.watch.see))
	if err := chromedp.Do(t.ctx); err != nil { // it binds the tab's life to a context without a limit
		t.cancel()
		return nil, fmt.Errorf("open a tab: %w", err)
	}
	go t.watch.answerDialogs(t.ctx)
	err := t.do(command(audits.Enable, cdp.Empty{}))
	for _, set := range []func() error{
		func() error { return t.onEveryPage(countSwaps) },
		func() error { return t.Widen(1280) },
		func() error { return t.Speak("en") },
		func() error { return t.Darken(false) },
	} {
		if err == nil {
			err = set()
		}
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close closes the tab and forgets its cookies.
func (t *Tab) Close() { t.cancel() }

// do does steps, within patience.
func (t *Tab) do(steps ...chromedp.Action[chromedp.Void]) error {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	return chromedp.Do(ctx, steps...)
}

// command returns a command of the browser's protocol as a step.
func command[P any](c cdp.Command[P, cdp.Empty], parameters P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, c, parameters)
		return err
	})
}

// Go loads a page of the origin, such as /accounts?kind=feed, and waits until it is
// loaded.
func (t *Tab) Go(path string) error {
	t.watch.visiting(path)
	if err := t.do(chromedp.Navigate(t.origin + path)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// countSwaps counts the blocks of a live page that were replaced, and how often the service
// has looked for what changed.
const countSwaps = `addEventListener("swapped", () => { window.__swaps = (window.__swaps || 0) + 1 });
window.EventSource = class extends EventSource {
  constructor(...all) {
    super(...all);
    this.addEventListener("looked", () => { window.__looked = (window.__looked || 0) + 1 });
  }
};`

// onEveryPage has a script run in every page before its own.
func (t *Tab) onEveryPage(script string) error {
	return t.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// drawn waits until what a change of the window causes is drawn.
func (t *Tab) drawn() error {
	if t.still {
		return nil // no script of the page does anything
	}
	_, err := eval[bool](t, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
	return err
}

// Settle waits until a live page has replaced its blocks once, or for three seconds. What
// they hold then was put there by a script.
func (t *Tab) Settle() error {
	_, err := eval[bool](t, `new Promise((done) => {
  const end = Date.now() + 3000;
  const look = () => {
    if (!("live" in document.body.dataset) || window.__swaps || Date.now() > end) return requestAnimationFrame(() => setTimeout(() => done(true)));
    setTimeout(look, 20);
  };
  look();
})`)
	return err
}

// Reveal opens what is closed in a part of the page, which a selector names, and scrolls to it.
func (t *Tab) Reveal(part string) error {
	_, err := eval[bool](t, fmt.Sprintf(`(() => {
  const part = document.querySelector(%q);
  for (const closed of part.querySelectorAll("details")) closed.open = true;
  part.scrollIntoView();
  return true;
})()`, part))
	return errors.Join(err, t.drawn())
}

// Tells reports whether two letters look different. Those that no font of the machine has look the same.
func (t *Tab) Tells(a, b string) (bool, error) {
	return eval[bool](t, fmt.Sprintf(`((...letters) => {
  const [one, other] = letters.map((letter) => {
    const canvas = document.createElement("canvas");
    const pen = canvas.getContext("2d");
    pen.font = "40px sans-serif";
    pen.fillText(letter, 10, 60);
    return canvas.toDataURL();
  });
  return one !== other;
})(%s, %s)`, quoted(a), quoted(b)))
}

// Widen sets the window's width in CSS pixels.
func (t *Tab) Widen(width int64) error {
	return t.do(command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1}))
}

// Speak sets the language that the browser asks for, such as zh-CN.
func (t *Tab) Speak(language string) error {
	return t.do(command(network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": language}}))
}

// Darken sets whether the person prefers dark pages. A page that is shown changes at once.
func (t *Tab) Darken(dark bool) error {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	return t.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}))
}

// allowScripts sets whether pages that are loaded from now on may run JavaScript.
func (t *Tab) allowScripts(allowed bool) error {
	t.still = !allowed
	return t.do(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !allowed}))
}

// Screenshot returns a PNG of the page: of the window, or of all that can be scrolled to.
func (t *Tab) Screenshot(whole bool) ([]byte, error) {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, func(ctx context.Context, target *chromedp.Target) ([]byte, error) {
		shot, err := cdp.Call(ctx, target, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &whole})
		return shot.Data, err
	})
}

// eval runs an expression in the tab's page and returns its value, also where the page
// itself may run no JavaScript. It waits for a promise.
func eval[T any](t *Tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		return value, fmt.Errorf("in the page: %w", err)
	}
	return value, nil
}
