package browser

import (
	_ "embed" // the scripts below
	"errors"
	"fmt"
	"strings"
)

// axe-core, of which testdata/axe-core/README.md says where it is from.
//
//go:embed testdata/axe-core/axe.min.js
var axeSource string

//go:embed layout.js
var layoutSource string

// axeRun runs the rules whose names or tags are given. It looks into no other frame and
// loads nothing.
const axeRun = `(async () => {
  const only = %q.split(" ");
  const found = await axe.run(document, {
    runOnly: { type: only[0].startsWith("rule:") ? "rule" : "tag", values: only.map((v) => v.replace("rule:", "")) },
    resultTypes: ["violations"], preload: false, iframes: false,
  });
  return found.violations.flatMap((v) => v.nodes.map((n) => {
    const why = [...n.any, ...n.all, ...n.none].map((c) => c.message).join(" ");
    return v.id + ": " + n.target.join(" ") + " " + n.html.slice(0, 200) + ": " + why;
  })).slice(0, 20);
})()`

// What Inspect may look for.
const (
	// Standard is what WCAG 2.2 demands on its levels A and AA, as far as a machine can
	// judge it: the names of all controls among it.
	Standard = "wcag2a wcag2aa wcag21a wcag21aa wcag22aa"
	// Everything is Standard and good practice.
	Everything = Standard + " best-practice"
	// Names are those of controls, pictures and the page, which another language may lack.
	Names = "rule:label rule:button-name rule:link-name rule:select-name rule:summary-name rule:image-alt rule:role-img-alt rule:aria-input-field-name rule:aria-command-name rule:document-title rule:html-has-lang rule:valid-lang rule:label-title-only"
	// Contrast is that of text alone, which a change of colours can spoil.
	Contrast = "rule:color-contrast"
)

// Inspect has axe-core look at the page. The page must be allowed to run JavaScript.
func (t *Tab) Inspect(what string) error {
	loaded, err := eval[bool](t, `typeof axe === "object"`)
	if err == nil && !loaded {
		_, err = eval[bool](t, axeSource+"\n;true")
	}
	if err != nil {
		return err
	}
	found, err := eval[[]string](t, fmt.Sprintf(axeRun, what))
	if err != nil {
		return err
	}
	for _, text := range found {
		t.watch.fault(access, "%s", strings.Join(strings.Fields(text), " "))
	}
	return nil
}

// Measure looks for what is cut or outside the window, at each of some widths in CSS
// pixels. Then the window is as wide as before, 1,280 pixels.
func (t *Tab) Measure(widths ...int64) error {
	for _, width := range widths {
		if err := errors.Join(t.Widen(width), t.drawn()); err != nil {
			return err
		}
		found, err := eval[[]struct {
			Kind Kind
			Text string
		}](t, layoutSource)
		if err != nil {
			return err
		}
		for _, f := range found {
			t.watch.fault(f.Kind, "at %d pixels: %s", width, f.Text)
		}
	}
	return t.Widen(1280)
}
