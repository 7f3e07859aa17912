package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/backup"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/files"
)

// copiedAtOnce is how many files are copied at once.
const copiedAtOnce = 4

// copies is a directory with the bytes of files, each once.
type copies struct {
	dir *files.Directory

	mu sync.Mutex
	by map[string]files.Object // by SHA-256
}

// openCopies opens a directory of --files, and makes it if it is missing.
func openCopies(ctx context.Context, path string) (*copies, error) {
	dir, err := files.OpenDirectory(path)
	if err != nil {
		return nil, fmt.Errorf("--files: %w", err)
	}
	c := &copies{dir: dir, by: make(map[string]files.Object)}
	for object, err := range dir.List(ctx) {
		if err != nil {
			return nil, fmt.Errorf("--files: %w", err)
		}
		c.by[object.SHA256] = object
	}
	return c, nil
}

// begin reports whether bytes must be copied, and notes that somebody does.
func (c *copies) begin(k backup.Kept) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if there, ok := c.by[k.SHA256]; ok && there.Size == k.Size {
		return false
	}
	c.by[k.SHA256] = files.Object{Size: k.Size}
	return true
}

// copied is what became of the bytes of a backup's files.
type copied struct {
	there, fetched, gone int
	bytes                int64
}

// fetch copies the bytes of a backup's files into the directory, unless it has them already.
func (c *copies) fetch(ctx context.Context, calls *client.Client, path string, g *gauge) (done copied, err error) {
	file, err := os.Open(path)
	if err != nil {
		return done, err
	}
	defer func() { _ = file.Close() }() // it was only read
	in, end, err := unpacking(file)
	if err != nil {
		return done, err
	}
	defer end()
	g.begin("files")
	defer g.end()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(copiedAtOnce)
	var mu sync.Mutex
	err = backup.EachKept(in, func(k backup.Kept) error {
		if !c.begin(k) {
			mu.Lock()
			defer mu.Unlock()
			done.there++
			return ctx.Err()
		}
		group.Go(func() error {
			err := c.fetchOne(ctx, calls, k)
			mu.Lock()
			defer mu.Unlock()
			var refused *client.Error
			switch {
			case err == nil:
				done.fetched++
				done.bytes += k.Size
			case errors.As(err, &refused) && (refused.Status == http.StatusNotFound || refused.Status == http.StatusGone):
				done.gone++ // it ended after the list was read, or the store has lost it
			default:
				return fmt.Errorf("file %s: %w", k.Object, err)
			}
			return nil
		})
		return ctx.Err()
	})
	return done, errors.Join(group.Wait(), err)
}

// fetchOne copies the bytes of a file.
func (c *copies) fetchOne(ctx context.Context, calls *client.Client, k backup.Kept) error {
	in, out := io.Pipe()
	fetched := make(chan error, 1)
	go func() {
		_, err := calls.Stored(ctx, k.Object, out)
		_ = out.CloseWithError(err)
		fetched <- err
	}()
	_, err := c.dir.Put(ctx, in, files.Want{SHA256: k.SHA256})
	_ = in.CloseWithError(err) // the call ends if nothing is stored any more
	if of := <-fetched; of != nil && !errors.Is(of, err) {
		return of
	}
	return err
}

// restored stores the bytes of files that a backup's list names.
type restored struct {
	copies *copies
	store  files.Store
	names  map[string]string // by SHA-256
	stored int
	lost   int // whose bytes are nowhere
}

// openRestored opens the store of the settings, for the copies in a directory.
func (e environment) openRestored(ctx context.Context, path string, lookup settings.Lookup) (*restored, func(), error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return nil, nil, errors.Join(err, fmt.Errorf("--files: %s must be the directory that rounds backup --files filled", path))
	}
	s, err := settings.ReadFileStore(lookup, nil)
	if err != nil {
		return nil, nil, err
	}
	e.lookup = lookup
	store, err := service.OpenFiles(ctx, s, serviceOptions(e))
	if err != nil {
		return nil, nil, err
	}
	if store == nil {
		return nil, nil, errors.New("--files: ROUNDS_FILES must name the store into which the files are restored")
	}
	end := func() {}
	if closer, ok := store.(interface{ Close() }); ok {
		end = closer.Close
	}
	from, err := openCopies(ctx, path)
	if err != nil {
		end()
		return nil, nil, err
	}
	return &restored{copies: from, store: store, names: make(map[string]string)}, end, nil
}

// object returns the name under which the store has the bytes of a file. It stores them unless
// they are there under their old name. If they are nowhere, that name stays.
func (r *restored) object(ctx context.Context, f *circulate.File) (string, error) {
	if name, known := r.names[f.Hash]; known {
		return name, nil
	}
	name := f.Object
	there, err := r.store.Open(ctx, name)
	if errors.Is(err, files.ErrNotFound) {
		name, err = r.put(ctx, f)
	} else if err == nil {
		err = there.Close()
	}
	if err != nil {
		return "", err
	}
	r.names[f.Hash] = name
	return name, nil
}

func (r *restored) put(ctx context.Context, f *circulate.File) (string, error) {
	from, err := r.copies.dir.Open(ctx, r.copies.by[f.Hash].Name)
	if errors.Is(err, files.ErrNotFound) {
		r.lost++
		return f.Object, nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = from.Close() }() // it was only read
	object, err := r.store.Put(ctx, from, files.Want{SHA256: f.Hash})
	if err != nil {
		return "", fmt.Errorf("file %s: %w", from.Object().Name, err)
	}
	r.stored++
	return object.Name, nil
}
