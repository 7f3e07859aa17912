package doctor

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/poller/files"
)

const partFiles = "files"

// mostCompared is the most files that are compared with the store: each takes some 100 bytes.
const mostCompared = 2_000_000

// files looks at the store of files, and compares it with the list of a ring. A nil ring cannot be
// read here.
func (d *doctor) files(ctx context.Context, ring *circulate.Ring) {
	store := d.Service.Files
	if store == nil {
		at := d.Settings.FileStore.At()
		if at.Bucket == nil && at.Directory == "" {
			d.ok(partFiles, "none are kept: ROUNDS_FILES names no place for them")
			return
		}
		if _, err := os.Stat(at.Directory); at.Bucket == nil && errors.Is(err, fs.ErrNotExist) { // opening would make it
			d.ok(partFiles, at.Directory+" is not there yet: the first process makes it")
			return
		}
		var err error
		if store, err = service.OpenFiles(ctx, d.Settings, d.Service); err != nil {
			for line := range strings.Lines(err.Error()) {
				d.fault(partFiles, strings.TrimSpace(line), "")
			}
			return
		}
		if closer, ok := store.(interface{ Close() }); ok {
			defer closer.Close()
		}
	}
	var room files.Room
	var err error
	d.within(ctx, func(ctx context.Context) { room, err = store.Check(ctx) })
	switch {
	case err != nil:
		d.fault(partFiles, fmt.Sprintf("nothing can be stored in %s: %v", store, err), "see whether ROUNDS_FILES can be reached and written, and has room")
		return
	case room.Known && room.Free < leastFree:
		d.warn(partFiles, fmt.Sprintf("%s can be written, but has only %s left", store, size(room.Free)), "make room for files, or bound them: ROUNDS_FILES_QUOTA")
	case room.Known:
		d.ok(partFiles, fmt.Sprintf("%s can be written, and has %s left", store, size(room.Free)))
	default:
		d.ok(partFiles, fmt.Sprintf("%s can be written", store))
	}
	if ring == nil {
		d.skip(partFiles, "the list of files is inside the service's process, so the store was not compared with it")
		return
	}
	c := comparison{list: ring.Files(), store: store}
	look := func(ctx context.Context) { err = c.compare(ctx) }
	if d.Audit {
		look(ctx)
	} else {
		d.within(ctx, look)
	}
	c.report(d, err)
}

// comparison is what the store and the list have, and what only one of them has.
type comparison struct {
	list  circulate.Files
	store files.Store

	kept    int // files of the list
	objects int // of the store
	orphans int // objects that no file has, older than a day
	missing int // files whose object the store does not have
	first   circulate.File
}

var errTooMany = errors.New("there are too many files to compare")

// compare compares the store with the list. What is kept or removed meanwhile is no difference.
func (c *comparison) compare(ctx context.Context) error {
	seed := maphash.MakeSeed()
	rows := make(map[uint64]string) // the id of a file, by the name of its object
	err := c.list.Walk(ctx, func(some []circulate.File) error {
		for i := range some {
			if some[i].State == circulate.FileKept {
				rows[maphash.String(seed, some[i].Object)] = some[i].ID
				c.kept++
			}
		}
		if len(rows) > mostCompared {
			return errTooMany
		}
		return nil
	})
	if err != nil {
		return err
	}
	condemned := make(map[uint64]bool)
	err = c.list.Condemned(ctx, 0, func(names []string) error {
		for _, name := range names {
			condemned[maphash.String(seed, name)] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	seen := make(map[uint64]bool, len(rows))
	old := time.Now().Add(-files.LeftoverAge)
	for object, err := range c.store.List(ctx) {
		if err != nil {
			return err
		}
		c.objects++
		switch name := maphash.String(seed, object.Name); {
		case rows[name] != "":
			seen[name] = true
		case !condemned[name] && object.Modified.Before(old):
			c.orphans++
		}
	}
	for name, id := range rows {
		if seen[name] {
			continue
		}
		if err := c.look(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// look looks again at a file whose object was not listed.
func (c *comparison) look(ctx context.Context, id string) error {
	rows, err := c.list.Look(ctx, false, id)
	if err != nil || rows[0].State != circulate.FileKept {
		return err
	}
	object, err := c.store.Open(ctx, rows[0].Object)
	if errors.Is(err, files.ErrNotFound) {
		if c.missing++; c.missing == 1 {
			c.first = rows[0]
		}
		return nil
	}
	if err != nil {
		return err
	}
	return object.Close()
}

func (c *comparison) report(d *doctor, err error) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		d.skip(partFiles, fmt.Sprintf("the store was not compared with the list within %s; --audit takes as long as it needs", d.Within))
		return
	case errors.Is(err, errTooMany):
		d.skip(partFiles, "the store was not compared with the list: "+err.Error())
		return
	case err != nil:
		d.fault(partFiles, fmt.Sprintf("the store could not be compared with the list: %v", err), "")
		return
	case c.missing > 0:
		d.fault(partFiles, fmt.Sprintf("the store lacks the bytes of %s that the list has, such as file %d of message %s of account %s", counted(c.missing, "file"), c.first.Place, c.first.Of, c.first.Account),
			"see whether ROUNDS_FILES names the right place, or restore the files from a backup; until then they answer 410")
	}
	if c.orphans > 0 {
		d.warn(partFiles, fmt.Sprintf("the store has %s older than a day that no file has", counted(c.orphans, "object")), "wait a day: a process with the role monitor or delivery removes them")
	}
	if c.missing == 0 && c.orphans == 0 {
		d.ok(partFiles, fmt.Sprintf("the store has the bytes of all of %s, in %s", counted(c.kept, "file"), counted(c.objects, "object")))
	}
}
