package service

import (
	"context"
	"errors"
	"net/url"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/files"
	"github.com/rounds-dev/rounds/poller/files/s3"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// The keys of the bucket, as settings or as the service's own secrets.
const (
	filesPlace        = "ROUNDS_FILES"
	filesAccessKey    = "ROUNDS_FILES_ACCESS_KEY"
	filesSecretKey    = "ROUNDS_FILES_SECRET_KEY"
	filesAccessSecret = "files_access_key"
	filesSecretSecret = "files_secret_key"
)

// OpenFiles opens the store of files that the settings name; nil if they name none. It makes a missing
// directory, and makes no request to a bucket: files.Store.Check does. The error is settings.Faults.
func OpenFiles(ctx context.Context, s settings.Settings, o Options) (files.Store, error) {
	at := s.FileStore.At()
	switch {
	case at.Bucket != nil:
		options, faults := bucketOptions(ctx, at.Bucket, s, o)
		if len(faults) > 0 {
			return nil, faults
		}
		store, err := s3.New(options)
		if err != nil {
			return nil, faultsAbout(filesPlace, "s3: ", err)
		}
		return store, nil
	case at.Directory != "":
		store, err := files.OpenDirectory(at.Directory)
		if err != nil {
			return nil, faultsAbout(filesPlace, "", err)
		}
		return store, nil
	}
	return nil, nil
}

// bucketOptions returns how a bucket is reached, with its keys.
func bucketOptions(ctx context.Context, b *settings.Bucket, s settings.Settings, o Options) (s3.Options, settings.Faults) {
	options := s3.Options{Endpoint: b.Endpoint, Region: b.Region, Bucket: b.Name, Prefix: b.Prefix, AccessKey: s.FileStore.AccessKey, SecretKey: s.FileStore.SecretKey}
	if b.PathStyle != nil {
		options.Addressing = s3.ByHost
		if *b.PathStyle {
			options.Addressing = s3.ByPath
		}
	}
	if options.AccessKey != "" || options.SecretKey != "" {
		return options, nil
	}
	o = o.withDefaults()
	o.seals = nil // a process need not have the key of stored secrets
	source := newSecrets(s.Poller, o).Service()
	u, err := url.Parse(b.Endpoint)
	if err != nil {
		return options, faultsAbout(filesPlace, "", err)
	}
	use := secrets.Use{Kind: secrets.KindFiles, Host: secrets.HostOf(u), TLS: u.Scheme == "https", Stays: true} // it signs
	var faults settings.Faults
	for _, key := range []struct {
		name, secret string
		into         *string
	}{{filesAccessKey, filesAccessSecret, &options.AccessKey}, {filesSecretKey, filesSecretSecret, &options.SecretKey}} {
		if *key.into, err = source.Get(ctx, key.secret, use); errors.Is(err, secrets.ErrNotFound) {
			faults = append(faults, settings.Fault{Name: key.name, Reason: "must be set for the bucket of ROUNDS_FILES, or its " + err.Error()})
		} else if err != nil {
			faults = append(faults, settings.Fault{Name: key.name, Reason: err.Error()})
		}
	}
	return options, faults
}

// fileFaults validates whether the keys of a bucket are there.
func fileFaults(s settings.Settings, o Options) settings.Faults {
	bucket := s.FileStore.At().Bucket
	if bucket == nil {
		return nil
	}
	_, faults := bucketOptions(context.Background(), bucket, s, o)
	return faults
}
