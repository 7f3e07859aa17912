// The list of accounts: go on looking until the page is full, check all rows of the page, and say
// how many are checked.
import { showTimes } from "./time.js";

const list = document.getElementById("list");
const all = document.getElementById("pick-all");
const picked = document.getElementById("picked");
const say = picked?.textContent;

function count() {
  if (!all) return;
  const rows = [...list.querySelectorAll("input[name=pick]")];
  const n = rows.filter((r) => r.checked).length;
  all.checked = n > 0 && n === rows.length;
  all.indeterminate = n > 0 && n < rows.length;
  picked.textContent = n ? `${say} ${n}` : say;
}

if (list && all) {
  all.addEventListener("change", () => {
    for (const r of list.querySelectorAll("input[name=pick]")) r.checked = all.checked;
    count();
  });
  list.addEventListener("change", (e) => e.target !== all && count());
  list.addEventListener("swapped", count);
  count();
}

// goOn appends further rows of the page until it is full. They come in a table body of their own,
// because the first one is replaced by its live rows. Without an answer the link to go on stays.
async function goOn() {
  const rows = list.querySelector("tbody");
  for (let more = document.getElementById("more"); rows && more?.dataset.more; ) {
    const reply = await fetch(more.dataset.more);
    if (!reply.ok) return;
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const next = page.getElementById("more");
    if (!next) return;
    const found = page.getElementById("live-rows");
    if (found?.childElementCount) {
      found.removeAttribute("id");
      showTimes(found);
      rows.parentElement.append(found);
    }
    const none = page.getElementById("none");
    if (none && !list.querySelector("tbody tr")) more.before(none);
    more.replaceWith(next);
    more = next;
    count();
  }
}
if (list) goOn();
