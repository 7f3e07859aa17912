package browser

import (
	"context"
	"fmt"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// pointScript returns the middle of the first element that a CSS selector finds and a person
// sees. Nothing may cover it.
const pointScript = `(() => {
  const found = [...document.querySelectorAll(%s)].find((e) => e.checkVisibility());
  if (!found) throw new Error("nobody sees such an element");
  found.scrollIntoView({ block: "center", behavior: "instant" });
  const box = found.getClientRects()[0], x = box.x + box.width / 2, y = box.y + box.height / 2;
  const there = document.elementFromPoint(x, y);
  if (!found.contains(there)) throw new Error("it is under " + there?.outerHTML.slice(0, 200));
  return { X: x, Y: y };
})()`

// point is a place in the window, in CSS pixels.
type point struct{ X, Y float64 }

// click presses the left button of the mouse on the element that a CSS selector finds, and
// releases it.
func (t *Tab) click(selector string) error { return t.do(clicks(selector)) }

// hover moves the mouse to the element that a CSS selector finds, and leaves it there.
func (t *Tab) hover(selector string) error {
	at, err := eval[point](t, fmt.Sprintf(pointScript, quoted(selector)))
	if err != nil {
		return fmt.Errorf("hover over %s: %w", selector, err)
	}
	return t.do(command(input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: at.X, Y: at.Y}))
}

// clickTo is Click on what leads to another page. It waits until that is loaded.
func (t *Tab) clickTo(selector string) error { return t.loads(clicks(selector)) }

// typeTo is Type of keys that lead to another page. It waits until that is loaded.
func (t *Tab) typeTo(keys string) error { return t.loads(chromedp.KeyEvent(keys)) }

// press presses the left button of the mouse on an element, until it is released there.
func (t *Tab) press(selector string) (release func() error, err error) {
	at, err := eval[point](t, fmt.Sprintf(pointScript, quoted(selector)))
	if err != nil {
		return nil, fmt.Errorf("press %s: %w", selector, err)
	}
	release = func() error { return t.loads(button(input.DispatchMouseEventTypeMouseReleased, at)) }
	return release, t.do(button(input.DispatchMouseEventTypeMousePressed, at))
}

// clicks presses and releases the button.
func clicks(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		at, err := chromedp.Evaluate[point](fmt.Sprintf(pointScript, quoted(selector)))(ctx, target)
		if err != nil {
			return fmt.Errorf("click %s: %w", selector, err)
		}
		for _, do := range []input.DispatchMouseEventType{input.DispatchMouseEventTypeMousePressed, input.DispatchMouseEventTypeMouseReleased} {
			if _, err := button(do, at)(ctx, target); err != nil {
				return fmt.Errorf("click %s: %w", selector, err)
			}
		}
		return nil
	})
}

func button(do input.DispatchMouseEventType, at point) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, input.DispatchMouseEvent, input.DispatchMouseEventParams{
			Type: do, X: at.X, Y: at.Y, Button: input.MouseButtonLeft, ClickCount: 1,
		})
		return err
	})
}

// loads does what loads another page, and waits for that.
func (t *Tab) loads(do chromedp.Action[chromedp.Void]) error {
	wait := chromedp.WaitEvent(page.LoadEventFired, nil, do)
	return t.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := wait(ctx, target)
		return chromedp.Void{}, err
	})
}
