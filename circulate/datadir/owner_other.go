//go:build !unix

package datadir

import "io/fs"

// foreign is not known on this system.
func foreign(fs.FileInfo) string { return "" }
