//go:build !linux && !darwin

package doctor

// freeIn reports that the space is unknown on this system.
func freeIn(string) (bytes int64, known bool) { return 0, false }
