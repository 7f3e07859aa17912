package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// errNone is the error if there is no browser on this machine.
var errNone = errors.New("no chromium-headless-shell is installed")

// programs are what the browser is called on different systems, as in testing/run.sh.
var programs = []string{"chromium-headless-shell", "headless_shell", "/usr/lib64/chromium-browser/headless_shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// Browser is a running browser.
type Browser struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// LookPath finds the browser's program. The error is errNone if there is none.
func LookPath() (string, error) {
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNone
}

// start starts a browser and ends it with the test. Without one it skips the test, or
// fails it where a browser must be installed.
func start(tb testing.TB) *Browser {
	tb.Helper()
	path, err := LookPath()
	switch {
	case err == nil:
	case os.Getenv("CI") != "" || os.Getenv("ROUNDS_TEST_REQUIRE_REDIS") != "":
		tb.Fatalf("%v, and here it must be", err)
	default:
		tb.Skip(err)
	}
	b, err := Launch(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(b.Close)
	return b
}

// Launch starts the browser at a path. The caller calls Close.
//
// It shows only pages of this module's own servers, so it needs no sandbox, which a
// container often does not allow. Shared memory is often small there, so it uses files.
func Launch(path string) (*Browser, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox,
		chromedp.Flag("no-zygote", true),
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-domain-reliability", true),
		chromedp.Flag("renderer-process-limit", "2"),
		chromedp.Flag("no-pings", true),
		// A name that somebody wrote into a page must not reach any resolver.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE 127.0.0.2"),
		chromedp.Env("TZ=UTC", "LANG=C.UTF-8"),
	)
	allocated, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocated, chromedp.WithErrorf(func(string, ...any) {}))
	b := &Browser{ctx: ctx, cancel: func() { cancel(); release() }}
	if err := chromedp.Do(ctx); err != nil {
		b.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// Close ends the browser and removes what it wrote.
func (b *Browser) Close() {
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	_ = chromedp.Cancel(ctx) // it is ended in any case
	b.cancel()
}
