package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Kind says which check found a fault.
type Kind string

// The kinds of faults.
const (
	console   Kind = "console"   // an error or a warning in the console
	exception Kind = "exception" // one that no script caught
	policy    Kind = "policy"    // what the content security policy forbids
	dialog    Kind = "dialog"    // alert and its like
	elsewhere Kind = "elsewhere" // a request to another origin
	answer    Kind = "answer"    // an answer of 400 or above that was not expected
	overflow  Kind = "overflow"  // the page scrolls to the side
	cut       Kind = "cut"       // text or a control that cannot be seen as a whole
	access    Kind = "access"    // what axe-core found
)

// Fault is something wrong with a page.
type Fault struct {
	Kind Kind
	Page string // the path that was visited
	Text string
}

// String returns the fault as a line of text.
func (f Fault) String() string { return fmt.Sprintf("%s: %s: %s", f.Page, f.Kind, f.Text) }

// watch collects the faults of what a tab loads.
type watch struct {
	origin  string
	dialogs chan struct{}

	mu       sync.Mutex
	page     string
	expected []int64 // statuses
	faults   []Fault
}

func newWatch(origin string) *watch {
	return &watch{origin: origin, dialogs: make(chan struct{}, 16)}
}

// visiting sets which page the faults from now on belong to.
func (w *watch) visiting(page string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.page = page
}

// fault keeps a fault, once.
func (w *watch) fault(kind Kind, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := Fault{Kind: kind, Page: w.page, Text: fmt.Sprintf(format, args...)}
	if !slices.Contains(w.faults, f) {
		w.faults = append(w.faults, f)
	}
}

func (w *watch) expects(status int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.expected, status)
}

// see is called with each event of the tab, in the browser's order. It must not wait.
func (w *watch) see(event any) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			w.fault(console, "%s: %s", e.Type, spoken(e.Args))
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if thrown := e.ExceptionDetails.Exception; thrown != nil {
			text += " " + thrown.Description
		}
		w.fault(exception, "%s", text)
	case *log.EventEntryAdded:
		w.logged(e.Entry)
	case *audits.EventIssueAdded:
		if p := e.Issue.Details.ContentSecurityPolicyIssueDetails; p != nil {
			w.fault(policy, "%s %s %s", p.ViolatedDirective, p.ContentSecurityPolicyViolationType, p.BlockedURL)
		}
	case *page.EventJavascriptDialogOpening:
		w.fault(dialog, "%s: %s", e.Type, e.Message)
		select {
		case w.dialogs <- struct{}{}:
		default: // so many are waiting that one more changes nothing
		}
	case *network.EventRequestWillBeSent:
		if !w.own(e.Request.URL) {
			w.fault(elsewhere, "%s %s", e.Request.Method, e.Request.URL)
		}
	case *network.EventWebSocketCreated:
		w.fault(elsewhere, "WebSocket %s", e.URL)
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 && !w.expects(e.Response.Status) {
			w.fault(answer, "%d %s", e.Response.Status, e.Response.URL)
		}
	}
}

// logged judges what the browser itself wrote to the console. That a resource was not
// loaded is known from its answer.
func (w *watch) logged(e *log.Entry) {
	if e.Level != log.EntryLevelError && e.Level != log.EntryLevelWarning {
		return
	}
	if e.Source == log.EntrySourceNetwork && strings.Contains(e.Text, "responded with a status of") {
		return
	}
	w.fault(console, "%s: %s: %s %s", e.Source, e.Level, e.Text, e.URL)
}

// own reports whether an address is of the origin, or loads nothing.
func (w *watch) own(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	switch u.Scheme {
	case "about", "data", "blob":
		return true
	}
	return u.Scheme+"://"+u.Host == w.origin
}

// answerDialogs closes dialogs, which would hold up the page.
func (w *watch) answerDialogs(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.dialogs:
			_ = chromedp.Do(ctx, command(page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})) // the page may be gone
		}
	}
}

// spoken returns what was passed to a function of the console.
func spoken(args []*runtime.RemoteObject) string {
	words := make([]string, 0, len(args))
	for _, a := range args {
		var text string
		switch {
		case json.Unmarshal(a.Value, &text) == nil:
		case len(a.Value) > 0:
			text = string(a.Value)
		default:
			text = a.Description
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

// expect allows answers with a status, until Faults is called.
func (t *Tab) expect(status int64) {
	t.watch.mu.Lock()
	defer t.watch.mu.Unlock()
	t.watch.expected = append(t.watch.expected, status)
}

// Faults returns the faults since the last call. First it lets the browser report what it
// knows of.
func (t *Tab) Faults() []Fault {
	err := t.do(command(cdp.Command[cdp.Empty, cdp.Empty]{Method: page.CommandEnable}, cdp.Empty{}))
	t.watch.mu.Lock()
	defer t.watch.mu.Unlock()
	found := t.watch.faults
	if err != nil {
		found = append(found, Fault{Kind: exception, Page: t.watch.page, Text: "the tab answers no more: " + err.Error()})
	}
	t.watch.faults, t.watch.expected = nil, nil
	return found
}
