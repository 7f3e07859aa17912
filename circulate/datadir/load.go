package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate/image"
)

const (
	newestName   = "data.zst"
	previousName = "data.previous.zst"
	writtenName  = "data.new.zst"
	damagedName  = "data.damaged-"
	packedEnd    = ".zst"
)

// LostError reports that there are images and none can be read.
type LostError struct {
	Path    string
	Damaged []Damaged
}

// Error names each file, and says what to do.
func (e *LostError) Error() string {
	var files []string
	for _, d := range e.Damaged {
		files = append(files, d.Name+" ("+d.Reason+")")
	}
	return fmt.Sprintf("data directory %s: nothing in it can be read: %s; nothing was changed. Put a copy of one of these files in its place, or restore a backup into another directory (rounds restore FILE --data DIR), or begin with nothing by moving the files away",
		e.Path, strings.Join(files, ", "))
}

// load fills the server from the newest image that can be read.
func (d *Dir) load(ctx context.Context) error {
	names, err := d.images()
	if err != nil {
		return err
	}
	var damaged []Damaged
	for _, name := range names {
		header, err := d.try(ctx, name)
		var later *image.NewerError
		switch {
		case err == nil:
			return d.begin(name, header.Time, damaged)
		case errors.As(err, &later):
			return fmt.Errorf("data directory %s: %s is not for this program: %w; nothing was changed", d.options.Path, name, err)
		case errors.Is(err, errDamaged):
			damaged = append(damaged, Damaged{Name: name, Reason: strings.TrimPrefix(err.Error(), errDamaged.Error()+": ")})
		default:
			return fmt.Errorf("data directory %s: %s: %w", d.options.Path, name, reason(err))
		}
	}
	if len(damaged) == 0 || len(names) == 1 && names[0] == writtenName {
		// The first image ever was being written: there is nothing to lose.
		d.options.Log.Info("the data directory is new", "path", d.options.Path)
		return nil
	}
	return &LostError{Path: d.options.Path, Damaged: damaged}
}

// images returns the images that there are, the one to use first.
func (d *Dir) images() ([]string, error) {
	var names []string
	for _, name := range []string{newestName, writtenName, previousName} {
		switch _, err := os.Stat(filepath.Join(d.options.Path, name)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("data directory %s: %s: %w", d.options.Path, name, reason(err))
		case name == writtenName && len(names) > 0:
			// The newest is there, so this one is of a save that did not end.
		default:
			names = append(names, name)
		}
	}
	return names, nil
}

var errDamaged = errors.New("damaged")

// try reads an image to its end, and then fills the server from it.
func (d *Dir) try(ctx context.Context, name string) (image.Header, error) {
	var header image.Header
	if err := d.read(name, func(in io.Reader) (err error) {
		header, _, err = image.Verify(in)
		return err
	}); err != nil {
		return header, err
	}
	return header, d.read(name, func(in io.Reader) error {
		_, err := image.Load(ctx, d.server, in, time.Now())
		return err
	})
}

// read opens an image. Whatever prevents that it is read to its end is damage.
func (d *Dir) read(name string, use func(io.Reader) error) error {
	file, err := d.disk.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	err = use(file)
	if err == nil || errors.As(err, new(*image.NewerError)) {
		return err
	}
	return fmt.Errorf("%w: %w", errDamaged, err)
}

// begin notes which image was used, and sets damaged ones aside.
func (d *Dir) begin(used string, of time.Time, damaged []Damaged) error {
	log := d.options.Log
	for i := range damaged {
		was := damaged[i].Name
		damaged[i].Used, damaged[i].Name = of, damagedName+time.Now().UTC().Format("20060102T150405.000")+packedEnd
		if err := d.disk.Rename(was, damaged[i].Name); err != nil {
			return fmt.Errorf("data directory %s: %s is damaged (%s) and cannot be set aside: %w", d.options.Path, was, damaged[i].Reason, reason(err))
		}
		log.Error("a file of the data directory is damaged: it was set aside, and the one before it is used; what came after that is lost",
			"path", d.options.Path, "file", was, "reason", damaged[i].Reason, "set_aside", damaged[i].Name, "used", used, "of", of)
	}
	if len(damaged) == 0 && used == previousName {
		log.Error("the newest file of the data directory is missing: the one before it is used; what came after that is lost",
			"path", d.options.Path, "file", newestName, "used", used, "of", of)
	}
	if used == writtenName { // the process ended between the two renamings
		if err := d.disk.Rename(writtenName, newestName); err != nil {
			return fmt.Errorf("data directory %s: cannot be written: %w", d.options.Path, reason(err))
		}
		used = newestName
	}
	d.newest = used == newestName
	d.state.Saved, d.state.Damaged = of, damaged
	// The first image reads everything. Nobody waits for that yet.
	loaded, err := d.taker.Take()
	if err != nil {
		return fmt.Errorf("data directory %s: %w", d.options.Path, err)
	}
	d.state.Keys, d.state.Bytes = loaded.Keys(), loaded.Bytes()
	if d.newest { // it is not saved again as long as nothing changes
		_, _, d.marks = loaded.Changed(d.marks, nil)
	}
	log.Info("data loaded", "path", d.options.Path, "of", of)
	return nil
}
