//go:build !linux && !darwin

package files

// FreeIn reports that the space is unknown on this system.
func FreeIn(string) (bytes int64, known bool) { return 0, false }
