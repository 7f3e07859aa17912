package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// fileLine is a row of the list of files. The bytes are in the store, and in no backup. Format 4
// added it.
type fileLine struct {
	Account text   `json:"account"`
	Kind    string `json:"kind"`
	In      string `json:"in"` // circulate.FileHolder
	Of      text   `json:"of"`
	Place   int    `json:"n"`
	Name    text   `json:"name,omitempty"`
	Type    text   `json:"type,omitempty"`
	Hash    string `json:"sha256,omitempty"`
	Size    int64  `json:"size"`
	Object  text   `json:"object,omitempty"` // its name in the store
	State   string `json:"state"`            // circulate.FileState
	Reason  text   `json:"reason,omitempty"`
	Found   int64  `json:"found"` // unix ms
	Kept    int64  `json:"kept"`  // unix ms
	Judged  int64  `json:"judged"`
}

func fileOf(f *circulate.File) *fileLine {
	return &fileLine{
		Account: text(f.Account), Kind: f.Kind, In: string(rune(f.Holder)), Of: text(f.Of), Place: f.Place, Name: text(f.Name), Type: text(f.Type),
		Hash: f.Hash, Size: f.Size, Object: text(f.Object), State: string(rune(f.State)), Reason: text(f.Reason),
		Found: f.Found.UnixMilli(), Kept: f.Kept.UnixMilli(), Judged: f.Judged.UnixMilli(),
	}
}

func (l *fileLine) check() error {
	switch {
	case l.Account == "" || l.Of == "":
		return errors.New("file: must have account and of")
	case !slices.Contains([]string{"m", "s", "u"}, l.In):
		return fmt.Errorf("file of %q: in: is %q", l.Account, l.In)
	case !slices.Contains([]string{"k", "l"}, l.State) || l.State == "k" && (l.Object == "" || len(l.Hash) != 64):
		return fmt.Errorf("file of %q: is malformed", l.Account)
	case l.Place < 0 || l.Size < 0 || l.Found < 0 || l.Kept < 0 || l.Judged < 0:
		return fmt.Errorf("file of %q: a number is negative", l.Account)
	}
	return nil
}

// restore adds the row, and has it judged from when it was. The message is written at its old
// position, and the bytes are where object says or, if it is nil, where the store has them, if it is
// the same store.
func (l *fileLine) restore(ctx context.Context, list circulate.Files, object func(context.Context, *circulate.File) (string, error)) error {
	f := circulate.File{
		Account: string(l.Account), Kind: l.Kind, Holder: circulate.FileHolder(l.In[0]), Of: string(l.Of), Place: l.Place, Name: string(l.Name), Type: string(l.Type),
		Hash: l.Hash, Size: l.Size, Object: string(l.Object), State: circulate.FileState(l.State[0]), Reason: string(l.Reason),
		Found: time.UnixMilli(l.Found), Kept: time.UnixMilli(l.Kept),
	}
	f.ID = circulate.NewFileID(f.Account, f.Holder, f.Of, f.Place)
	if object != nil && f.State == circulate.FileKept {
		var err error
		if f.Object, err = object(ctx, &f); err != nil {
			return err
		}
	}
	if _, err := list.Load(ctx, f); err != nil {
		return err
	}
	_, err := list.Raise(ctx, time.UnixMilli(l.Judged), f.ID)
	return err
}

// Kept is the bytes of a kept file.
type Kept struct {
	Object string // their name in the store
	SHA256 string // in hex
	Size   int64  // bytes
}

// EachKept reads a backup and calls each for every kept file in its list. Files with the same bytes
// come one by one.
func EachKept(in io.Reader, each func(Kept) error) error {
	return newReader(in).read(func(l *line) error {
		if l.File == nil || l.File.State != string(rune(circulate.FileKept)) {
			return nil
		}
		return each(Kept{string(l.File.Object), l.File.Hash, l.File.Size})
	})
}

// files writes the list of files, after the messages: a file of a message that is in the backup
// is in it as well, unless it was kept later, and is then fetched again.
func (w *writer) files(ctx context.Context, ring *circulate.Ring) error {
	if w.format < formatFiles {
		return nil // the first file came only now
	}
	// A row may be listed twice. The second one changes nothing when it is restored.
	return ring.Files().Walk(ctx, func(rows []circulate.File) error {
		for i := range rows {
			l := fileOf(&rows[i])
			if l.check() != nil {
				continue // it would make the backup unreadable
			}
			if err := w.write(line{File: l}); err != nil {
				return err
			}
		}
		return nil
	})
}
