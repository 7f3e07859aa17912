package weixin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
)

// What is encrypted has the length that was announced, and decrypts to itself, however it is read.
func TestEncrypt(t *testing.T) {
	key := [keySize]byte{1, 2, 3}
	for _, size := range []int{0, 1, 15, 16, 17, sealedAtOnce - 1, sealedAtOnce, sealedAtOnce + 1, 3*sealedAtOnce + 5} {
		plain := checktest.FileBytes(&poller.File{Size: int64(size)})
		for name, way := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader, "with its end": iotest.DataErrReader,
		} {
			sealed, err := io.ReadAll(encrypt(io.NopCloser(way(bytes.NewReader(plain))), key))
			if err != nil || int64(len(sealed)) != sealedSize(int64(size)) {
				t.Fatalf("%d bytes, %s: %d encrypted, %v", size, name, len(sealed), err)
			}
			if got, err := io.ReadAll(decrypt(io.NopCloser(bytes.NewReader(sealed)), key)); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%d bytes, %s: decrypted to %d, %v", size, name, len(got), err)
			}
		}
	}
	if _, err := io.ReadAll(encrypt(io.NopCloser(iotest.ErrReader(io.ErrNoProgress)), key)); !errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
}

// sendsFile makes one attempt of a send with a file.
func sendsFile(t *testing.T, w *ilinkd.Server, attempt int) (poller.Sent, error) {
	t.Helper()
	f := poller.File{Name: "a.bin", Size: 1000}
	return New(fetch.New(fetch.Options{Transport: w}), source()).Send(t.Context(), poller.SendRequest{
		Account: "a", Config: configOf("", "a"), ID: "SEND0000000000000000000000000001", Attempt: attempt, Peer: person, Type: "file", Data: json.RawMessage(`{"file":"f"}`), Token: "context-1",
		File: &poller.SendFile{File: f, Open: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(checktest.FileBytes(&f))), nil
		}},
	})
}

// A file goes to the CDN where the server says it, by a whole address or by a parameter.
func TestAFileIsUploadedWhereTheServerSays(t *testing.T) {
	w := newFake(ilink.Options{Hold: -1})
	w.Post(tokenOf("a"), "text")
	sent, err := sendsFile(t, w, 1)
	all := w.Sent(tokenOf("a"))
	if err != nil || len(all) != 1 || all[0].ID != sent.VendorID || all[0].Text != "a.bin" || all[0].File != string(checktest.FileBytes(&poller.File{Size: 1000})) {
		t.Errorf("%+v, %v", all, err)
	}
	for _, answer := range []string{`{"ret":0}`, `{"ret":0,"upload_full_url":"http://elsewhere.example/x"}`, `{"ret":0,"upload_full_url":"ftp://x"}`, `{"ret":0,"upload_param":7}`} {
		w.Fail(ilinkd.GetUpload, ilinkd.Fault{Body: answer})
		var known *poller.SendError
		if _, err := sendsFile(t, w, 1); !errors.As(err, &known) || !known.Unsent {
			t.Errorf("%s: %v", answer, err)
		}
	}
	if n := len(w.Sent(tokenOf("a"))); n != 1 {
		t.Errorf("%d were sent", n)
	}
}

// If the upload fails in whatever way, nothing was sent. Only a refusal ends the send.
func TestAnUploadThatFailsIsUnsent(t *testing.T) {
	for name, tt := range map[string]struct {
		call    string
		fault   ilinkd.Fault
		attempt int
		final   bool
	}{
		"no address":              {ilinkd.GetUpload, ilinkd.Fault{Garbage: true}, 1, false},
		"an address that is cut":  {ilinkd.GetUpload, ilinkd.Fault{Cut: true}, 1, false},
		"a stale token":           {ilinkd.GetUpload, ilinkd.Fault{Code: -14}, 1, false},
		"a refusal for now":       {ilinkd.GetUpload, ilinkd.Fault{Code: -2}, 1, false},
		"a refusal":               {ilinkd.GetUpload, ilinkd.Fault{Code: -2}, 3, true},
		"a CDN that is down":      {ilinkd.Upload, ilinkd.Fault{Status: 502}, 1, false},
		"a CDN that breaks off":   {ilinkd.Upload, ilinkd.Fault{Reset: true}, 1, false},
		"a CDN that says nothing": {ilinkd.Upload, ilinkd.Fault{Body: "ok"}, 1, false},
		"a CDN that refuses":      {ilinkd.Upload, ilinkd.Fault{Status: 400}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFake(ilink.Options{Hold: -1})
			w.Post(tokenOf("a"), "text")
			w.Fail(tt.call, tt.fault)
			var known *poller.SendError
			if _, err := sendsFile(t, w, tt.attempt); !errors.As(err, &known) || known.Final != tt.final || known.Unsent == tt.final {
				t.Errorf("got %#v", err)
			}
			if w.Calls(ilinkd.SendMessage) != 0 {
				t.Error("it was sent")
			}
		})
	}
}
