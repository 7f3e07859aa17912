package backup

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/accounts/endpoint"
	"github.com/rounds-dev/rounds/accounts/maintenance"
	"github.com/rounds-dev/rounds/accounts/savedview"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// Maintenance windows and silences come back, and end when they would have; so do saved views. Without any, the format is
// one that earlier versions read.
func TestWhatHoldsForAWhileComesBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx, from, to := t.Context(), open(t, server, "from", 2), open(t, server, "to", 3)
		var before, after bytes.Buffer
		_, err := Write(ctx, from, &before, Options{})
		must(t, err)
		if !strings.Contains(before.String(), `"format":2`) {
			t.Errorf("without any: %.200s", before.String())
		}
		window, err := maintenance.Of(from).Put(ctx, maintenance.Window{Name: "disks", Host: "a.example", Until: time.Now().Add(time.Hour), Reason: "new disks", By: "eve"})
		must(t, err)
		must(t, concern.SilencesOf(from).Silence(ctx, concern.Overdue, "", time.Now().Add(time.Hour), "eve", "a test"))
		_, err = savedview.Of(from).Put(ctx, savedview.View{Name: "press fails", Of: savedview.OfAccounts, Query: map[string][]string{"state": {"failing"}}})
		must(t, err)
		written, err := Write(ctx, from, &after, Options{})
		must(t, err)
		if found, err := Verify(bytes.NewReader(after.Bytes()), nil); err != nil || written.Terms != 3 || found.Terms != 3 || found.Header.Format != 5 {
			t.Fatalf("%+v, %+v, %v", written, found, err)
		}
		_, err = Restore(ctx, to, bytes.NewReader(after.Bytes()), Restoring{})
		must(t, err)
		windows, _, err := maintenance.Of(to).All(ctx)
		if err != nil || len(windows) != 1 || windows[0].Name != "disks" || windows[0].Host != "a.example" || !windows[0].Until.Equal(window.Until) || windows[0].By != "eve" {
			t.Errorf("%+v, %v", windows, err)
		}
		if codes, err := concern.SilencesOf(to).Silenced(ctx); err != nil || len(codes) != 1 || codes[0] != concern.Overdue {
			t.Errorf("%v, %v", codes, err)
		}
		if views, err := savedview.Of(to).All(ctx); err != nil || len(views) != 1 || views[0].Name != "press fails" || views[0].Query["state"][0] != "failing" {
			t.Errorf("%v, %v", views, err)
		}
		// So do endpoints that were added, in a format of their own.
		_, err = endpoint.Of(from).Put(ctx, endpoint.Endpoint{Name: "crm", Fields: []byte(`{"name":"crm","url":"https://crm.example/"}`), Start: "5-0", By: "eve", Set: window.Until}, endpoint.Absent)
		must(t, err)
		var last bytes.Buffer
		_, err = Write(ctx, from, &last, Options{})
		must(t, err)
		if found, err := Verify(bytes.NewReader(last.Bytes()), nil); err != nil || found.Endpoints != 1 || found.Terms != 3 || found.Header.Format != 6 {
			t.Fatalf("%+v, %v", found, err)
		}
		anew := open(t, server, "anew", 2)
		_, err = Restore(ctx, anew, bytes.NewReader(last.Bytes()), Restoring{})
		must(t, err)
		if e, err := endpoint.Of(anew).Get(ctx, "crm"); err != nil || string(e.Fields) != `{"name":"crm","url":"https://crm.example/"}` || e.Start != "5-0" || e.By != "eve" || !e.Set.Equal(window.Until) {
			t.Errorf("%+v, %v", e, err)
		}
		for _, wrong := range []endpointLine{{Name: "a", Start: "5-0"}, {Fields: []byte("{}"), Start: "5-0"}, {Name: "a", Fields: []byte("{}"), Start: "x"}} {
			if wrong.check() == nil {
				t.Errorf("%+v is accepted", wrong)
			}
		}
		for _, wrong := range []termLine{{Sort: "odd", Name: "a", Text: "b"}, {Sort: "silence", Text: "b"}, {Sort: "silence", Name: "a"}} {
			if wrong.check() == nil {
				t.Errorf("%+v is accepted", wrong)
			}
		}
	})
}
