// Charts of the history, drawn by uPlot from the API's own reply. The server has drawn plain
// ones, which stay where this fails.
const language = document.documentElement.lang;
const number = new Intl.NumberFormat(language, { maximumSignificantDigits: 4 });
const percent = new Intl.NumberFormat(language, { style: "percent", maximumSignificantDigits: 3 });
const unit = (name) => new Intl.NumberFormat(language, { style: "unit", unit: name, unitDisplay: "narrow", maximumSignificantDigits: 3 });
const times = [[86400, unit("day")], [3600, unit("hour")], [60, unit("minute")], [1, unit("second")]];
const milliseconds = unit("millisecond");
const clock = (options) => new Intl.DateTimeFormat(language, { hourCycle: "h23", ...options });
const exactly = clock({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const second = clock({ hour: "2-digit", minute: "2-digit", second: "2-digit" }), minute = clock({ hour: "2-digit", minute: "2-digit" }), day = clock({ day: "numeric", month: "short" });

const shown = {
  rate: (v) => number.format(v),
  share: (v) => percent.format(v),
  seconds: (v) => {
    const [size, format] = times.find(([size]) => v >= size) ?? [0.001, milliseconds];
    return format.format(v / size);
  },
};

const charts = new Map(); // figure -> its uPlot

function colour(name, share = 100) {
  const base = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return share === 100 ? base : `color-mix(in srgb, ${base} ${share}%, transparent)`;
}

const looks = {
  area: () => ({ stroke: colour("--accent"), fill: colour("--accent", 13), width: 1.5 }),
  line: () => ({ stroke: colour("--warn"), width: 1.5 }),
  faint: () => ({ stroke: colour("--accent", 45), width: 1 }),
};

// axisTimes names the splits of the time axis, each name once: the day at midnight, else the time, to
// the second where the splits are closer than a minute. An axis of several days names days alone.
function axisTimes(u, splits) {
  const seen = new Set();
  const near = splits.length > 1 && splits[1] - splits[0] < 60, long = splits[splits.length - 1] - splits[0] > 2 * 86400;
  const midnight = (d) => d.getHours() + d.getMinutes() + d.getSeconds() === 0;
  const days = long && splits.some((s) => midnight(new Date(s * 1000)));
  return splits.map((s) => {
    const at = new Date(s * 1000);
    const name = midnight(at) || (long && !days) ? day.format(at) : days ? "" : (near ? second : minute).format(at);
    return seen.has(name) ? "" : seen.add(name) && name;
  });
}

// latest has the legend show the last known values while nobody points at others.
function latest(u) {
  if (u.cursor.idx == null) u.setLegend({ idx: Math.max(0, u.data[1].findLastIndex((v) => v != null)) }, false);
}

function draw(figure, data, lines) {
  const place = figure.querySelector(".drawn");
  const text = place.querySelector("[role=img]").getAttribute("aria-label"); // of the drawing before
  charts.get(figure)?.destroy();
  place.replaceChildren();
  const show = shown[figure.dataset.unit];
  const axis = { stroke: colour("--dim"), font: "11px system-ui, sans-serif", grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const options = {
    width: place.clientWidth, height: 150, padding: [8, 26, 0, 0], cursor: { sync: { key: "charts" }, y: false, drag: { x: false, y: false } },
    axes: [{ ...axis, grid: { show: false }, values: axisTimes, size: 22, space: 64 }, { ...axis, values: (u, s) => s.map((v) => show(v)), size: 58, space: 26 }],
    scales: { y: { range: (u, min, max) => [0, max > 0 ? max * 1.05 : 1] } },
    hooks: { setCursor: [latest], setData: [latest] },
    series: [{ value: (u, v) => (v == null ? "" : exactly.format(new Date(v * 1000))) }, ...lines.map(([, , style, label]) => ({ ...looks[style](), label, points: { size: 4 }, value: (u, v) => (v == null ? "–" : show(v)) }))],
  };
  const chart = new uPlot(options, data, place);
  chart.root.querySelector(".u-wrap").setAttribute("role", "img");
  chart.root.querySelector(".u-wrap").setAttribute("aria-label", text);
  charts.set(figure, chart);
  latest(chart);
  figure.querySelector(".ends").hidden = figure.querySelector("figcaption small").hidden = true;
}

// load asks once for all charts of the page, which share a source.
async function load(figures) {
  const response = await fetch(figures[0].dataset.source, { headers: { Accept: "application/json" } });
  if (!response.ok) return 0;
  const reply = await response.json();
  const of = ([field, part]) => reply.fields.find((f) => f.name === field)?.[part] ?? [];
  const all = figures.map((f) => JSON.parse(f.dataset.lines));
  // A history that has just begun fills the charts.
  const known = all.flat().map((line) => of(line).findIndex((v) => v !== null)).filter((i) => i >= 0);
  const begin = Math.max(0, Math.min(reply.points - Number(figures[0].dataset.least), ...known));
  const from = Date.parse(reply.from) / 1000;
  const x = Array.from({ length: reply.points - begin }, (_, i) => from + (begin + i) * reply.step_seconds);
  figures.forEach((figure, i) => {
    const data = [x, ...all[i].map((line) => of(line).slice(begin))];
    if (charts.has(figure)) charts.get(figure).setData(data);
    else draw(figure, data, all[i]);
    figure.data = data;
  });
  return reply.step_seconds;
}

async function turn(figures) {
  let step = 0;
  try {
    if (!document.hidden) step = await load(figures);
  } catch {
    // the page itself tells that the service is away
  }
  setTimeout(turn, Math.min(Math.max(step, 10), 300) * 1000, figures);
}

addEventListener("DOMContentLoaded", () => {
  const figures = [...document.querySelectorAll("[data-plot]")];
  if (figures.length === 0 || typeof uPlot === "undefined") return;
  turn(figures);
  new ResizeObserver(() => charts.forEach((u, figure) => u.setSize({ width: figure.querySelector(".drawn").clientWidth, height: 150 }))).observe(figures[0]);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((_, figure) => draw(figure, figure.data, JSON.parse(figure.dataset.lines))));
});
