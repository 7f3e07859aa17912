package backup

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A restored message goes on in its trace, and so does a send. Where nothing is recorded, the backup has
// a format that earlier versions read.
func TestTracesAreInABackup(t *testing.T) {
	const found, queued = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	server := redistest.Embedded(t)
	ring := open(t, server, "from", 4)
	register(t, ring, "a", nil)
	must(t, ring.Archive().LoadMessages(t.Context(), ring.ShardOf("a"), []circulate.Found{
		{Position: "5-1", Account: "a", Kind: "plain", Message: circulate.Message{ID: "1", Data: []byte(`{}`)}, Trace: found},
		{Position: "5-2", Account: "a", Kind: "plain", Message: circulate.Message{ID: "2", Data: []byte(`{}`)}},
	}))
	send := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "plain", Peer: "anna", Type: "text", Data: []byte(`{"text":"hello"}`), Trace: queued}
	_, _, err := ring.Sends().Queue(t.Context(), send, "", circulate.SendBounds{})
	must(t, err)
	var out bytes.Buffer
	for _, traced := range []bool{false, true} {
		out.Reset()
		_, err := Write(t.Context(), ring, &out, Options{Traced: traced})
		must(t, err)
		want, format := []string{"", ""}, `"format":2`
		if traced {
			want, format = []string{found, ""}, `"format":6`
		}
		if header, _, _ := strings.Cut(out.String(), "\n"); !strings.Contains(header, format) || strings.Contains(out.String(), `"trace"`) != traced {
			t.Errorf("traced %v: %s", traced, out.String())
		}
		after := open(t, server, fmt.Sprint("to", traced), 3)
		_, err = Restore(t.Context(), after, bytes.NewReader(out.Bytes()), Restoring{})
		must(t, err)
		messages, err := after.Streams().Messages(t.Context(), after.ShardOf("a"), circulate.StreamStart, 10)
		if err != nil || len(messages) != 2 || messages[0].Trace != want[0] || messages[1].Trace != want[1] {
			t.Errorf("traced %v: %+v, %v", traced, messages, err)
		}
		if s, err := after.Sends().Look(t.Context(), send.ID); err != nil || s.Trace != queued {
			t.Errorf("traced %v: the send has the trace %q, %v", traced, s.Trace, err)
		}
	}
	if long := strings.Replace(out.String(), found, found+"0", 1); long == out.String() {
		t.Error("the trace is not in clear")
	} else if _, err := Verify(strings.NewReader(long), nil); err == nil || !strings.Contains(err.Error(), "message: trace: has 56 bytes") {
		t.Errorf("a trace that is too long: %v", err)
	}
}
