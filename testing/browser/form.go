package browser

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/chromedp/chromedp"
)

// Fill sets the value of the field that a CSS selector finds, as a person would by typing.
func (t *Tab) Fill(selector, value string) error {
	_, err := eval[bool](t, fmt.Sprintf(`(() => {
  const field = document.querySelector(%s);
  if (!field) throw new Error("no such field");
  field.value = %s;
  for (const event of ["input", "change"]) field.dispatchEvent(new Event(event, { bubbles: true }));
  return true;
})()`, quoted(selector), quoted(value)))
	if err != nil {
		return fmt.Errorf("fill %s: %w", selector, err)
	}
	return nil
}

// Attach gives a file to the field that a CSS selector finds.
func (t *Tab) Attach(selector, name, content string) error {
	_, err := eval[bool](t, fmt.Sprintf(`(() => {
  const files = new DataTransfer();
  files.items.add(new File([%s], %s));
  document.querySelector(%s).files = files.files;
  return true;
})()`, quoted(content), quoted(name), quoted(selector)))
	if err != nil {
		return fmt.Errorf("attach a file to %s: %w", selector, err)
	}
	return nil
}

// Submit submits the form of the element that a CSS selector finds by the form's first
// button, or by that element if it is a button, and waits until the next page is loaded.
func (t *Tab) Submit(selector string) error {
	return t.leads(fmt.Sprintf(`(() => {
  const found = document.querySelector(%s);
  if (!found) throw new Error("no such element");
  const button = found.localName === "button" ? found : found.form.querySelector("button:not([type=button])");
  button.click();
  return true;
})()`, quoted(selector)))
}

// Follow clicks the link that a CSS selector finds, and waits until the next page is
// loaded.
func (t *Tab) Follow(selector string) error {
	return t.leads(fmt.Sprintf(`(() => {
  const found = document.querySelector(%s);
  if (!found) throw new Error("no such link");
  found.click();
  return true;
})()`, quoted(selector)))
}

// leads runs an expression that loads another page, and waits for that.
func (t *Tab) leads(expression string) error {
	run := chromedp.Evaluate[bool](expression)
	return t.loads(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := run(ctx, target)
		return chromedp.Void{}, err
	})
}

// quoted returns a text as JavaScript writes it.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		return `""` // any text can be written
	}
	return string(b)
}
