package webhook_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// A Remote reports the latest attempts, failures for longer than successes, with the beginning of what
// the endpoint answered and without the secrets that it echoes.
func TestAttemptsAreReported(t *testing.T) {
	inFakeTime(t, func(w *world) {
		board := &memoryBoard{}
		sink, remote := w.sink(nil), webhook.NewRemote(board, nil)
		remote.Add(sink, &delivery.Control{}, 3)
		stop := faketime.Go(w, remote.Run)
		defer stop()
		signature := ""
		w.receiver.say(func(_ int, r *http.Request, to http.ResponseWriter) {
			signature = r.Header.Get("Webhook-Signature")
			to.WriteHeader(http.StatusBadRequest)
			_, _ = to.Write([]byte("no: " + r.URL.String() + " " + signature + " \xff" + strings.Repeat("x", 5000)))
		})
		is(t, one(w.Context(), sink, "a/1"), webhook.Rejected, true)
		time.Sleep(11 * time.Second)
		made := board.triedAt("crm")
		if len(made) != 1 || made[0].Status != http.StatusBadRequest || made[0].Outcome != "rejected" || made[0].Account != "a" || made[0].At.IsZero() || made[0].Why != "answered 400" {
			t.Fatalf("%+v", made)
		}
		answer := made[0].Answer
		_, bare, _ := strings.Cut(signature, ",")
		if !strings.HasPrefix(answer, "no: ***") || len(answer) > 1024 || !strings.HasSuffix(answer, "xx") || strings.Contains(answer, apiToken) || bare == "" || strings.Contains(answer, bare) {
			t.Errorf("%q", answer)
		}

		for i := range 30 {
			w.receiver.status(http.StatusBadRequest)
			if i >= 20 {
				w.receiver.status(http.StatusOK)
			}
			_ = one(w.Context(), sink, "b/1") // the breaker may be open
			time.Sleep(time.Minute)
		}
		time.Sleep(15 * time.Minute)
		for range 30 {
			_ = one(w.Context(), sink, "b/1")
		}
		time.Sleep(11 * time.Second)
		successes := 0
		for _, a := range board.triedAt("crm") {
			if a.Outcome == "delivered" {
				successes++
			}
		}
		if n := len(board.triedAt("crm")); n > 20 || successes < 5 || n-successes < 5 || board.triedAt("crm")[n-1].Outcome != "delivered" {
			t.Errorf("%d attempts, %d successes", n, successes)
		}

		w.receiver.goAway()
		is(t, one(w.Context(), sink, "a/1"), webhook.Unreachable, false)
		time.Sleep(11 * time.Second)
		if last := board.triedAt("crm")[len(board.triedAt("crm"))-1]; last.Outcome != "unreachable" || last.Status != 0 || last.Address != "" {
			t.Errorf("%+v", last)
		}
	})
}
