// The live tail: messages as they come, put in front. Stopped, it notes the last position, and
// goes on from there, so that none is missed. So it does while a message is open. What a message holds
// is shown as text alone. A search goes on until its page is full.
import { hold, rests } from "./still.js";
import { showTimes } from "./time.js";

const rows = document.getElementById("rows"), row = document.getElementById("row"), button = document.getElementById("tail");
const kept = 500; // rows on the page, so that it stays quick
let after = rows?.dataset.after, stopped = false, source = null, waiting = [];
const opened = () => rows.querySelector("details[open]") !== null;

if (button) {
  button.addEventListener("click", () => {
    stopped = !(stopped || opened());
    if (!stopped) for (const e of rows.querySelectorAll("details[open]")) e.open = false;
    turn();
  });
  rows.addEventListener("toggle", () => { turn(); show(); }, true);
  document.addEventListener("visibilitychange", turn);
  addEventListener("pagehide", close);
  turn();
}

// goOn appends what a search finds further back. Without an answer the link to go on stays.
async function goOn() {
  const none = document.getElementById("none");
  for (let more = document.getElementById("more"); more?.dataset.more; ) {
    const reply = await fetch(more.dataset.more);
    if (!reply.ok) return;
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const next = page.getElementById("more"), found = page.getElementById("rows");
    if (!next || !found) return;
    showTimes(found);
    showTimes(next);
    rows.append(...found.children);
    none.replaceChildren(...page.getElementById("none").childNodes);
    none.hidden = rows.children.length > 0;
    more.replaceWith(next);
    more = next;
  }
}
if (rows) goOn();

function turn() {
  const stops = stopped || opened();
  button.textContent = stops ? button.dataset.go : button.dataset.stop;
  const state = document.getElementById("tail-state");
  state.textContent = stops ? state.dataset.stopped : state.dataset.live;
  state.classList.toggle("good", !stops);
  if (stops || document.hidden) return close(); // a browser opens few connections to one host
  if (source) return;
  source = new EventSource("/v1/messages?" + new URLSearchParams([...new URLSearchParams(rows.dataset.filter), ["after", after]]));
  source.onopen = () => (document.getElementById("away").hidden = true);
  source.onmessage = (e) => {
    after = e.lastEventId;
    if (waiting.push([after, e.data]) === 1) requestAnimationFrame(show);
    else if (rests(rows)) show();
    if (waiting.length > kept) waiting.shift();
  };
  source.onerror = () => {
    document.getElementById("away").hidden = false;
    if (source?.readyState === EventSource.CLOSED) { close(); setTimeout(turn, 5000); }
  };
}

function close() {
  source?.close();
  source = null;
}

function show(asked) {
  if (waiting.length === 0) return;
  if (asked !== true && (opened() || rests(rows))) return hold(rows, waiting.length, show);
  const fresh = document.createDocumentFragment();
  for (const [at, text] of waiting.splice(0)) fresh.prepend(made(at, JSON.parse(text)));
  showTimes(fresh);
  rows.prepend(fresh);
  document.getElementById("none").hidden = true;
  if (rows.children.length <= kept) return;
  // Rows of the first page know no position: they go together, and the next page begins with the last row that stays.
  while (rows.children.length > kept || (rows.lastElementChild && !rows.lastElementChild.dataset.at)) rows.lastElementChild.remove();
  const older = document.getElementById("older");
  if (older) older.href = "/messages?" + new URLSearchParams([...new URLSearchParams(rows.dataset.filter), ["before", rows.lastElementChild.dataset.at]]);
}

function made(at, m) {
  const li = row.content.firstElementChild.cloneNode(true), ref = `${m.shard}:${m.position}`;
  const field = (name) => li.querySelector(`[data-f=${name}]`), to = (path, name, value) => `${path}?${new URLSearchParams({ [name]: value })}`;
  li.dataset.at = at;
  for (const name of ["account", "kind", "type", "id"]) field(name).textContent = m[name] ?? "";
  field("account").href = to("/account", "id", m.account);
  field("at").href = to("/message", "at", ref);
  const time = document.createElement("time"), written = new Date(Number(m.position.split("-")[0]));
  [time.dateTime, time.title, time.dataset.when] = [written.toISOString(), written.toISOString(), ""];
  field("at").replaceChildren(time);
  field("files").replaceChildren(...carried(m.files ?? [], to("/message", "at", ref)));
  if (!(field("data").hidden = m.data === undefined)) {
    const line = JSON.stringify(m.data), text = JSON.stringify(m.data, null, 2), short = [...line.slice(0, 320)].slice(0, 160).join("");
    const code = li.querySelector("summary code");
    code.textContent = code.title = short.length < line.length ? short + "…" : line;
    li.querySelector("pre").textContent = text.length > 2048 ? text.slice(0, 2048) + "…" : text;
    li.querySelector(".whole").hidden = text.length <= 2048;
    li.querySelector(".whole a").href = to("/message/data", "at", ref);
  }
  return li;
}

// carried makes the list of a message's files. A message that has just come has none of them yet: its page follows them.
function carried(files, at) {
  if (files.length === 0) return [];
  const list = document.createElement("ul");
  list.className = "files";
  for (const f of files) {
    const li = document.createElement("li"), a = document.createElement("a"), small = document.createElement("small");
    [a.href, a.textContent] = [at, f.name || f.type || `${f.n + 1}`];
    small.textContent = [f.size ? `${new Intl.NumberFormat(document.documentElement.lang).format(Math.ceil(f.size / 1024))} KiB` : "", f.name && f.type].filter(Boolean).join(" ");
    li.append(a, " ", small);
    list.append(li);
  }
  return [list];
}
