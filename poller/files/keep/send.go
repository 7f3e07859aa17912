package keep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/files"
)

// Upload is a file that somebody uploads, for sends of an account to name.
type Upload struct {
	Account string
	Kind    string // the account's
	Name    string // for people; empty: it has none
	Type    string // the media type; empty: unknown
	SHA256  string // of the bytes, in hex; empty: unknown
}

// Upload stores a file and adds its row. It stays for circulate.UploadLasts, and longer for each send that names
// it. The same file again, under the same name and type, has the same id, and stays longer. The errors
// are those of files.Store.Put, circulate.ErrFilesFull and circulate.ErrAccountFilesFull, and those of
// Redis.
func (k *Keeper) Upload(ctx context.Context, u Upload, from io.Reader) (circulate.File, error) {
	began, err := k.list.Now(ctx)
	if err != nil {
		return circulate.File{}, err
	}
	clean := poller.CleanFile(poller.File{Name: u.Name, Type: u.Type})
	row := circulate.File{
		Account: u.Account, Kind: u.Kind, Holder: circulate.FileOfUpload, Name: clean.Name, Type: clean.Type, Found: began,
	}
	object, err := k.Store.Put(ctx, from, files.Want{Most: k.config.Most, SHA256: u.SHA256})
	if err != nil {
		return circulate.File{}, err
	}
	row.Hash, row.Size, row.Object = object.SHA256, object.Size, object.Name
	about := sha256.Sum256([]byte(row.Hash + "\x00" + row.Name + "\x00" + row.Type))
	row.Of = hex.EncodeToString(about[:16])
	row.ID = circulate.NewFileID(row.Account, row.Holder, row.Of, row.Place)
	return k.add(ctx, row, began)
}

// Most returns how many bytes a file may have.
func (k *Keeper) Most() int64 { return k.config.Most }

// Bounds returns how many bytes of files there may be.
func (k *Keeper) Bounds() circulate.FileBounds { return k.config.Bounds }

// SendFiles has the files of sends, for a replica that makes them.
type SendFiles struct {
	Ring  *circulate.Ring
	Store files.Store
}

var _ poller.SendFiles = SendFiles{}

// FileOf implements poller.SendFiles.
func (s SendFiles) FileOf(ctx context.Context, account, send string) (*poller.SendFile, error) {
	rows, err := s.Ring.Files().Look(ctx, false, circulate.NewFileID(account, circulate.FileOfSend, send, 0))
	if err != nil {
		return nil, err
	}
	row := &rows[0]
	if row.State != circulate.FileKept || row.Object == "" {
		return nil, poller.ErrNoSendFile
	}
	object := row.Object
	return &poller.SendFile{
		File: poller.File{Name: row.Name, Type: row.Type, Size: row.Size, SHA256: row.Hash},
		Open: func(ctx context.Context) (io.ReadCloser, error) {
			from, err := s.Store.Open(ctx, object)
			if err != nil {
				return nil, storeError(err)
			}
			return stored{from}, nil
		},
	}, nil
}

// stored is a file of the store with the errors of a send's file.
type stored struct{ files.Reader }

// Read implements io.Reader.
func (s stored) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = storeError(err)
	}
	return n, err
}

func storeError(err error) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: "file_store", Message: "the store of files does not answer", Err: err}
	if errors.Is(err, files.ErrNotFound) {
		e.Message = "the store of files has lost the file"
		e.Err = fmt.Errorf("%w: %w", poller.ErrNoSendFile, err)
	}
	return e
}
