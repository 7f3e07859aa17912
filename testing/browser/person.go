package browser

import (
	"fmt"
	"time"

	"github.com/chromedp/chromedp/kb"
)

const (
	// mostActions is how many actions a task may take.
	mostActions = 4
	// mostMoves is how many keys may be pressed to bring the focus to where one action happens.
	mostMoves = 60
)

// person does tasks in a tab, with the mouse or with the keyboard alone. What goes wrong first is kept, and
// everything after it is left out.
//
// An action is what a person decides: to activate a link, a button or another control, or to fill in a
// field and send it with Enter. How the person gets there is no action: to point, to scroll, to click into
// the field that is filled in, and with the keyboard every key that only moves the focus, as Tab, the page's
// shortcuts and its links over the menu do. Those keys are counted as moves, and for one action there may be
// no more than mostMoves.
type person struct {
	tab      *Tab
	keys     bool          // there is no mouse
	patience time.Duration // how long the page may take to show what is expected

	actions, moves int
	err            error
}

// do does a step unless an earlier one has failed.
func (p *person) do(what string, step func() error) {
	if p.err != nil {
		return
	}
	if err := step(); err != nil {
		p.err = fmt.Errorf("%s: %w", what, err)
	}
}

// choose activates the first element that a CSS selector finds and a person sees. With the keyboard, a page
// of the menu is opened by its two keys.
func (p *person) choose(selector string) {
	p.appears(selector)
	p.do("choose "+selector, func() error {
		p.actions++
		if !p.keys {
			return p.tab.click(selector)
		}
		key, err := eval[string](p.tab, fmt.Sprintf(`document.querySelector(%s)?.closest(".side a")?.dataset.key ?? ""`, quoted(selector)))
		if err != nil {
			return err
		}
		if key != "" {
			return p.tab.Type("g" + key)
		}
		if err := p.reach(selector); err != nil {
			return err
		}
		return p.tab.Type(kb.Enter)
	})
}

// send fills in the field that a CSS selector finds, and presses Enter there.
func (p *person) send(selector, text string) {
	p.appears(selector)
	p.do("send "+selector, func() error {
		p.actions++
		get := p.tab.click
		if p.keys {
			get = p.reach
		}
		if err := get(selector); err != nil {
			return err
		}
		if err := p.tab.selectAll(); err != nil {
			return err
		}
		return p.tab.Type(text + kb.Enter)
	})
}

// appears waits until the page is loaded and a person sees an element.
func (p *person) appears(selector string) {
	p.sees(fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.checkVisibility())`, quoted(selector)))
}

// reads waits until what a selector finds has a text.
func (p *person) reads(selector, text string) {
	p.sees(fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.checkVisibility() && e.innerText.includes(%s))`, quoted(selector), quoted(text)))
}

// at waits until the page at a path is loaded.
func (p *person) at(path string) { p.sees("location.pathname === " + quoted(path)) }

// sees waits until an expression is true in a page that is loaded.
func (p *person) sees(expression string) {
	p.do("look", func() error {
		return p.tab.awaitFor(p.patience, `document.readyState === "complete" && (`+expression+")")
	})
}

// whereScript describes where the focus is, and where it should get.
const whereScript = `(() => {
  const found = [...document.querySelectorAll(%s)].find((e) => e.checkVisibility()), at = document.activeElement;
  if (!found) throw new Error("nobody sees such an element");
  const main = document.getElementById("main"), row = found.closest("main tbody tr, main [data-row]");
  const box = at.getBoundingClientRect(), style = getComputedStyle(at);
  return {
    there: at === found, search: found.id === "find",
    outside: main.contains(found) && !main.contains(at), skips: at.matches("a.skip"),
    walks: Boolean(row?.querySelector("a[href]")) && !row.contains(at),
    text: at === document.body || at === main ? "" : (at.innerText || at.name || at.id || "").trim(),
    shown: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth && (style.outlineStyle !== "none" || style.boxShadow !== "none"),
  };
})()`

// reach brings the focus to an element with keys alone: by the link over the menu, by j from row to row, and
// by Tab. Whatever has the focus on the way must show it.
func (p *person) reach(selector string) error {
	for n := 0; ; n++ {
		at, err := eval[struct {
			There, Search, Outside, Skips, Walks, Shown bool
			Text                                        string
		}](p.tab, fmt.Sprintf(whereScript, quoted(selector)))
		switch {
		case err != nil:
			return err
		case at.Text != "" && !at.Shown:
			return fmt.Errorf("%q has the focus, and does not show it", at.Text)
		case at.There:
			return nil
		case n == mostMoves:
			return fmt.Errorf("the focus is not there after %d keys, but at %q", n, at.Text)
		case at.Search:
			err = p.tab.stroke("/")
		case at.Outside && at.Skips:
			err = p.tab.Type(kb.Enter)
		case at.Walks && !at.Outside:
			err = p.tab.Type("j")
		default:
			err = p.tab.Type(kb.Tab)
		}
		if err != nil {
			return err
		}
		p.moves++
	}
}
