package browser

import (
	"slices"
	"testing"

	"github.com/rounds-dev/rounds/testing/browser/scene"
)

// watchPlots keeps what uPlot draws where a test can look at it.
const watchPlots = `(() => { let made; Object.defineProperty(window, "uPlot", { configurable: true, get: () => made, set: (plot) => {
  made = class extends plot { constructor(...all) { super(...all); (window.plots ??= []).push(this); } };
} }); })()`

// testPlots shows that the time axis of the Overview's charts has each name once, and none that
// is cut, whatever time it shows.
func (w *world) testPlots(t *testing.T) {
	tab := open(t, w.browser, w.scene.URL)
	w.signIn(t, tab, scene.Token)
	try(t, func() error { return tab.onEveryPage(watchPlots) })
	for _, path := range []string{"/", "/?span=day", "/?span=week"} {
		try(t, func() error { return tab.Go(path) }, func() error { return tab.await(`window.plots?.length >= 4`) }, tab.drawn)
		for _, width := range []int64{360, 1280} {
			try(t, func() error { return tab.Widen(width) }, tab.drawn)
			names, err := eval[[]string](tab, `plots.flatMap((u, i) => (u.axes[0]._values ?? []).filter(Boolean).map((name) => i + " " + name))`)
			if err != nil || len(names) < 4 || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
				t.Errorf("%s at %d: the axis names %q, %v", path, width, names, err)
			}
			cut, err := eval[[]string](tab, `plots.flatMap((u) => { const pen = document.createElement("canvas").getContext("2d"); pen.font = "11px system-ui, sans-serif";
  return (u.axes[0]._splits ?? []).map((s, i) => [u.axes[0]._values[i], u.over.offsetLeft + u.valToPos(s, "x")]).filter(([name, at]) => name && (at - pen.measureText(name).width / 2 < 0 || at + pen.measureText(name).width / 2 > u.width)).map(([name]) => name); })`)
			if err != nil || len(cut) > 0 {
				t.Errorf("%s at %d: %q are cut, %v", path, width, cut, err)
			}
		}
	}
	for _, tt := range []struct {
		step, count int
		named       int // at least
	}{{1, 12, 12}, {10, 30, 30}, {15, 20, 20}, {60, 12, 12}, {3600, 24, 24}, {4 * 3600, 7, 7}, {12 * 3600, 14, 7}, {86400, 7, 7}, {7 * 86400, 5, 5}} {
		names, err := eval[[]string](tab, "plots[0].axes[0].values(plots[0], Array.from({length: "+encoded(t, tt.count)+"}, (_, i) => 1795219200 + i * "+encoded(t, tt.step)+")).filter(Boolean)")
		if err != nil || len(names) < tt.named || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
			t.Errorf("%d times %d s: %q, %v", tt.count, tt.step, names, err)
		}
	}
	sound(t, tab)
}
