package s3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/rounds-dev/rounds/poller/files"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// waits are the pauses between the attempts of a request.
var waits = [...]time.Duration{200 * time.Millisecond, 800 * time.Millisecond, 3 * time.Second}

// attempt makes a request, and repeats it if that may help. It must be harmless to make the request twice.
func (s *Store) attempt(ctx context.Context, request func() error) error {
	for _, wait := range waits {
		err := request()
		if err == nil || ctx.Err() != nil || !passing(err) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
	return request()
}

// passing reports whether the next attempt may succeed: there was no answer, or the service is overloaded or
// broken.
func passing(err error) bool {
	answer := answerOf(err)
	if answer.StatusCode == 0 {
		_, foreign := errors.AsType[*tls.CertificateVerificationError](err)
		return !foreign
	}
	return answer.StatusCode >= 500 && answer.StatusCode != http.StatusNotImplemented && answer.StatusCode != http.StatusInsufficientStorage ||
		answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusRequestTimeout ||
		slices.Contains([]string{"SlowDown", "RequestTimeout", "InternalError", "Throttling"}, answer.Code)
}

// answerOf returns what the service answered, or the zero response if it did not.
func answerOf(err error) minio.ErrorResponse {
	answer, _ := errors.AsType[minio.ErrorResponse](err)
	return answer
}

// maxMessage is how many bytes of a service's message an error repeats.
const maxMessage = 200

// failed returns an error that names the host and the bucket, and says what to do. It never contains the
// keys, even if the service repeats them.
func (s *Store) failed(what string, err error) error {
	at := fmt.Sprintf("files bucket %s at %s: cannot %s", s.bucket, s.host, what)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", at, err)
	}
	answer := answerOf(err)
	if answer.Code == "" {
		if cause, ok := errors.AsType[*url.Error](err); ok {
			err = cause.Err // its URL says nothing new
		}
		cure := ""
		if _, ok := errors.AsType[net.Error](err); ok {
			cure = "; see ROUNDS_FILES and the network"
		}
		return fmt.Errorf("%s: %w%s", at, err, cure)
	}
	text := secrets.Scrub(answer.Code+": "+answer.Message, s.hidden)
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	if answer.StatusCode == http.StatusInsufficientStorage || slices.Contains([]string{"XMinioStorageFull", "QuotaExceeded", "XMinioAdminBucketQuotaExceeded"}, answer.Code) {
		return fmt.Errorf("%s: %w (%s): make room, or name another bucket in ROUNDS_FILES", at, files.ErrFull, text)
	}
	cure := ""
	switch {
	case answer.Code == minio.NoSuchBucket:
		cure = ": make the bucket, or name another one in ROUNDS_FILES"
	case slices.Contains([]string{"AuthorizationHeaderMalformed", "InvalidRegion", "PermanentRedirect"}, answer.Code):
		cure = ": see region and endpoint in ROUNDS_FILES"
	case answer.Code == "RequestTimeTooSkewed":
		cure = ": set this machine's clock"
	case answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusUnauthorized:
		cure = ": see ROUNDS_FILES_ACCESS_KEY and ROUNDS_FILES_SECRET_KEY, and what the key may do with the bucket"
	}
	return fmt.Errorf("%s: %s (HTTP %d)%s", at, text, answer.StatusCode, cure)
}
