package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/rounds-dev/rounds/poller/files"
)

// testing/s3 has the tests on a server.

func open(t *testing.T, change func(o *Options)) (*Store, error) {
	t.Helper()
	o := Options{Endpoint: "https://s3.example.com", Region: "eu-1", Bucket: "acme-files", AccessKey: "AKIAROUNDS", SecretKey: "correct-horse-battery"}
	change(&o)
	return New(o)
}

func TestNew(t *testing.T) {
	for _, c := range []struct {
		change func(o *Options)
		want   string
	}{
		{func(o *Options) { o.Endpoint = "s3.example.com" }, "the endpoint is not a URL such as https://HOST, without a path"},
		{func(o *Options) { o.Endpoint += "/bucket" }, "the endpoint is not a URL such as https://HOST, without a path"},
		{func(o *Options) { o.Endpoint = "ftp://s3.example.com" }, "the endpoint is not a URL such as https://HOST, without a path"},
		{func(o *Options) { o.Bucket = "A" }, `bucket "A"`},
	} {
		if _, err := open(t, c.change); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	s, err := open(t, func(o *Options) { o.Prefix = "a/b" })
	if err != nil || s.String() != "bucket acme-files at s3.example.com" {
		t.Errorf("got %v, %v", s, err)
	}
}

// A request is repeated three times, after longer and longer pauses, and only where that may help.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := open(t, func(*Options) {})
		if err != nil {
			t.Fatal(err)
		}
		fails := func(with error) (requests int, took time.Duration) {
			began := time.Now()
			if err := s.attempt(t.Context(), func() error { requests++; return with }); !errors.Is(err, with) {
				t.Errorf("got %v", err)
			}
			return requests, time.Since(began)
		}
		for _, c := range []struct {
			err      error
			requests int
		}{
			{io.ErrUnexpectedEOF, 4},
			{&url.Error{Op: "Put", Err: &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}}, 4},
			{minio.ErrorResponse{StatusCode: 503, Code: "SlowDown"}, 4},
			{minio.ErrorResponse{StatusCode: 500}, 4},
			{minio.ErrorResponse{StatusCode: 429}, 4},
			{minio.ErrorResponse{StatusCode: 400, Code: "RequestTimeout"}, 4},
			{minio.ErrorResponse{StatusCode: 507}, 1},
			{minio.ErrorResponse{StatusCode: 501}, 1},
			{minio.ErrorResponse{StatusCode: 403, Code: minio.AccessDenied}, 1},
			{minio.ErrorResponse{StatusCode: 404, Code: minio.NoSuchBucket}, 1},
			{&url.Error{Op: "Put", Err: &tls.CertificateVerificationError{Err: errors.New("unknown authority")}}, 1},
		} {
			requests, took := fails(c.err)
			if want := map[int]time.Duration{1: 0, 4: 4 * time.Second}[c.requests]; requests != c.requests || took != want {
				t.Errorf("%v: %d requests in %v", c.err, requests, took)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		requests := 0
		if err := s.attempt(ctx, func() error { requests++; return io.ErrUnexpectedEOF }); !errors.Is(err, io.ErrUnexpectedEOF) || requests != 2 || ctx.Err() == nil {
			t.Errorf("canceled: %d requests, %v", requests, err)
		}
	})
}

func TestFailed(t *testing.T) {
	s, err := open(t, func(*Options) {})
	if err != nil {
		t.Fatal(err)
	}
	const at = "files bucket acme-files at s3.example.com: cannot store a file: "
	for _, c := range []struct {
		err  error
		want string
		is   error
	}{
		{minio.ErrorResponse{StatusCode: 404, Code: minio.NoSuchBucket, Message: "The bucket is missing."}, "NoSuchBucket: The bucket is missing. (HTTP 404): make the bucket, or name another one in ROUNDS_FILES", nil},
		{minio.ErrorResponse{StatusCode: 403, Code: "AccessDenied", Message: "no"}, "AccessDenied: no (HTTP 403): see ROUNDS_FILES_ACCESS_KEY and ROUNDS_FILES_SECRET_KEY", nil},
		{minio.ErrorResponse{StatusCode: 400, Code: "AuthorizationHeaderMalformed", Message: "region"}, "AuthorizationHeaderMalformed: region (HTTP 400): see region and endpoint in ROUNDS_FILES", nil},
		{minio.ErrorResponse{StatusCode: 403, Code: "RequestTimeTooSkewed", Message: "late"}, "RequestTimeTooSkewed: late (HTTP 403): set this machine's clock", nil},
		{minio.ErrorResponse{StatusCode: 507, Code: "XMinioStorageFull", Message: "full"}, "there is no room left (XMinioStorageFull: full): make room, or name another bucket in ROUNDS_FILES", files.ErrFull},
		{minio.ErrorResponse{StatusCode: 403, Code: "QuotaExceeded", Message: "full"}, "there is no room left", files.ErrFull},
		{minio.ErrorResponse{StatusCode: 400, Code: "X", Message: "AKIAROUNDS, correct-horse-battery, Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5, " + strings.Repeat("界", 200)}, "X: ", nil},
		{context.DeadlineExceeded, "context deadline exceeded", context.DeadlineExceeded},
		{&url.Error{Op: "Put", URL: "https://s3.example.com/x", Err: io.EOF}, "EOF", nil},
		{&url.Error{Op: "Put", URL: "https://s3.example.com/x", Err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}}, "dial tcp: refused; see ROUNDS_FILES and the network", nil},
	} {
		err := s.failed("store a file", c.err)
		if !strings.HasPrefix(err.Error(), at+c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("got %v", err)
		}
		if len(err.Error()) > len(at)+maxMessage+120 {
			t.Errorf("it has %d bytes", len(err.Error()))
		}
		for _, secret := range []string{"AKIAROUNDS", "correct-horse-battery", "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5", "/x"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%v has %s", err, secret)
			}
		}
	}
}

// The body of a request has the part's bytes from its beginning after each Seek, and none once the request has ended.
func TestPart(t *testing.T) {
	var c chunks
	for _, size := range []int{0, 1, chunkSize, chunkSize + 1, 3*chunkSize - 1} {
		p := &part{from: &c}
		content := bytes.Repeat([]byte("rounds!"), size/7+1)[:size]
		for range 2 { // the second part is in the memory of the first
			last, err := p.fill(files.NewIntake(t.Context(), bytes.NewReader(content), files.Want{}), 1<<20)
			if hash := sha256.Sum256(content); !last || err != nil || p.size != int64(size) || p.SHA256() != hex.EncodeToString(hash[:]) {
				t.Errorf("%d bytes: part of %d bytes, %v, %v", size, p.size, last, err)
			}
		}
		b := &body{part: p}
		for range 2 {
			if err := iotest.TestReader(struct{ io.Reader }{b}, content); err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
			if at, err := b.Seek(0, io.SeekStart); at != 0 || err != nil {
				t.Errorf("sought the beginning: %d, %v", at, err)
			}
		}
		b.close()
		if n, err := b.Read(make([]byte, 1)); n != 0 || !errors.Is(err, fs.ErrClosed) {
			t.Errorf("read %d bytes after the end, %v", n, err)
		}
		p.release()
	}
	p := &part{from: &c}
	in := files.NewIntake(t.Context(), strings.NewReader("abcdef"), files.Want{})
	if last, err := p.fill(in, 4); last || err != nil || p.size != 4 {
		t.Errorf("first part: %d bytes, %v, %v", p.size, last, err)
	}
	if last, err := p.fill(in, 4); !last || err != nil || p.size != 2 {
		t.Errorf("last part: %d bytes, %v, %v", p.size, last, err)
	}
}

// A connection may be slow, but it fails if nothing moves for long.
func TestMoving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer func() { _, _ = here.Close(), there.Close() }()
		conn := moving{here}
		go func() {
			for range 3 {
				time.Sleep(idleTime - time.Second)
				_, _ = there.Write([]byte("x"))
			}
		}()
		began := time.Now()
		for range 3 {
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 4*idleTime-3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if _, err := conn.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("nobody reads: %v", err)
		}
	})
}
