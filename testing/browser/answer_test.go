package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/testing/browser/scene"
)

// picture is a small image.
func picture(t *testing.T) []byte {
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	return drawn.Bytes()
}

// testAnswers answers somebody on the page of an account that was opened before they wrote, by keys
// alone, and what is typed stays while more messages come. Then it does so without JavaScript, and
// sends a picture.
func (w *world) testAnswers(t *testing.T) {
	wrote := []map[string]any{}
	write := func(from, text string) {
		t.Helper()
		wrote = append(wrote, map[string]any{"id": fmt.Sprint(len(wrote)), "type": "text", "data": map[string]string{"from": from, "text": text}})
		body, err := json.Marshal(map[string]any{"messages": wrote[len(wrote)-1:], "next_cursor": fmt.Sprint(len(wrote)), "has_more": false})
		if err != nil {
			t.Fatal(err)
		}
		w.scene.Third.Say("chat", scene.Answer{Status: http.StatusOK, Type: "application/json", Body: string(body)})
		if err := w.scene.Calls.Nudge(t.Context(), "chat", api.NudgeRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	sent := func(want ...string) {
		t.Helper()
		for deadline := time.Now().Add(patience); len(w.scene.Third.Sent("chat")) < len(want) && time.Now().Before(deadline); {
			time.Sleep(50 * time.Millisecond)
		}
		if got := w.scene.Third.Sent("chat"); !slices.Equal(got, want) {
			t.Errorf("sent are %q, want %q", got, want)
		}
	}
	w.scene.Third.Say("chat", scene.Answer{Status: http.StatusNoContent})
	chat := accounts.Account{ID: "chat", Kind: "http", Cadence: "every 1h", Config: []byte(`{"url":"http://crm.example/said/chat","send_url":"http://crm.example/sent/chat","send_files":true}`)}
	if _, err := w.scene.Calls.Add(t.Context(), chat, ""); err != nil {
		t.Fatal(err)
	}

	tab := open(t, w.browser, w.scene.URL)
	w.signIn(t, tab, scene.Token)
	shows := func(text string) func() error {
		return func() error {
			return tab.await(`document.getElementById("live-talk").innerText.includes(` + quoted(text) + `)`)
		}
	}
	try(t, func() error { return tab.Go("/account?id=chat") }, shows("Nobody has written yet"))
	write("anna", "Are you there?")
	try(t,
		shows("Are you there?"),
		func() error { return tab.tabTo(`#live-talk a.button`) },
		func() error { return tab.typeTo(kb.Enter) },
		func() error { return tab.tabTo(`#reply`) },
		func() error { return tab.Type("Half of an ") })
	write("ben", "I am somebody else")
	try(t,
		func() error { return tab.await(`document.querySelectorAll("#live-talk nav a").length === 2`) },
		func() error { return tab.Type("answer") })
	if text, err := eval[string](tab, `document.getElementById("reply").value`); err != nil || text != "Half of an answer" {
		t.Errorf("the box has %q, %v", text, err)
	}
	try(t,
		func() error { return tab.tabTo(`.reply button`) },
		func() error { return tab.typeTo(kb.Enter) },
		shows("Half of an answer"), shows("accepted"),
		func() error { return tab.Measure(widths...) })
	inspect(t, tab)
	sound(t, tab)
	sent("anna: Half of an answer")

	still := open(t, w.browser, w.scene.URL)
	w.signIn(t, still, scene.Token)
	try(t,
		func() error { return still.allowScripts(false) },
		func() error { return still.Go("/account?id=chat") },
		func() error { return still.Follow(`#live-talk nav a[href*="peer=ben"]`) },
		func() error { return still.Fill("#reply", "plain") },
		func() error { return still.Submit("#reply") })
	if text, err := eval[string](still, `document.querySelector("main").innerText`); err != nil || !strings.Contains(text, "The answer is queued.") || !strings.Contains(text, "plain") {
		t.Errorf("after an answer: %v, %s", err, text)
	}
	cat := filepath.Join(t.TempDir(), "cat.png")
	if err := os.WriteFile(cat, picture(t), 0o600); err != nil {
		t.Fatal(err)
	}
	try(t,
		func() error { return still.Fill("#reply", "My cat") },
		func() error { return still.do(chromedp.SetUploadFiles("#reply-file", []string{cat})) },
		func() error { return still.Submit("#reply") })
	if text, err := eval[string](still, `document.querySelector(".talk .ours:has(img[src*='/v1/sends/'])").innerText`); err != nil || !strings.Contains(text, "My cat") || !strings.Contains(text, "cat.png") {
		t.Errorf("after a picture: %v, %s", err, text)
	}
	sound(t, still)
	sent("anna: Half of an answer", "ben: plain", "ben: My cat (cat.png)")
	if err := w.scene.Calls.Remove(t.Context(), "chat"); err != nil {
		t.Error(err)
	}
}
