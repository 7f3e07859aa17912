// The finder: a text leads to what it may mean, by the keyboard alone. It is a combobox in a dialog, as
// the ARIA authoring practices describe it: the focus stays in the field, arrows choose.
const dialog = document.getElementById("finder"), field = document.getElementById("finder-text");
const found = document.getElementById("found"), said = document.getElementById("finder-said");
let asked, asking, waits; // the text whose findings are shown or on their way; the question; the time until it
const options = () => [...found.querySelectorAll("[role=option]")];

// openFinder opens the finder, unless another dialog is open.
export function openFinder() {
  if (document.querySelector("dialog[open]")) return;
  dialog.showModal();
  field.select();
  ask();
}

export function listenToFinder() {
  document.getElementById("finder-open").addEventListener("click", openFinder);
  dialog.addEventListener("click", (e) => {
    const option = e.target.closest("[role=option]");
    if (option) location.assign(option.dataset.to);
    else if (e.target === dialog) dialog.close(); // beside it
  });
  field.addEventListener("input", () => {
    clearTimeout(waits);
    waits = setTimeout(ask, 80);
  });
  field.addEventListener("keydown", async (e) => {
    if (e.isComposing) return; // an input method has the key
    const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (by) {
      e.preventDefault();
      const all = options();
      if (all.length) choose(all[(all.indexOf(chosen()) + by + all.length) % all.length]);
    }
    if (e.key !== "Enter") return;
    e.preventDefault();
    await ask(); // what is shown may be about an earlier text
    if (dialog.open && chosen()) location.assign(chosen().dataset.to);
  });
}

const chosen = () => found.querySelector("[aria-selected=true]");

function choose(option) {
  chosen()?.setAttribute("aria-selected", "false");
  option?.setAttribute("aria-selected", "true");
  option?.scrollIntoView({ block: "nearest" });
  if (option) field.setAttribute("aria-activedescendant", option.id);
  else field.removeAttribute("aria-activedescendant");
}

// ask shows what the text in the field may mean, the best of it chosen.
function ask() {
  clearTimeout(waits);
  const text = field.value.trim();
  if (text !== asked) asking = show((asked = text));
  return asking;
}

async function show(text) {
  const reply = await fetch("/finder?" + new URLSearchParams({ q: text })).catch(() => null);
  const page = reply?.ok && new DOMParser().parseFromString(await reply.text(), "text/html").getElementById("found");
  if (text !== asked) return asking; // a later text has its own findings
  found.replaceChildren(...(page ? page.childNodes : []));
  found.hidden = !page;
  field.setAttribute("aria-expanded", String(Boolean(page)));
  said.textContent = page ? page.dataset.said : said.dataset.away;
  if (!page) asked = undefined; // the next key asks again
  choose(options()[0]);
}
