// Keys: Ctrl and K finds everything, / searches, ? lists the keys, g and a letter opens a page, j and k
// walk through rows.
import { listenToFinder, openFinder } from "./finder.js";

let opened = []; // the last one last

export function listenToKeys() {
  const keys = document.getElementById("keys");
  listenToFinder();
  document.getElementById("keys-open").addEventListener("click", () => keys.showModal());
  addEventListener("toggle", (e) => e.target.open && (opened = [...opened.filter((d) => d.isConnected), e.target]), true);
  let goes = 0; // when g was pressed
  addEventListener("keydown", (e) => {
    if (e.isComposing || e.altKey) return;
    if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k" && !e.shiftKey) return done(e, openFinder);
    if (e.ctrlKey || e.metaKey) return;
    const field = e.target.closest?.("input, select, textarea, [contenteditable]");
    if (field) {
      if (e.key === "Escape") field.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    if (e.key === "Escape") return close();
    const went = Date.now() - goes < 1500;
    goes = 0;
    if (went) {
      const entry = document.querySelector(`.side a[data-key="${CSS.escape(e.key)}"]`);
      if (entry) return done(e, () => entry.click());
    }
    if (e.key === "/") return done(e, () => document.getElementById("find").focus());
    if (e.key === "?") return done(e, () => keys.showModal());
    if (e.key === "g") goes = Date.now();
    if (e.key === "j" || e.key === "k") return done(e, () => walk(e.key === "j" ? 1 : -1));
  });
}

// close closes what the focus is in, or else what was opened last.
function close() {
  const open = document.activeElement?.closest("details[open]") ?? opened.findLast((d) => d.open && d.isConnected);
  if (!open) return;
  open.open = false;
  open.querySelector("summary").focus();
}

function done(e, what) {
  e.preventDefault();
  what();
}

// walk moves the focus to the link of the next or the previous row.
function walk(by) {
  const rows = [...document.querySelectorAll("main tbody tr, main [data-row]")].map((r) => r.querySelector("a[href]")).filter(Boolean);
  const at = rows.indexOf(document.activeElement?.closest("tr, [data-row]")?.querySelector("a[href]"));
  rows[Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus();
}
