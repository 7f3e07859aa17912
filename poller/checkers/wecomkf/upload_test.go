package wecomkf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

// If the upload fails in whatever way, nothing was sent. A token that WeCom refuses is replaced once.
func TestAnUploadThatFailsIsUnsent(t *testing.T) {
	for name, tt := range map[string]struct {
		fault        wecom.Fault
		final, taken bool
	}{
		"a token that is refused once": {wecom.Fault{Code: 40014, Times: 1}, false, true},
		"a token that is refused":      {wecom.Fault{Code: 40014}, false, false},
		"busy":                         {wecom.Fault{Code: -1}, false, false},
		"crowded":                      {wecom.Fault{Code: 45033}, false, false},
		"a file that it does not take": {wecom.Fault{Code: 40006}, true, false},
		"garbage":                      {wecom.Fault{Garbage: true}, false, false},
		"reset":                        {wecom.Fault{Reset: true}, false, false},
		"502":                          {wecom.Fault{Status: 502}, false, false},
		"429":                          {wecom.Fault{Status: 429}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := wecom.New(wecom.Options{})
			w.AddCorp(corp, secret)
			w.AddAccount(corp, "wk1")
			w.Post("wk1", "text")
			w.Fail(corp, wecom.UploadMedia, tt.fault)
			c := New(fetch.New(fetch.Options{Transport: w}), source(secret), token.NewMemory())
			_, err := c.Send(t.Context(), poller.SendRequest{
				Account: "a", Config: configOf("", "wk1"), ID: "SEND1", Attempt: 1, Peer: customer, Type: "image", Data: json.RawMessage(`{"file":"f"}`),
				File: &poller.SendFile{File: poller.File{Size: 10}, Open: func(context.Context) (io.ReadCloser, error) {
					return io.NopCloser(bytes.NewReader(make([]byte, 10))), nil
				}},
			})
			if tt.taken {
				if err != nil || len(w.Sent("wk1")) != 1 {
					t.Errorf("%v", err)
				}
				return
			}
			var known *poller.SendError
			if !errors.As(err, &known) || known.Final != tt.final || known.Unsent == tt.final {
				t.Errorf("got %#v", err)
			}
			if n := w.Stats(corp).SendMsg; n != 0 {
				t.Errorf("sent by %d calls", n)
			}
		})
	}
	// A welcome is a text or a menu.
	c := New(fetch.New(fetch.Options{}), source(secret), token.NewMemory())
	var known *poller.SendError
	if _, err := c.Send(t.Context(), poller.SendRequest{Config: configOf("", "wk1"), Peer: customer, Type: "image", Data: json.RawMessage(`{"file":"f"}`), Token: "welcome"}); !errors.As(err, &known) || !known.Final {
		t.Error(err)
	}
}
