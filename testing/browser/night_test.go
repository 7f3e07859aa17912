//go:build night

package browser

// widths are those that every page is measured at.
var widths = []int64{320, 768, 1280, 2560}
