// Returns what of the page is cut, or stands where nobody can scroll to.
(() => {
  const found = [];
  const width = document.documentElement.clientWidth;
  const root = document.scrollingElement;
  const name = (e) => {
    const id = e.id ? "#" + e.id : "";
    const classes = typeof e.className === "string" && e.className ? "." + e.className.trim().split(/\s+/).join(".") : "";
    return e.localName + id + classes + " " + JSON.stringify((e.innerText || e.value || "").trim().slice(0, 40));
  };
  if (root.scrollWidth > width) {
    const widest = [...document.body.querySelectorAll("*")].filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > width + 1).slice(0, 3).map(name).join(", ");
    found.push({ kind: "overflow", text: `the page is ${root.scrollWidth} pixels wide in a window of ${width}: ${widest}` });
  }
  const scrolls = (style) => style.overflowX === "auto" || style.overflowX === "scroll";
  // What only screen readers read is a pixel large or clipped away.
  const unseen = (e, style, box) => box.width <= 1 || box.height <= 1 || style.clipPath !== "none" || style.visibility !== "visible" || style.opacity === "0" || box.bottom < 0;
  const controls = "input:not([type=hidden]), select, textarea, button, summary, a[href], img, svg, canvas";
  for (const e of document.body.querySelectorAll("*")) {
    const worded = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!worded && !e.matches(controls)) continue;
    if (!e.checkVisibility()) continue; // such as what a closed details holds
    const style = getComputedStyle(e);
    let box = e.getBoundingClientRect();
    if (box.right < 0 && e.matches("a[href], button")) { // such as a link to the text, which the focus brings into sight
      const before = document.activeElement;
      e.focus();
      box = e.getBoundingClientRect();
      before?.focus ? before.focus() : e.blur();
      if (document.activeElement === e) e.blur();
    }
    if (!box.width || !box.height || unseen(e, style, box)) continue;
    let left = box.left, right = box.right;
    let clipped = null;
    for (let above = e; above && above !== document.body; above = above.parentElement) {
      const s = above === e ? style : getComputedStyle(above);
      if (above !== e && (s.clipPath !== "none" || s.visibility !== "visible")) { left = right = 0; break; }
      if (s.display === "inline") continue;
      if (above !== e || scrolls(s)) {
        if (scrolls(s)) { left = right = 0; break; } // one can scroll to it
        const hides = s.overflowX === "hidden" || s.overflowX === "clip";
        const outer = above.getBoundingClientRect();
        if (hides && s.textOverflow === "ellipsis") right = Math.min(right, outer.right);
        else if (hides && (right > outer.right + 1 || left < outer.left - 1)) clipped = above;
      }
    }
    if (clipped) found.push({ kind: "cut", text: `${name(e)} is cut by ${clipped.localName}.${clipped.className}` });
    else if (right > width + 1 || left < -1) found.push({ kind: "cut", text: `${name(e)} reaches from ${Math.round(left)} to ${Math.round(right)} in a window of ${width}` });
    const hides = style.overflowX === "hidden" || style.overflowX === "clip";
    if (worded && hides && e.scrollWidth > e.clientWidth + 1) {
      if (style.textOverflow !== "ellipsis") found.push({ kind: "cut", text: `${name(e)} hides a part of its text` });
      else if (!e.closest("[title], summary")) found.push({ kind: "cut", text: `${name(e)} is shortened and has no title` });
    }
    if (worded && (style.overflowY === "hidden" || style.overflowY === "clip") && e.scrollHeight > e.clientHeight + 2 && style.webkitLineClamp === "none") {
      found.push({ kind: "cut", text: `${name(e)} hides lines of its text` });
    }
  }
  return found.slice(0, 20);
})()
