package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/files"
)

// leastFree is how much space a directory should have left.
const leastFree = 256 << 20

// dataDir looks at the directory in which the Redis inside the process stores its data.
func (d *doctor) dataDir() {
	const part = "data"
	s := d.Settings.Redis
	switch {
	case s.DataDir == settings.Memory:
		d.warn(part, "ROUNDS_DATA_DIR is memory: everything is lost when the process ends", "set ROUNDS_DATA_DIR to a directory, or ROUNDS_REDIS_URL, unless that is meant")
		return
	case !s.InDataDir():
		return // the settings have a fault
	}
	info, err := os.Stat(s.DataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.ok(part, s.DataDir+" is not there yet: the first process makes it")
		return
	case err != nil:
		d.fault(part, err.Error(), "correct ROUNDS_DATA_DIR, or the rights of that directory")
		return
	case !info.IsDir():
		d.fault(part, s.DataDir+" is not a directory", "correct ROUNDS_DATA_DIR")
		return
	}
	file, err := os.CreateTemp(s.DataDir, ".doctor-*")
	if err != nil {
		d.fault(part, "nothing can be written in "+s.DataDir+": "+err.Error(), "let the service's user write there, and see whether the disk is full or read-only")
		return
	}
	_, err = file.Write(make([]byte, 4096))
	err = errors.Join(err, file.Close(), os.Remove(file.Name()))
	if err != nil {
		d.fault(part, "nothing can be written in "+s.DataDir+": "+err.Error(), "see whether the disk is full")
		return
	}
	free, known := files.FreeIn(s.DataDir)
	switch {
	case !known:
		d.ok(part, s.DataDir+" can be written")
	case free < leastFree:
		d.warn(part, fmt.Sprintf("%s can be written, but its disk has only %s left", s.DataDir, size(free)), "make room on the disk of "+s.DataDir)
	default:
		d.ok(part, fmt.Sprintf("%s can be written, and its disk has %s left", s.DataDir, size(free)))
	}
}
