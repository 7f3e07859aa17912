// What every page loads: times in the viewer's zone, keys, and live blocks.
import { showTimes } from "./time.js";
import { listenToKeys } from "./keys.js";
import { listen } from "./live.js";

document.documentElement.classList.add("js");
showTimes(document);
listenToKeys();
listen();

// What was said is said once, and not again by a reload or to a colleague.
const here = new URL(location.href);
if (here.searchParams.has("said")) {
  here.searchParams.delete("said");
  history.replaceState(null, "", here);
}
