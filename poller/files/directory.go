package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600

	// bufferSize is how much of a file is in memory while it is stored.
	bufferSize = 64 << 10

	// listed is how many entries of a folder are in memory while it is listed.
	listed = 1000
)

// Directory is a Store in a directory of the operating system. Processes on several machines share it
// if they mount the same one.
type Directory struct {
	path string

	// known are folders whose names this process has synced. Another process may have made a folder and
	// been killed before it synced the name.
	known sync.Map

	// step is called before each step of Put, for tests; may be nil.
	step func(name string)
}

// OpenDirectory opens a store in a directory. It makes the directory if that is missing, but none
// above it: a disk that is not mounted must not look like an empty store. The errors of a Directory begin
// with its path and say what to do.
func OpenDirectory(path string) (*Directory, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("files directory %s: %w", path, err)
	}
	d := &Directory{path: path}
	if err := os.Mkdir(path, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("files directory %s: the directory above it is missing: make it, mount its disk, or name another directory in ROUNDS_FILES", path)
		}
		return nil, d.failed("cannot be made", err)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, d.failed("cannot be opened", err)
	case !info.IsDir():
		return nil, fmt.Errorf("files directory %s: it is no directory: name another one in ROUNDS_FILES", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0:
		return nil, fmt.Errorf("files directory %s: everybody on this machine may write to it (mode %04o), and so change what is in it: chmod o-w %s, or name another directory in ROUNDS_FILES", path, info.Mode().Perm(), path)
	}
	return d, nil
}

// String returns the directory's path.
func (d *Directory) String() string { return "directory " + d.path }

// open opens the directory anew each time, because its disk may have been mounted again since.
func (d *Directory) open() (*os.Root, error) {
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, d.failed("cannot be opened", err)
	}
	return root, nil
}

// Put implements Store.
func (d *Directory) Put(ctx context.Context, r io.Reader, want Want) (Object, error) {
	root, err := d.open()
	if err != nil {
		return Object{}, err
	}
	defer func() { _ = root.Close() }() // it only names files
	in := NewIntake(ctx, r, want)
	temp := NewTemp()
	if err := d.write(root, temp, in); err != nil {
		_ = root.Remove(temp) // Tidy removes what cannot be removed now
		return Object{}, err
	}
	o := Object{Name: NewName(in.SHA256()), SHA256: in.SHA256(), Size: in.Size()}
	if err := d.publish(root, temp, o.Name); err != nil {
		_, _ = root.Remove(temp), root.Remove(o.Name) // one of them is there
		return Object{}, err
	}
	return o, nil
}

// write writes a file under a temporary name, and syncs it.
func (d *Directory) write(root *os.Root, temp string, in *Intake) error {
	d.before("create")
	file, err := d.create(root, temp)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // after an error; it is closed below otherwise
	buffer := make([]byte, bufferSize)
	for {
		n, end := in.Read(buffer)
		if n > 0 {
			d.before("write")
			if _, err := file.Write(buffer[:n]); err != nil {
				return d.failed("cannot be written", err)
			}
		}
		if in.Ended() {
			break
		}
		if end != nil {
			return end
		}
	}
	d.before("sync")
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return d.failed("cannot be written", err)
	}
	return nil
}

// create creates a file and, if it is missing, its folder.
func (d *Directory) create(root *os.Root, name string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	file, err := root.OpenFile(name, flags, fileMode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.makeFolder(root, path.Dir(name)); err != nil {
			return nil, err
		}
		file, err = root.OpenFile(name, flags, fileMode)
	}
	if err != nil {
		return nil, d.failed("cannot be written", err)
	}
	return file, nil
}

// makeFolder makes a folder of the directory, if it is missing, and syncs its name.
func (d *Directory) makeFolder(root *os.Root, name string) error {
	if err := root.Mkdir(name, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return d.failed("cannot be written", err)
	}
	if err := d.sync(root, "."); err != nil {
		return err
	}
	d.known.Store(name, true)
	return nil
}

// publish renames a temporary file to its name, and syncs the name.
func (d *Directory) publish(root *os.Root, temp, name string) error {
	folder := path.Dir(name)
	if _, known := d.known.Load(folder); !known {
		if err := d.makeFolder(root, folder); err != nil {
			return err
		}
	}
	d.before("rename")
	err := root.Rename(temp, name)
	if errors.Is(err, fs.ErrNotExist) { // somebody removed the folder, or mounted another disk
		if err := d.makeFolder(root, folder); err != nil {
			return err
		}
		err = root.Rename(temp, name)
	}
	if err != nil {
		return d.failed("cannot be written", err)
	}
	d.before("sync folder")
	return d.sync(root, folder)
}

// sync syncs a folder, so that the names in it last.
func (d *Directory) sync(root *os.Root, name string) error {
	if runtime.GOOS == "windows" {
		return nil // this system syncs no folders; its journal has the names
	}
	folder, err := root.Open(name)
	if err == nil {
		err = errors.Join(folder.Sync(), folder.Close())
	}
	if err != nil {
		return d.failed("cannot be synced", err)
	}
	return nil
}

func (d *Directory) before(step string) {
	if d.step != nil {
		d.step(step)
	}
}

// Open implements Store.
func (d *Directory) Open(ctx context.Context, name string) (Reader, error) {
	hash, ok := HashOf(name)
	if !ok {
		return nil, ErrNotFound
	}
	root, err := d.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // the file needs it no more
	file, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, d.failed("cannot be read", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("the object is not a file but %s", info.Mode().Type())
	}
	if err != nil {
		_ = file.Close() // nothing was read
		return nil, d.failed("cannot be read", err)
	}
	return &openFile{file, ctx, Object{Name: name, SHA256: hash, Size: info.Size(), Modified: info.ModTime()}}, nil
}

// openFile is an object in a directory.
type openFile struct {
	*os.File
	ctx    context.Context
	object Object
}

// Object implements Reader.
func (f *openFile) Object() Object { return f.object }

// Read implements Reader.
func (f *openFile) Read(p []byte) (int, error) {
	if f.ctx.Err() != nil {
		return 0, context.Cause(f.ctx)
	}
	return f.File.Read(p)
}

// Remove implements Store.
func (d *Directory) Remove(_ context.Context, name string) error {
	if _, ok := HashOf(name); !ok {
		return nil
	}
	root, err := d.open()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it only names files
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.failed("cannot be written", err)
	}
	return nil
}

// List implements Store.
func (d *Directory) List(ctx context.Context) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if err := d.list(ctx, yield); err != nil {
			yield(Object{}, err)
		}
	}
}

func (d *Directory) list(ctx context.Context, yield func(Object, error) bool) error {
	root, err := d.open()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it is only read
	for n := range 256 {
		more := true
		err := d.entries(ctx, root, fmt.Sprintf("%02x", n), func(name string, info fs.FileInfo) error {
			if hash, ok := HashOf(name); ok && more {
				more = yield(Object{Name: name, SHA256: hash, Size: info.Size(), Modified: info.ModTime()}, nil)
			}
			if !more {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// entries calls fn with every file of a folder, which may be missing. An fs.SkipAll ends it.
func (d *Directory) entries(ctx context.Context, root *os.Root, folder string, fn func(name string, info fs.FileInfo) error) error {
	opened, err := root.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return d.failed("cannot be read", err)
	}
	defer func() { _ = opened.Close() }() // it is only read
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		all, err := opened.ReadDir(listed)
		for _, entry := range all {
			info, err := entry.Info()
			if err != nil || !info.Mode().IsRegular() {
				continue // it was removed meanwhile, or is none of ours
			}
			if err := fn(folder+"/"+entry.Name(), info); errors.Is(err, fs.SkipAll) {
				return nil
			} else if err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return d.failed("cannot be read", err)
		}
	}
}

// Tidy implements Store.
func (d *Directory) Tidy(ctx context.Context, before time.Time) (removed int, err error) {
	root, err := d.open()
	if err != nil {
		return 0, err
	}
	defer func() { _ = root.Close() }() // it only names files
	err = d.entries(ctx, root, TempDir, func(name string, info fs.FileInfo) error {
		if !info.ModTime().Before(before) {
			return nil
		}
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return d.failed("cannot be written", err)
		}
		removed++
		return nil
	})
	return removed, err
}

// Check implements Store.
func (d *Directory) Check(ctx context.Context) (Room, error) {
	root, err := d.open()
	if err != nil {
		return Room{}, err
	}
	defer func() { _ = root.Close() }() // it only names files
	temp := NewTemp()
	err = d.write(root, temp, NewIntake(ctx, strings.NewReader("rounds"), Want{}))
	if gone := root.Remove(temp); err == nil && gone != nil {
		err = d.failed("cannot be written", gone)
	}
	free, known := FreeIn(d.path)
	return Room{Free: free, Known: known}, err
}

// failed returns an error of the operating system with the directory and what to do.
func (d *Directory) failed(what string, err error) error {
	cure := "see its disk"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("files directory %s: %w on its disk: make room, or name a directory on another disk in ROUNDS_FILES", d.path, ErrFull)
	case errors.Is(err, syscall.EROFS):
		cure = "mount its disk for writing, or name another directory in ROUNDS_FILES"
	case errors.Is(err, fs.ErrPermission):
		cure = fmt.Sprintf("give it to the user %d of this process (chown), or name another directory in ROUNDS_FILES", os.Getuid())
	case errors.Is(err, fs.ErrNotExist):
		cure = "make it, mount its disk, or name another directory in ROUNDS_FILES"
	}
	return fmt.Errorf("files directory %s: %s: %w: %s", d.path, what, reason(err), cure)
}

// reason returns an error without the path, which the caller names.
func reason(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return err
}
