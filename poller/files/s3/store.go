package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/rounds-dev/rounds/poller/files"
)

const (
	partSize = 5 << 20 // the least that S3 takes of a part that is not the last
	maxSize  = 5 << 30 // the most that S3 copies in one request

	// cleanTime is how long Put tries to remove what a failure left.
	cleanTime = 5 * time.Second
)

// Addressing says where a request names the bucket.
type Addressing int

// The ways of addressing.
const (
	Automatic = Addressing(minio.BucketLookupAuto) // as the known services demand it, and by path for all others
	ByHost    = Addressing(minio.BucketLookupDNS)  // https://BUCKET.HOST/…
	ByPath    = Addressing(minio.BucketLookupPath) // https://HOST/BUCKET/…
)

// Options say where the bucket is, and who asks.
type Options struct {
	Endpoint   string // https://HOST[:PORT], or http://… to send files unencrypted
	Region     string
	Bucket     string
	Prefix     string // of all names, without a slash at its ends; empty: none
	Addressing Addressing
	AccessKey  string
	SecretKey  string
}

// Store is a files.Store in a bucket.
type Store struct {
	core   *minio.Core
	host   string
	bucket string
	prefix string // with a slash at its end, or empty
	hidden []string
	chunks chunks
	close  func()
}

// New returns the store of a bucket. It makes no request; see Store.Check.
func New(o Options) (*Store, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return nil, errors.New("s3: the endpoint is not a URL such as https://HOST, without a path")
	}
	if err := s3utils.CheckValidBucketNameStrict(o.Bucket); err != nil {
		return nil, fmt.Errorf("s3: bucket %q: %w", o.Bucket, err)
	}
	transport := newTransport()
	core, err := minio.NewCore(u.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""),
		Secure:       u.Scheme == "https",
		Region:       o.Region,
		BucketLookup: minio.BucketLookupType(o.Addressing),
		Transport:    transport,
		MaxRetries:   1, // Store.attempt repeats, with a body of its own each time
	})
	if err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	s := &Store{core: core, host: u.Host, bucket: o.Bucket, prefix: o.Prefix, hidden: []string{o.SecretKey, o.AccessKey}, close: transport.CloseIdleConnections}
	if s.prefix != "" {
		s.prefix += "/"
	}
	return s, nil
}

// Close closes the connections that no request uses. The store can still be used.
func (s *Store) Close() { s.close() }

// String returns the bucket and its host.
func (s *Store) String() string { return "bucket " + s.bucket + " at " + s.host }

// Put implements files.Store.
func (s *Store) Put(ctx context.Context, r io.Reader, want files.Want) (files.Object, error) {
	in := files.NewIntake(ctx, r, want)
	p := &part{from: &s.chunks}
	defer p.release()
	last, err := p.fill(in, partSize)
	if err != nil {
		return files.Object{}, err
	}
	if last {
		o := files.Object{Name: files.NewName(in.SHA256()), SHA256: in.SHA256(), Size: in.Size()}
		if err := s.putWhole(ctx, o.Name, p, o.SHA256); err != nil {
			s.clean(ctx, o.Name)
			return files.Object{}, err
		}
		return o, nil
	}
	temp := files.NewTemp()
	if err := s.upload(ctx, temp, p, in); err != nil {
		return files.Object{}, err
	}
	o := files.Object{Name: files.NewName(in.SHA256()), SHA256: in.SHA256(), Size: in.Size()}
	err = s.copied(ctx, temp, o)
	if err != nil {
		s.clean(ctx, o.Name)
	}
	s.clean(ctx, temp)
	if err != nil {
		return files.Object{}, err
	}
	return o, nil
}

// clean tries once to remove an object whose name nobody has learned. If that fails, it stays as a leftover.
func (s *Store) clean(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	_ = s.core.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{})
}

// send makes a request whose body is a part.
func (s *Store) send(ctx context.Context, p *part, request func(b *body) error) error {
	return s.attempt(ctx, func() error {
		b := &body{part: p}
		defer b.close()
		return request(b)
	})
}

// putWhole stores an object of one part.
func (s *Store) putWhole(ctx context.Context, name string, p *part, hash string) error {
	err := s.send(ctx, p, func(b *body) error {
		_, err := s.core.PutObject(ctx, s.bucket, s.prefix+name, b, p.size, "", hash, minio.PutObjectOptions{DisableContentSha256: true})
		return err
	})
	return s.settled(ctx, "store a file", name, p.size, err)
}

// settled decides whether a request has stored an object, from the request's error. If that leaves it
// open, settled looks the object up.
func (s *Store) settled(ctx context.Context, what, name string, size int64, err error) error {
	if err == nil {
		return nil
	}
	if passing(err) || answerOf(err).Code == minio.NoSuchUpload { // an earlier attempt may have completed the upload
		if found, lookErr := s.stat(ctx, name); lookErr == nil && found.Size == size {
			return nil
		}
	}
	return s.failed(what, err)
}

// upload stores the file under a temporary name in several parts. p has the first.
func (s *Store) upload(ctx context.Context, temp string, p *part, in *files.Intake) error {
	const what = "upload a file"
	key, id := s.prefix+temp, ""
	err := s.attempt(ctx, func() (err error) {
		id, err = s.core.NewMultipartUpload(ctx, s.bucket, key, minio.PutObjectOptions{})
		return err
	})
	if err != nil {
		return s.failed(what, err)
	}
	parts, err := s.uploadParts(ctx, key, id, p, in)
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		_ = s.core.AbortMultipartUpload(ctx, s.bucket, key, id) // or else Tidy does
		return err
	}
	err = s.attempt(ctx, func() error {
		_, err := s.core.CompleteMultipartUpload(ctx, s.bucket, key, id, parts, minio.PutObjectOptions{})
		return err
	})
	if err := s.settled(ctx, what, temp, in.Size(), err); err != nil {
		s.clean(ctx, temp) // Tidy aborts the upload if it goes on
		return err
	}
	return nil
}

// uploadParts uploads one part after the other, until the file ends.
func (s *Store) uploadParts(ctx context.Context, key, id string, p *part, in *files.Intake) ([]minio.CompletePart, error) {
	var parts []minio.CompletePart
	for last := false; ; {
		hash, number := p.SHA256(), len(parts)+1
		err := s.send(ctx, p, func(b *body) error {
			done, err := s.core.PutObjectPart(ctx, s.bucket, key, id, number, b, p.size, minio.PutObjectPartOptions{Sha256Hex: hash, DisableContentSha256: true})
			if err == nil {
				parts = append(parts, minio.CompletePart{PartNumber: number, ETag: done.ETag})
			}
			return err
		})
		if err != nil {
			return nil, s.failed("upload a file", err)
		}
		if last {
			return parts, nil
		}
		if last, err = p.fill(in, partSize); err != nil {
			return nil, err
		}
		if in.Size() > maxSize {
			return nil, files.ErrTooLarge
		}
		if last && p.size == 0 {
			return parts, nil
		}
	}
}

// copied copies a temporary object to its name, and looks the copy up in any case: services answer 200 to
// copies that fail later.
func (s *Store) copied(ctx context.Context, temp string, o files.Object) error {
	const what = "copy an upload to its name"
	err := s.attempt(ctx, func() error {
		_, err := s.core.CopyObject(ctx, s.bucket, s.prefix+temp, s.bucket, s.prefix+o.Name, nil, minio.CopySrcOptions{}, minio.PutObjectOptions{})
		return err
	})
	found, lookErr := s.stat(ctx, o.Name)
	switch {
	case lookErr == nil && found.Size == o.Size:
		return nil
	case err != nil:
		return s.failed(what, err)
	case errors.Is(lookErr, files.ErrNotFound):
		return s.failed(what, errors.New("it is not there afterwards"))
	case lookErr != nil:
		return lookErr
	}
	return s.failed(what, fmt.Errorf("it has %d bytes and not %d", found.Size, o.Size))
}

// stat looks an object up. The error is files.ErrNotFound only if the bucket is there.
func (s *Store) stat(ctx context.Context, name string) (files.Object, error) {
	var info minio.ObjectInfo
	err := s.attempt(ctx, func() (err error) {
		info, err = s.core.StatObject(ctx, s.bucket, s.prefix+name, minio.StatObjectOptions{})
		return err
	})
	if answerOf(err).StatusCode == 404 {
		return files.Object{}, s.missing(ctx)
	}
	if err != nil {
		return files.Object{}, s.failed("look up a file", err)
	}
	hash, _ := files.HashOf(name)
	return files.Object{Name: name, SHA256: hash, Size: info.Size, Modified: info.LastModified}, nil
}

// missing returns files.ErrNotFound if the bucket exists. The reply to a HEAD does not say what is
// missing.
func (s *Store) missing(ctx context.Context) error {
	there := false
	err := s.attempt(ctx, func() (err error) {
		there, err = s.core.BucketExists(ctx, s.bucket)
		return err
	})
	switch {
	case err != nil:
		return s.failed("look up the bucket", err)
	case !there:
		return s.failed("look up the bucket", minio.ErrorResponse{Code: minio.NoSuchBucket, StatusCode: 404})
	}
	return files.ErrNotFound
}

// Remove implements files.Store.
func (s *Store) Remove(ctx context.Context, name string) error {
	if _, ok := files.HashOf(name); !ok {
		return nil
	}
	return s.remove(ctx, s.prefix+name)
}

func (s *Store) remove(ctx context.Context, key string) error {
	err := s.attempt(ctx, func() error {
		return s.core.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{})
	})
	if err != nil && answerOf(err).Code != minio.NoSuchKey {
		return s.failed("remove a file", err)
	}
	return nil
}

// List implements files.Store.
func (s *Store) List(ctx context.Context) iter.Seq2[files.Object, error] {
	return func(yield func(files.Object, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for info := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix, Recursive: true}) {
			if info.Err != nil {
				yield(files.Object{}, s.failed("list the bucket", info.Err))
				return
			}
			name := strings.TrimPrefix(info.Key, s.prefix)
			if hash, ok := files.HashOf(name); ok && !yield(files.Object{Name: name, SHA256: hash, Size: info.Size, Modified: info.LastModified}, nil) {
				return
			}
		}
		if ctx.Err() != nil { // the client ends a canceled list as if it were complete
			yield(files.Object{}, s.failed("list the bucket", context.Cause(ctx)))
		}
	}
}

// Tidy implements files.Store.
func (s *Store) Tidy(ctx context.Context, before time.Time) (removed int, err error) {
	temps := s.prefix + files.TempDir + "/"
	for info := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: temps, Recursive: true}) {
		if info.Err != nil {
			return removed, s.failed("list the bucket", info.Err)
		}
		if info.LastModified.Before(before) {
			if err := s.remove(ctx, info.Key); err != nil {
				return removed, err
			}
			removed++
		}
	}
	if ctx.Err() != nil {
		return removed, s.failed("list the bucket", context.Cause(ctx))
	}
	for info := range s.core.ListIncompleteUploads(ctx, s.bucket, temps, true) {
		switch {
		case err != nil: // the channel must be read to its end
		case info.Err != nil:
			err = s.failed("list the uploads", info.Err)
		case info.Initiated.Before(before):
			if err = s.abort(ctx, info.Key, info.UploadID); err == nil {
				removed++
			}
		}
	}
	return removed, err
}

// abort ends an upload of a process that was killed.
func (s *Store) abort(ctx context.Context, key, id string) error {
	err := s.attempt(ctx, func() error { return s.core.AbortMultipartUpload(ctx, s.bucket, key, id) })
	if err != nil && answerOf(err).Code != minio.NoSuchUpload {
		return s.failed("abort an upload", err)
	}
	return nil
}

// Check implements files.Store. Nobody knows how much room a bucket has.
func (s *Store) Check(ctx context.Context) (files.Room, error) {
	p := &part{from: &s.chunks}
	defer p.release()
	in := files.NewIntake(ctx, strings.NewReader("rounds"), files.Want{})
	if _, err := p.fill(in, partSize); err != nil {
		return files.Room{}, err
	}
	temp := files.NewTemp()
	if err := s.putWhole(ctx, temp, p, in.SHA256()); err != nil {
		s.clean(ctx, temp)
		return files.Room{}, err
	}
	return files.Room{}, s.remove(ctx, s.prefix+temp)
}
