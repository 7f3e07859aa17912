//go:build !linux && !darwin

package doctor

// freeIn does not know.
func freeIn(string) (bytes int64, known bool) { return 0, false }
