//go:build unix

package datadir

import (
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// foreign returns the user that owns a directory, if that is not this process's user;
// otherwise "".
func foreign(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() {
		return ""
	}
	return strconv.FormatUint(uint64(stat.Uid), 10)
}
