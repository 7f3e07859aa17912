// Times in the viewer's zone. The server writes them in UTC, which stays in the title.
const language = document.documentElement.lang;
const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const year = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const relative = new Intl.RelativeTimeFormat(language, { numeric: "always", style: "short" });
const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

// inZone returns a time as the viewer's clock has it, and the day where it is not today.
export function inZone(time) {
  const now = new Date();
  if (time.toDateString() === now.toDateString()) return clock.format(time);
  return (time.getFullYear() === now.getFullYear() ? day : year).format(time);
}

function ago(time) {
  let seconds = Math.trunc((time - Date.now()) / 1000);
  if (seconds === 0) seconds = -1;
  const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size);
  return relative.format(Math.trunc(seconds / size), unit);
}

// showTimes rewrites the times below an element.
export function showTimes(below) {
  for (const e of below.querySelectorAll("time[datetime]")) {
    const time = new Date(e.dateTime);
    if (isNaN(time)) continue;
    if ("when" in e.dataset) e.textContent = inZone(time);
    if ("ago" in e.dataset) {
      e.textContent = ago(time);
      if (!e.dataset.zoned) {
        e.dataset.zoned = "1";
        e.title = `${inZone(time)} (${e.title})`;
      }
    }
  }
}

setInterval(() => document.hidden || showTimes(document), 1000);
