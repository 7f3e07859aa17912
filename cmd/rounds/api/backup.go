package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/cmd/rounds/backup"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// BackupVerified says which backup was read again and found whole.
type BackupVerified struct {
	_      struct{} `additionalProperties:"false"`
	SHA256 string   `json:"sha256" pattern:"^[0-9a-f]{64}$" doc:"The checksum in its trailer."`
}

// backupRoutes adds the routes about backups that were taken.
func (s *Server) backupRoutes(api huma.API) {
	answer(s, api, "get last backup", huma.Operation{
		OperationID: "get-last-backup", Method: http.MethodGet, Path: "/v1/backup:last", Tags: []string{"service"},
		Summary: "The last backup", Description: "What is known about the last backup that GET /v1/backup has sent whole, and about the last one that was verified. Where they are, only those know who took them.",
		Errors: []int{401, 503},
	}, s.lastBackup)
	answer(s, api, "note that a backup is verified", huma.Operation{
		OperationID: "verify-backup", Method: http.MethodPost, Path: "/v1/backup:verified", Tags: []string{"service"},
		Summary: "Say that the last backup was read again, and is whole", Description: "rounds backup does so, once its file is on the disk. 409 if another backup has been taken since.",
		MaxBodyBytes: maxTermBody, Errors: []int{401, 409, 422, 503},
	}, s.verifiedBackup)
}

func (s *Server) lastBackup(ctx context.Context, _ *struct{}) (concern.Backups, error) {
	return concern.ReadBackups(ctx, s.options.Ring)
}

// noteBackup notes a backup that was sent whole. It was taken all the same if that fails.
func (s *Server) noteBackup(ctx context.Context, w backup.Written, withSecrets bool) {
	caller, _ := access.From(ctx)
	err := concern.NoteBackup(ctx, s.options.Ring, concern.Backup{
		Began: w.Began, By: caller.Name, Bytes: w.Bytes, SHA256: w.SHA256, Accounts: w.Accounts, Messages: w.Messages, Files: w.Files, Secrets: withSecrets,
	})
	if err != nil {
		s.options.Log.WarnContext(ctx, "a backup was taken, and could not be noted", "error", err)
	}
}

func (s *Server) verifiedBackup(ctx context.Context, r *struct{ Body BackupVerified }) (concern.Backup, error) {
	caller, _ := access.From(ctx)
	trail.Of(ctx).Subject("backup", r.Body.SHA256)
	b, err := concern.NoteVerified(ctx, s.options.Ring, r.Body.SHA256, caller.Name)
	if errors.Is(err, concern.ErrOtherBackup) {
		return b, newErrorReply(http.StatusConflict, "the last backup is another one: somebody has taken one since, or none is known")
	}
	return b, err
}
