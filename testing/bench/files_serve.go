package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/poller/files"
	"github.com/rounds-dev/rounds/testing/versitygw"
)

// filesVariable is the variable with the place of files, as the service has it.
const filesVariable = "ROUNDS_FILES"

// filesServe is the service with all roles, until its input ends.
func filesServe(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("filesserve", flag.ContinueOnError)
	url := flags.String("redis", "", "URL of Redis")
	if err := flags.Parse(args); err != nil {
		return err
	}
	place := os.Getenv(filesVariable)
	variables := map[string]string{
		"ROUNDS_REDIS_URL": *url, "ROUNDS_NAMESPACE": filesSpace, "ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ALLOW_NETWORKS": "127.0.0.0/8",
		"ROUNDS_ROLES": "api,poller,monitor,delivery", filesVariable: place,
	}
	if strings.HasPrefix(place, "s3://") {
		variables["ROUNDS_FILES_ACCESS_KEY"], variables["ROUNDS_FILES_SECRET_KEY"] = versitygw.AccessKey, versitygw.SecretKey
	}
	s, lookup, err := serviceSettings(variables)
	if err != nil {
		return err
	}
	store, err := service.OpenFiles(ctx, s, service.Options{Lookup: lookup})
	if err != nil {
		return err
	}
	troubled := &troubledStore{Store: store, pause: slowRead}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, serving := make(chan error, 1), make(chan string, 1)
	go func() {
		ended <- service.Run(ctx, s, service.Options{Version: "bench", Lookup: lookup, Files: troubled, Serving: func(addr string) { serving <- addr }})
	}()
	err = answering(in, out, "", func(what string, _ int) (any, error) {
		switch what {
		case "where":
			select {
			case addr := <-serving:
				return "http://" + addr, nil
			case err := <-ended:
				return nil, fmt.Errorf("filesserve ended: %w", err)
			}
		case storeWell, storeFull, storeSlow:
			troubled.be(what)
			return true, nil
		}
		return nil, fmt.Errorf("filesserve: %q", what)
	})
	cancel()
	return errors.Join(err, <-ended)
}

// What a store may be.
const (
	storeWell = "well"
	storeFull = "full"
	storeSlow = "slow"
)

// slowRead is how long a slow store waits before each read, of 64 KiB at most.
const slowRead = 50 * time.Millisecond

// troubledStore is a store that may be full or slow.
type troubledStore struct {
	files.Store
	pause time.Duration // of a slow one, before each read
	is    atomic.Value  // a string
}

func (s *troubledStore) be(what string) { s.is.Store(what) }

// Put stores a file, unless there is no room.
func (s *troubledStore) Put(ctx context.Context, r io.Reader, want files.Want) (files.Object, error) {
	switch s.is.Load() {
	case storeFull:
		if _, err := io.CopyN(io.Discard, r, 1000); err != nil && !errors.Is(err, io.EOF) {
			return files.Object{}, &files.ReadError{Err: err}
		}
		return files.Object{}, fmt.Errorf("%s: %w", s.Store, files.ErrFull)
	case storeSlow:
		r = slowReader{r, s.pause}
	}
	return s.Store.Put(ctx, r, want)
}

// Check says so if there is no room, as a full disk does.
func (s *troubledStore) Check(ctx context.Context) (files.Room, error) {
	if s.is.Load() == storeFull {
		return files.Room{}, fmt.Errorf("%s: %w", s.Store, files.ErrFull)
	}
	return s.Store.Check(ctx)
}

type slowReader struct {
	io.Reader
	pause time.Duration
}

// Read reads slowly.
func (r slowReader) Read(p []byte) (int, error) {
	time.Sleep(r.pause)
	return r.Reader.Read(p)
}
