//go:build !night

package browser

// widths are those that every page is measured at. At night there are more.
var widths = []int64{320, 1280}
