// Rows stand still while the pointer rests on them, the focus is in them, or a question below them is
// open: nobody clicks on what has just come there. Changes wait meanwhile, and a note says how many and makes them.
const rows = "tbody tr, [data-row]";
const held = new Map(); // by block: how many changes wait, and what makes them
const note = document.getElementById("changes");

// rests reports whether somebody has a row of the block in hand, or is asked whether they are sure.
export function rests(block) {
  const focused = document.activeElement?.closest(rows);
  return Boolean(block.querySelector(":is(tbody tr, [data-row]):hover, details.sure[open]") || (focused && block.contains(focused)));
}

// touches names what a click in a row may touch.
export function touches(row) {
  const all = [...row.querySelectorAll("a[href], input, button, summary")].map((e) => e.getAttribute("href") ?? `${e.name}=${e.value}`);
  return all.join(" ") || row.firstElementChild?.textContent || "";
}

// rowsOf names the rows of a block.
export const rowsOf = (block) => [...block.querySelectorAll(rows)].map(touches);

// hold has changes wait until nobody has a row of the block in hand. make is told whether somebody
// asked for them.
export function hold(block, changes, make) {
  if (held.size === 0) {
    for (const look of ["pointerover", "pointerleave", "focusin", "focusout"]) document.documentElement.addEventListener(look, later);
    document.documentElement.addEventListener("toggle", later, true); // which does not bubble
  }
  held.set(block, { changes, make });
  say();
}

// moves makes a change of the page, behind which the row in hand stands where it stood.
export function moves(change) {
  const row = document.querySelector(":is(tbody tr, [data-row]):hover");
  const top = row?.getBoundingClientRect().top;
  change();
  if (row?.isConnected) scrollBy(0, row.getBoundingClientRect().top - top);
}

const later = () => setTimeout(() => settle(false));

// settle makes the changes of blocks that nobody has in hand, or all of them because somebody asks.
function settle(asked) {
  for (const [block, { make }] of [...held]) if ((asked || !rests(block)) && held.delete(block)) make(asked);
  say();
}

function say() {
  const n = [...held.values()].reduce((sum, { changes }) => sum + changes, 0), button = note.querySelector("button");
  note.hidden = n === 0;
  button.textContent = n === 1 ? button.dataset.single : button.dataset.many.replace("#", new Intl.NumberFormat(document.documentElement.lang).format(n));
}

note.querySelector("button").addEventListener("click", () => settle(true));
