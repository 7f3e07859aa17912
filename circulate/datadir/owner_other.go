//go:build !unix

package datadir

import "io/fs"

// foreign returns "": owners are unknown on this system.
func foreign(fs.FileInfo) string { return "" }
