//go:build !race

package processes

// RaceDetector reports whether this program was built with the race detector.
const RaceDetector = false
