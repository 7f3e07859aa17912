package monitor

import "testing"

// Large records make the steps of a scan smaller, and small ones larger again.
func TestScanSize(t *testing.T) {
	var s scanSize
	if s.page() != scanPage {
		t.Fatalf("it begins with %d", s.page())
	}
	for range 20 {
		s.read(s.page() * 64 << 10) // each record as large as can be
	}
	if n := s.page(); n < scanLeast || n*64<<10 > 2*scanBytes {
		t.Errorf("%d accounts a step, with records of 64 KiB", n)
	}
	for range 20 {
		s.read(s.page() * 200)
	}
	if s.page() != scanPage {
		t.Errorf("%d accounts a step, with records of 200 bytes", s.page())
	}
}
