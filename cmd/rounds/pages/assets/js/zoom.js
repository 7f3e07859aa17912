// Drag over a chart to see that time larger. A click on a moment is a link, also without scripts.
const least = 6; // pixels: less is a click

for (const place of document.querySelectorAll("[data-zoom]")) {
  let from = null;
  let band = null;
  const at = (e) => {
    const box = place.getBoundingClientRect();
    return Math.min(Math.max((e.clientX - box.left) / box.width, 0), 1);
  };
  place.addEventListener("dragstart", (e) => e.preventDefault()); // of a link
  place.addEventListener("pointerdown", (e) => {
    if (e.button !== 0 || e.pointerType === "touch") return;
    from = { x: e.clientX, at: at(e) };
  });
  addEventListener("pointermove", (e) => {
    if (!from || (!band && Math.abs(e.clientX - from.x) < least)) return;
    if (!band) {
      band = document.createElement("div");
      band.className = "band";
      place.append(band);
    }
    const [left, right] = [from.at, at(e)].sort((a, b) => a - b);
    band.style.left = `${left * 100}%`;
    band.style.width = `${(right - left) * 100}%`;
  });
  addEventListener("pointerup", (e) => {
    const began = from;
    from = null;
    if (!band) return;
    band.remove();
    band = null;
    addEventListener("click", (c) => c.preventDefault(), { capture: true, once: true });
    const [left, right] = [began.at, at(e)].sort((a, b) => a - b);
    const points = Number(place.dataset.over), step = Number(place.dataset.step);
    const time = (point) => new Date((Number(place.dataset.zoom) + point * step) * 1000).toISOString().replace(".000", "");
    const first = Math.min(Math.floor(left * points), points - 1);
    const to = new URL(location.href);
    to.searchParams.delete("span");
    to.searchParams.set("from", time(first));
    to.searchParams.set("to", time(Math.max(Math.ceil(right * points), first + 1)));
    location.assign(to);
  });
}
