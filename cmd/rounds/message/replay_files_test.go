package message

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// The files of a dead letter that is replayed stay at least as long as the message that it becomes.
func TestAReplayedDeadLetterHasItsFiles(t *testing.T) {
	r, ring := newWorld(t, redistest.Embedded(t), 1)
	stream(t, r, ring, "a", 1)
	files := ring.Files()
	now, err := files.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := circulate.File{
		ID: circulate.NewFileID("a", circulate.FileOfMessage, "0", 3), Account: "a", Kind: "plain", Holder: circulate.FileOfMessage, Of: "0", Place: 3,
		Found: now.Add(-time.Hour), Reason: "it is gone",
	}
	if _, err := files.Lose(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	bury(t, ring, "crm")
	letters := walkDead(t, r, DeadQuery{Limit: 10})
	if len(letters) != 1 {
		t.Fatal(letters)
	}
	if done, err := r.ReplayDead(t.Context(), []string{letters[0].ID}); err != nil || done.Replayed != 1 {
		t.Fatal(done, err)
	}
	rows, err := files.Look(t.Context(), false, f.ID)
	last, lastErr := ring.Streams().Last(t.Context(), 0)
	id, _ := circulate.ParseStreamID(last)
	if err != nil || lastErr != nil || !rows[0].Judged.After(id.Time()) || rows[0].Judged.After(id.Time().Add(2*time.Minute)) {
		t.Errorf("judged from %v, the message is of %v (%v, %v)", rows[0].Judged, id.Time(), err, lastErr)
	}
}
