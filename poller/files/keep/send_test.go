package keep_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/files"
	"github.com/rounds-dev/rounds/poller/files/keep"
)

// upload uploads a file for an account.
func (w *world) upload(k *keep.Keeper, account, name, bytes string) circulate.File {
	w.Helper()
	row, err := k.Upload(w.Context(), keep.Upload{Account: account, Kind: "chat", Name: name, Type: "image/png"}, strings.NewReader(bytes))
	if err != nil {
		w.Fatal(err)
	}
	return row
}

// queue queues a send that names a file, as the API does.
func (w *world) queue(account, id, from string) {
	w.Helper()
	now, err := w.Ring.Files().Now(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	row := circulate.File{
		ID: circulate.NewFileID(account, circulate.FileOfSend, id, 0), Account: account, Kind: "chat", Holder: circulate.FileOfSend, Of: id, Name: "x.png", Found: now,
	}
	if shared, err := w.Ring.Files().Share(w.Context(), row, from, circulate.FileBounds{}); err != nil || !shared {
		w.Fatal(shared, err)
	}
	s := circulate.Send{ID: id, Account: account, Kind: "chat", Peer: "p", Type: "image", Data: json.RawMessage(`{"file":"` + from + `"}`)}
	if _, _, err := w.Ring.Sends().Queue(w.Context(), s, "", circulate.SendBounds{}); err != nil {
		w.Fatal(err)
	}
}

// bytesOf expects the bytes of a send's file.
func (w *world) bytesOf(account, id, want string) {
	w.Helper()
	f, err := keep.SendFiles{Ring: w.Ring, Store: w.store}.FileOf(w.Context(), account, id)
	if err != nil {
		w.Error(err)
		return
	}
	for range 2 { // it may be opened again
		from, err := f.Open(w.Context())
		if err != nil {
			w.Error(err)
			return
		}
		got, err := io.ReadAll(from)
		if string(got) != want || err != nil || f.Size != int64(len(want)) || from.Close() != nil {
			w.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

// An upload stays for a day. A send that names it, or a file of a message, has the bytes for as long as
// it is known, whatever becomes of the other.
func TestFilesOfSendsEndWithThem(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		w.chat.set("x", answer{bytes: "x"})
		k, c := w.healthy(), w.collector(time.Hour)
		c.Retention = 0 // files of messages stay for ever, and those of sends do not
		unused, used := w.upload(k, "a", "u.png", "unused"), w.upload(k, "a", "v.png", "used")
		message := w.write("a", attachment{Name: "x"})
		if err := w.deliver(k, "a"); err != nil {
			t.Fatal(err)
		}
		first, second := circulate.NewSendID("a"), circulate.NewSendID("a")
		w.queue("a", first, used.ID)
		w.queue("a", second, circulate.NewFileID("a", circulate.FileOfMessage, message, 0))
		w.collected(c, 0, 0)
		time.Sleep(23 * time.Hour)
		w.collected(c, 0, 0)
		if again := w.upload(k, "a", "u.png", "unused"); again.ID != unused.ID {
			t.Errorf("the same upload has the ids %s and %s", unused.ID, again.ID)
		}
		time.Sleep(2 * time.Hour)
		w.collected(c, 1, 0) // the upload that a send names; the send has its bytes
		time.Sleep(23 * time.Hour)
		w.collected(c, 1, 1) // the other, a day after it came again
		w.bytesOf("a", first, "used")
		w.bytesOf("a", second, "x")

		if _, err := w.Ring.Sends().Cancel(w.Context(), first); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		w.collected(c, 0, 0) // it is still known
		if err := w.Ring.Account("a").Deregister(w.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		w.collected(c, 2, 1) // the sends are forgotten; a message still has the bytes of the second
		if _, err := (keep.SendFiles{Ring: w.Ring, Store: w.store}).FileOf(w.Context(), "a", first); !errors.Is(err, poller.ErrNoSendFile) {
			t.Error(err)
		}
		w.kept("a", message, 0, "x")
	})
}

// A file that is not what it should be is not uploaded, and leaves nothing.
func TestUploadsAreChecked(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		k := keep.New(keep.Config{Most: 10, Bounds: circulate.FileBounds{Account: 15}}, keep.Options{Ring: w.Ring, Store: w.store, Checkers: w.checkers()})
		upload := func(bytes, sum string) error {
			_, err := k.Upload(w.Context(), keep.Upload{Account: "a", Kind: "chat", SHA256: sum}, strings.NewReader(bytes))
			return err
		}
		sum := sha256.Sum256([]byte("something"))
		if err := upload("something", hex.EncodeToString(sum[:])); err != nil {
			t.Error(err)
		}
		if err := upload("anything", hex.EncodeToString(sum[:])); !errors.Is(err, files.ErrDiffers) {
			t.Error(err)
		}
		if err := upload("much too long", ""); !errors.Is(err, files.ErrTooLarge) {
			t.Error(err)
		}
		if err := upload("too many", ""); !errors.Is(err, circulate.ErrAccountFilesFull) {
			t.Error(err)
		}
		time.Sleep(26 * time.Hour)
		w.collected(w.collector(time.Hour), 1, 1)
		w.empty()
	})
}

// What the store cannot give is told as its fault.
func TestAStoreThatIsAwayDoesNotGiveASendsFile(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("a")
		k := w.healthy()
		row := w.upload(k, "a", "u.png", "bytes")
		id := circulate.NewSendID("a")
		w.queue("a", id, row.ID)
		f, err := keep.SendFiles{Ring: w.Ring, Store: w.store}.FileOf(w.Context(), "a", id)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.store.Remove(w.Context(), row.Object); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Open(context.Background()); poller.Classify(err).Code != "file_store" {
			t.Error(err)
		}
	})
}
