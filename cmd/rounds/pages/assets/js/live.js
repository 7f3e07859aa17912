// Live blocks: the server sends those that changed. A hidden page does not listen, since a
// browser opens few connections to one host.
import { hold, moves, rests, rowsOf, touches } from "./still.js";
import { showTimes } from "./time.js";

let source = null;
let pressed = false; // a button of the mouse, or a finger, is down
const later = new Map(); // swaps that wait for its end

export function listen() {
  if (!("live" in document.body.dataset)) return;
  addEventListener("pointerdown", () => (pressed = true), true);
  for (const end of ["pointerup", "pointercancel", "dragend"]) addEventListener(end, release, true);
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  if (!document.hidden) open();
}

function open() {
  if (source) return;
  source = new EventSource("/live" + (document.body.dataset.live || location.pathname + location.search));
  source.addEventListener("swap", (e) => swap(JSON.parse(e.data)));
  source.addEventListener("looked", () => away(false));
  source.addEventListener("away", () => away(true));
  source.addEventListener("error", () => {
    // A stream that only ended is opened again by the browser. One that is refused is not.
    if (source && source.readyState === EventSource.CLOSED) {
      close();
      away(true);
      setTimeout(() => document.hidden || open(), 5000);
    }
  });
}

function close() {
  if (source) source.close();
  source = null;
}

// release makes the swaps that have waited, behind the click that the press becomes.
function release() {
  pressed = false;
  setTimeout(() => {
    for (const [id, html] of later) swap({ id, html });
    later.clear();
  });
}

function away(is) {
  document.getElementById("away").hidden = !is;
}

const places = "a[href], button, summary, input, select, textarea";

// swap replaces a block unless somebody is just using it: writes there or selects its text, or has a
// row in hand while rows come, go or change places. A press of the mouse becomes a click only if what
// was pressed is still there at its end.
function swap({ id, html }) {
  const block = document.getElementById(id);
  if (!block) return;
  if (pressed) return later.set(id, html);
  const focused = block.contains(document.activeElement) ? document.activeElement : null;
  if (focused && focused.matches("input:not([type=checkbox]), select, textarea")) return;
  const selected = getSelection();
  if (!selected.isCollapsed && block.contains(selected.anchorNode)) return;
  const template = document.createElement("template");
  template.innerHTML = html; // made by the server's templates, which escape everything
  const was = rowsOf(block), will = rowsOf(template.content);
  if (was.join("\n") !== will.join("\n") && rests(block)) {
    const other = (some, than) => some.filter((row) => !than.includes(row)).length;
    return hold(block, Math.max(1, other(was, will), other(will, was)), () => replace(block, template.content));
  }
  moves(() => replace(block, template.content));
}

// opens names a details element: in a row by what the row touches, for another row may come there.
function opens(block, e) {
  const row = e.closest("tbody tr, [data-row]");
  return `${row ? touches(row) : ""} ${[...(row ?? block).querySelectorAll("details")].indexOf(e)}`;
}

// replace puts other content into a block. What was open stays open, and what had the focus gets it
// again.
function replace(block, content) {
  const focused = block.contains(document.activeElement) ? document.activeElement : null;
  const at = focused ? [...block.querySelectorAll(places)].indexOf(focused) : -1;
  const opened = new Map([...block.querySelectorAll("details")].map((e) => [opens(block, e), e.open]));
  const checked = new Set([...block.querySelectorAll("input[type=checkbox]:checked")].map((e) => e.value));
  showTimes(content);
  const kept = [...block.querySelectorAll("[data-kept]")]; // such as charts, which redraw themselves
  block.replaceChildren(content);
  for (const e of kept) block.querySelector(`[data-kept="${e.dataset.kept}"]`)?.replaceWith(e);
  block.querySelectorAll("details").forEach((e) => (e.open = opened.get(opens(block, e)) ?? e.open));
  for (const e of block.querySelectorAll("input[type=checkbox]")) e.checked ||= checked.has(e.value);
  if (at >= 0) block.querySelectorAll(places)[at]?.focus();
  block.dispatchEvent(new CustomEvent("swapped", { bubbles: true }));
}
