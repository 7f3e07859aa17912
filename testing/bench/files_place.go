package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/rounds-dev/rounds/testing/versitygw"
)

// The stores.
const (
	inDirectory = "directory"
	inS3        = "s3"
)

// filesPlace is where files are stored, and how that goes away and comes back.
type filesPlace struct {
	setting string // as in ROUNDS_FILES
	away    func() error
	back    func() error
	close   func()
}

// openFilesPlace makes a store in a directory, or starts an S3 server on it.
func openFilesPlace(store, dir string) (*filesPlace, error) {
	if store == inDirectory {
		at := filepath.Join(dir, "files")
		return &filesPlace{
			setting: at, close: func() {},
			away: func() error { return os.Rename(at, at+".away") },
			back: func() error { return os.Rename(at+".away", at) },
		}, nil
	}
	server, err := versitygw.Launch(dir)
	if err != nil {
		return nil, err
	}
	query := url.Values{"region": {versitygw.Region}, "endpoint": {server.URL}}
	return &filesPlace{
		setting: fmt.Sprintf("s3://%s/bench?%s", versitygw.Bucket, query.Encode()), close: server.Close,
		away: func() error { server.Close(); return nil },
		back: server.Restart,
	}, nil
}
