//go:build linux || darwin

package doctor

import "syscall"

// freeIn returns how many bytes a user may still write to a directory's disk.
func freeIn(dir string) (bytes int64, known bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
