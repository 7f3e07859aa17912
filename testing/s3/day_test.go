package s3test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"

	"github.com/rounds-dev/rounds/poller/files/s3"
	"github.com/rounds-dev/rounds/testing/filestest"
)

// By day the suite runs on a small server, which stores objects in memory and checks no signatures. By night it
// runs on versitygw.
func TestStoreByDay(t *testing.T) {
	const bucket = "rounds-files"
	backend := s3mem.New()
	if err := backend.CreateBucket(t.Context(), bucket); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(likeS3(gofakes3.New(backend).Server()))
	t.Cleanup(server.Close)
	store, err := s3.New(s3.Options{Endpoint: server.URL, Region: "eu-test-1", Bucket: bucket, Prefix: "suite", AccessKey: "AKIAROUNDS", SecretKey: "correct-horse-battery"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	filestest.Run(t, filestest.Options{Store: store, Part: 5 << 20, Memory: 1 << 30}) // the server's memory is in it
}

// likeS3 mends two answers of the server. S3 takes an empty delimiter for none, and has an empty list for a
// bucket without uploads.
func likeS3(server http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if query.Get("delimiter") == "" {
			query.Del("delimiter")
			r.URL.RawQuery = query.Encode()
		}
		if r.Method != http.MethodGet || !query.Has("uploads") {
			server.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, r)
		if answer.Code == http.StatusNotFound {
			_, _ = io.WriteString(w, "<ListMultipartUploadsResult></ListMultipartUploadsResult>")
			return
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}
