package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/testing/browser/scene"
)

// action is a form that does something when it is sent.
type action struct {
	Path   string     // where it is sent
	Fields [][]string // names and values
}

// formsScript returns the forms of the page that do something, with numbers where they want
// some.
const formsScript = `[...document.querySelectorAll("form[method=post]")].flatMap((form) => {
  const buttons = [...form.querySelectorAll("button:not([type=button]), input[type=submit]")];
  for (const e of form.querySelectorAll("input[inputmode=numeric], input[type=number]")) e.value ||= "8";
  return (buttons.length ? buttons : [null]).map((button) => ({
    path: new URL(button?.getAttribute("formaction") ?? form.getAttribute("action") ?? location.href, location.href).pathname,
    fields: [...new FormData(form, button)].filter(([, value]) => typeof value === "string"),
  }));
})`

// harmless are forms that change nothing, or nothing but who is signed in: a viewer may
// look whether every account is in one place.
var harmless = []string{"/signout", "/signin", "/system/audit"}

// actions returns what a person is offered on the pages, by where it is sent.
func (w *world) actions(t *testing.T, tab *Tab, pages []scene.Page) map[string]action {
	t.Helper()
	offered := make(map[string]action)
	for _, page := range pages {
		try(t, func() error { return tab.Go(page.Path) })
		forms, err := eval[[]action](tab, formsScript)
		if err != nil {
			t.Fatalf("%s: %v", page.Path, err)
		}
		for _, f := range forms {
			if !slices.Contains(harmless, f.Path) {
				offered[f.Path] = f
			}
		}
	}
	sound(t, tab)
	return offered
}

// testRights shows that a viewer is offered nothing that changes anything and is refused
// it all the same, that a person who is bound to labels sees no other accounts, and that
// somebody who is not signed in is sent to sign in and back.
func (w *world) testRights(t *testing.T) {
	pages := slices.Concat(scene.Forms(w.failing[3].ID), scene.Pages(w.failing[3].ID))
	admin := open(t, w.browser, w.scene.URL)
	w.signIn(t, admin, scene.Token)
	offered := w.actions(t, admin, pages)
	if len(offered) < 8 {
		t.Errorf("a person with all rights is offered only %d actions", len(offered))
	}

	viewer := open(t, w.browser, w.scene.URL)
	w.signIn(t, viewer, w.key(t, "viewer", "viewer"))
	before := w.registered(t)
	viewer.expect(403)
	for path := range w.actions(t, viewer, w.readable(pages)) {
		t.Errorf("a viewer is offered %s", path)
	}
	try(t, func() error { return viewer.Go("/") })
	for path, a := range offered {
		if status := send(t, viewer, a); status != 403 {
			t.Errorf("a viewer who sends %s is answered %d, want 403", path, status)
		}
	}
	viewer.Faults() // the refusals above
	if after := w.registered(t); after != before {
		t.Errorf("a viewer has changed the accounts from\n%s\nto\n%s", before, after)
	}

	bound := open(t, w.browser, w.scene.URL)
	w.signIn(t, bound, w.key(t, "support", "operator", "team=support"))
	for _, page := range w.readable(pages) {
		for _, status := range []int64{403, 404} {
			bound.expect(status)
		}
		try(t, func() error { return bound.Go(page.Path) })
		text, err := eval[string](bound, `document.body.innerText`)
		if err != nil {
			t.Fatal(err)
		}
		at, _, _ := strings.Cut(page.Path, "?")
		for _, f := range w.failing {
			if strings.Contains(text, f.ID) && at == page.Path {
				t.Errorf("%s shows %s to a person who is bound to other labels", page.Path, f.ID)
			}
		}
	}
	sound(t, bound)
	w.signedOut(t, pages)
}

// signedOut asks for pages without having signed in, and signs in on the way to one.
func (w *world) signedOut(t *testing.T, pages []scene.Page) {
	t.Helper()
	stays := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, page := range pages {
		if page.Path == "/signin" {
			continue
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.scene.URL+page.Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", "text/html")
		answer, err := stays.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if at, want := answer.Header.Get("Location"), "/signin?next="+url.QueryEscape(page.Path); at != want {
			t.Errorf("%s leads a visitor to %q, want %s", page.Path, at, want)
		}
	}
	tab := open(t, w.browser, w.scene.URL)
	last := pages[len(pages)-2].Path
	try(t,
		func() error { return tab.Go(last) },
		func() error { return tab.Fill("#secret", scene.Token) },
		func() error { return tab.Submit("#secret") })
	at, err := eval[string](tab, `location.pathname + location.search`)
	if err != nil || at != last {
		t.Errorf("who was sent to sign in from %s comes to %s, %v", last, at, err)
	}
	sound(t, tab)
}

// readable leaves out the pages of forms, which a person without the right to send them
// does not see.
func (w *world) readable(pages []scene.Page) []scene.Page {
	return slices.DeleteFunc(slices.Clone(pages), func(p scene.Page) bool { return slices.Contains(scene.Forms(w.failing[3].ID), p) })
}

func (w *world) key(t *testing.T, name, role string, labels ...string) string {
	t.Helper()
	key, err := w.scene.Key(t.Context(), name, role, labels...)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// registered returns all records, and which accounts are paused.
func (w *world) registered(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	if _, err := w.scene.Calls.Export(t.Context(), accounts.Exporting{}, &out); err != nil {
		t.Fatal(err)
	}
	paused, err := w.scene.Calls.Parked(t.Context(), client.ParkedQuery{Reason: "paused"})
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Sorted(strings.Lines(out.String()))
	for _, p := range paused.Parked {
		lines = append(lines, "paused "+p.ID+"\n")
	}
	return strings.Join(lines, "")
}

// send sends a form as a page of the site would, and returns the status of the answer; 0
// stands for a redirect.
func send(t *testing.T, tab *Tab, a action) int {
	t.Helper()
	fields, err := json.Marshal(a.Fields)
	if err != nil {
		t.Fatal(err)
	}
	status, err := eval[int](tab, fmt.Sprintf(`fetch(%s, { method: "POST", redirect: "manual", body: new URLSearchParams(%s) }).then((r) => r.status)`, quoted(a.Path), fields))
	if err != nil {
		t.Fatalf("%s: %v", a.Path, err)
	}
	return status
}
