//go:build night

package browser

// atNight is whether what takes longest is looked at too: how the dashboard shows the
// death of a poller, and pages in Chinese and without JavaScript.
const atNight = true

// widths are those that every page is measured at.
var widths = []int64{320, 768, 1280, 2560}
