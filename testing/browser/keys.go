package browser

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Type presses keys one after the other, as somebody without a mouse does. Keys without a
// letter are those of package kb, such as kb.Tab.
func (t *Tab) Type(keys string) error { return t.do(chromedp.KeyEvent(keys)) }

// stroke presses a key with a sign as a keyboard does: what a page does with the key instead
// keeps the sign out of fields.
func (t *Tab) stroke(sign string) error {
	press := func(kind input.DispatchKeyEventType, text string) chromedp.Action[chromedp.Void] {
		return command(input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: sign, Text: text})
	}
	return t.do(press(input.DispatchKeyEventTypeKeyDown, sign), press(input.DispatchKeyEventTypeKeyUp, ""))
}

// selectAll presses Ctrl and A, which selects what is in a field.
func (t *Tab) selectAll() error { return t.control('a', "selectAll") }

// control presses Ctrl and a letter, with the commands of the editor that belong to it.
func (t *Tab) control(letter byte, commands ...string) error {
	upper := letter - 'a' + 'A'
	press := func(kind input.DispatchKeyEventType) chromedp.Action[chromedp.Void] {
		return command(input.DispatchKeyEvent, input.DispatchKeyEventParams{
			Type: kind, Modifiers: 2, Key: string(rune(letter)), Code: "Key" + string(rune(upper)), WindowsVirtualKeyCode: int64(upper), Commands: commands,
		})
	}
	return t.do(press(input.DispatchKeyEventTypeRawKeyDown), press(input.DispatchKeyEventTypeKeyUp))
}

// focusScript describes the element with the focus. It is seen if it is in the window and
// its focus is drawn.
const focusScript = `(() => {
  const e = document.activeElement;
  if (!e || e === document.body) return { is: false };
  const box = e.getBoundingClientRect(), style = getComputedStyle(e);
  return {
    is: e.matches(%s), text: (e.innerText || e.name || e.id || "").trim(),
    seen: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth &&
      (style.outlineStyle !== "none" || style.boxShadow !== "none"),
  };
})()`

// tabTo presses Tab until the element that a CSS selector finds has the focus, at most 300
// times. Each element on the way must show that it has the focus.
func (t *Tab) tabTo(selector string) error {
	var passed []string
	for range 300 {
		if err := t.Type(kb.Tab); err != nil {
			return err
		}
		focus, err := eval[struct {
			Is, Seen bool
			Text     string
		}](t, fmt.Sprintf(focusScript, quoted(selector)))
		if err != nil {
			return err
		}
		if focus.Text != "" && !focus.Seen {
			return fmt.Errorf("%q has the focus, and does not show it", focus.Text)
		}
		if focus.Is {
			return nil
		}
		passed = append(passed, focus.Text)
	}
	return fmt.Errorf("%s is not reached by Tab, only %.400q", selector, passed)
}

// await waits until an expression is true in the tab's page, for at most 30 s. The page may
// be replaced meanwhile.
func (t *Tab) await(expression string) error { return t.awaitFor(30*time.Second, expression) }

// awaitFor is await for another time.
func (t *Tab) awaitFor(most time.Duration, expression string) error {
	ctx, cancel := context.WithTimeout(t.ctx, most)
	defer cancel()
	for {
		so, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && so {
			return nil
		}
		select {
		case <-ctx.Done():
			text, _ := eval[string](t, `location.href + "\n" + document.body.innerText`)
			return fmt.Errorf("not within %v: %s: %w\n%.2000s", most, expression, errors.Join(err, ctx.Err()), text)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
