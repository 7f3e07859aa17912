//go:build linux || darwin

package files

import "syscall"

// FreeIn returns how many bytes a user may still write to a directory's disk.
func FreeIn(dir string) (bytes int64, known bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
