package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"

	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

const (
	filesRead    = 200 // small files that are read, and all large ones
	filesRanges  = 5   // of each
	filesReaders = 8
	filesCuts    = 2 // of each download
)

// read reads kept files through the API: as a whole over connections that break, and ranges of them.
func (r *filesRun) read(ctx context.Context) error {
	cut := &cutter{to: r.api, times: make(map[string]int)}
	server := httptest.NewUnstartedServer(cut)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	defer server.Close()
	calls := client.New(server.URL, "")
	defer calls.Close()
	numbers := make(chan int)
	go func() {
		defer close(numbers)
		for number := r.small; number < len(r.files); number++ {
			numbers <- number
		}
		for range min(filesRead, r.small) {
			numbers <- rand.IntN(r.small)
		}
	}()
	var readers sync.WaitGroup
	var downloads, ranges atomic.Int64
	errs := make(chan error, filesReaders)
	for range filesReaders {
		readers.Go(func() {
			var failed error
			for number := range numbers { // after an error the rest is only counted off
				if failed != nil {
					continue
				}
				file := &r.files[number]
				failed = errors.Join(r.download(ctx, calls, file), r.ranges(ctx, file))
				downloads.Add(1)
				ranges.Add(filesRanges)
			}
			errs <- failed
		})
	}
	readers.Wait()
	close(errs)
	var failed error
	for err := range errs {
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		return failed
	}
	r.report.figure(r.name+"downloads", float64(downloads.Load()), "downloads with the third parties' bytes")
	r.report.figure(r.name+"resumed", float64(cut.cuts.Load()), "times that one broke off and was resumed")
	r.report.figure(r.name+"ranges", float64(ranges.Load()), "ranges with the third parties' bytes")
	return nil
}

func (f *filed) path() string { return "/v1/messages/" + f.ref + "/files/0" }

// download reads a whole file.
func (*filesRun) download(ctx context.Context, calls *client.Client, file *filed) error {
	to := &comparing{content: file.fileContent}
	size, err := calls.File(ctx, file.path(), to)
	if err == nil && size != file.size {
		err = fmt.Errorf("%d bytes of %d", size, file.size)
	}
	if err != nil {
		return fmt.Errorf("file %d is read: %w", file.number, err)
	}
	return nil
}

// ranges reads parts of a file, at its ends as well.
func (r *filesRun) ranges(ctx context.Context, file *filed) error {
	for i := range filesRanges {
		from := rand.Int64N(file.size)
		to := min(file.size, from+1+rand.Int64N(256<<10))
		switch i {
		case 0:
			from = 0
		case 1:
			to = file.size
		}
		if err := r.part(ctx, file, from, to); err != nil {
			return fmt.Errorf("file %d, bytes %d to %d: %w", file.number, from, to, err)
		}
	}
	return nil
}

func (r *filesRun) part(ctx context.Context, file *filed, from, to int64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.api+file.path(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, to-1))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusPartialContent {
		return fmt.Errorf("the answer is %s", answer.Status)
	}
	n, err := io.Copy(&comparing{content: file.fileContent, at: from}, answer.Body)
	if err == nil && n != to-from {
		err = fmt.Errorf("%d bytes came", n)
	}
	return err
}

// cutter is a proxy that breaks off the first answers of each path.
type cutter struct {
	to   string
	cuts atomic.Int64

	mu    sync.Mutex
	times map[string]int
}

// ServeHTTP forwards a request.
func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, c.to+r.URL.RequestURI(), nil)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	out.Header = r.Header.Clone()
	answer, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	if answer.ContentLength > 1 && c.next(r.URL.Path) {
		_, _ = io.CopyN(w, answer.Body, 1+rand.Int64N(answer.ContentLength-1)) // it breaks in any case
		panic(http.ErrAbortHandler)
	}
	_, _ = io.Copy(w, answer.Body) // the client notices what is missing
}

// next reports whether the next answer of a path breaks off.
func (c *cutter) next(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times[path]++
	if c.times[path] > filesCuts {
		return false
	}
	c.cuts.Add(1)
	return true
}
