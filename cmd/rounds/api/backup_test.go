package api

import (
	"net/http"
	"strings"
	"testing"
)

func TestTheLastBackupIsKnown(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	last := func() (b Backups) {
		f.call(http.MethodGet, "/v1/backup:last", "", http.StatusOK, &b)
		return b
	}
	if b := last(); b.Last != nil {
		t.Errorf("%+v", b.Last)
	}
	sum := strings.Repeat("0a", 32)
	f.errorReply(http.MethodPost, "/v1/backup:verified", `{"sha256":"`+sum+`"}`, http.StatusConflict)
	f.errorReply(http.MethodPost, "/v1/backup:verified", `{"sha256":"x"}`, http.StatusUnprocessableEntity)
	if got := f.do(f.request(http.MethodGet, "/v1/backup", "")); got.status != http.StatusOK {
		t.Fatalf("%d: %s", got.status, got.body)
	}
	b := last()
	if b.Last == nil || b.Last.By == "" || b.Last.Bytes == 0 || b.Last.Secrets || !b.Last.Verified.IsZero() {
		t.Fatalf("%+v", b.Last)
	}
	f.call(http.MethodPost, "/v1/backup:verified", `{"sha256":"`+b.Last.SHA256+`"}`, http.StatusOK, nil)
	if b := last(); b.Last.Verified.IsZero() || b.Last.VerifiedBy == "" || b.Verified != nil {
		t.Errorf("%+v", b.Last)
	}
}
