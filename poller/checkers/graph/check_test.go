package graph

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/graphd"
)

// near returns a checker that asks a fake without a network.
func near(g *graphd.Graph) *Checker { return New(fetch.New(fetch.Options{Transport: g}), issued{g}) }

// check checks the account "a" once.
func check(t *testing.T, c *Checker, cursor []byte, limit int) poller.Result {
	t.Helper()
	result, err := c.Check(t.Context(), poller.Request{Account: "a", Config: configOf(""), Cursor: cursor, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// drain checks the account "a" until there is nothing more, and returns the numbers of its mails.
func drain(t *testing.T, c *Checker, cursor []byte) (found []int, _ []byte) {
	t.Helper()
	for range 1000 {
		result := check(t, c, cursor, 200)
		found = append(found, numbers(result)...)
		if result.Cursor != nil {
			cursor = result.Cursor
		}
		if !result.HasMore {
			return found, cursor
		}
	}
	t.Fatal("no end")
	return nil, nil
}

// numbers returns the numbers of mails.
func numbers(result poller.Result) (found []int) {
	for _, m := range result.Messages {
		for n := 1; n <= 10_000; n++ {
			if graphd.ID("a", n) == m.ID {
				found = append(found, n)
				break
			}
		}
	}
	return found
}

// A mail has the data that it has over IMAP, and Graph's flags.
func TestMail(t *testing.T) {
	g := graphd.New(graphd.Options{})
	const raw = "Message-ID: <1@example.com>\r\nReferences: <0@example.com>\r\nSubject: =?utf-8?B?5L2g5aW9?=\r\n\r\nHello\r\n"
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	id := g.DeliverAt("a", raw, at)
	g.Mark("a", id, true, true, false)
	result := check(t, near(g), nil, 10)
	want := email.Parse([]byte(raw), int64(len(raw)))
	want.Flags = []string{"$flagged", "$seen"}
	if m := result.Messages; len(m) != 1 || m[0].ID != id || m[0].Type != "mail" || !m[0].Time.Equal(at) || string(m[0].Data) != string(want.Encode()) || len(result.Warnings) > 0 {
		t.Errorf("got %+v", result)
	}
	g.Deliver("a", "no header")
	result = check(t, near(g), result.Cursor, 10)
	if w := result.Warnings; len(w) != 1 || w[0].Code != "malformed" || !strings.Contains(w[0].Message, "1 of 1 mails") {
		t.Errorf("got %v", w)
	}
}

// A first check begins with the newest messages, in whatever order Graph gives them, and goes on.
func TestLargeFolder(t *testing.T) {
	for _, newest := range []bool{false, true} {
		g := graphd.New(graphd.Options{NewestFirst: newest})
		began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for n := range firstMost + 3 {
			g.DeliverAt("a", "Subject: x\r\n\r\n", began.Add(time.Duration(n)*time.Minute))
		}
		c := near(g)
		result := check(t, c, nil, 4)
		want := []int{4, 5, 6, 7}
		if newest {
			want = []int{firstMost, firstMost + 1, firstMost + 2, firstMost + 3}
		}
		if !slices.Equal(numbers(result), want) || !result.HasMore || result.CursorReset {
			t.Errorf("newest first %t: got %v", newest, numbers(result))
		}
		if n := g.Stats("a").Requests; n != 2+4 {
			t.Errorf("%d requests", n)
		}
	}
}

// Each message of a folder is found once, with as many requests at once as Graph allows, and after
// failures with fewer messages on a page.
func TestManyMessages(t *testing.T) {
	g := start(t, graphd.Options{})
	g.Post("a", 2*maxPage+1)
	c := newChecker(t, g)
	request := poller.Request{Account: "a", Config: configOf(g.URL()), Limit: 200}
	seen := make(map[string]bool)
	for _, c2 := range []struct{ attempt, want int }{{1, maxPage}, {3, maxPage / 4}, {100, 1}, {0, maxPage - maxPage/4}} {
		request.Attempt = c2.attempt
		result, err := c.Check(t.Context(), request)
		if err != nil || len(result.Messages) != c2.want {
			t.Fatalf("attempt %d: %d messages, %v", c2.attempt, len(result.Messages), err)
		}
		for _, m := range result.Messages {
			if seen[m.ID] {
				t.Errorf("%s came twice", m.ID)
			}
			seen[m.ID] = true
		}
		request.Cursor = result.Cursor
	}
	if stats := g.Stats("a"); stats.Most > atOnce || len(seen) != 2*maxPage+1 {
		t.Errorf("%d requests at once, %d messages", stats.Most, len(seen))
	}
}

// Graph forgets state tokens. Then the check begins anew, shortly before what it had, and the messages of
// that hour are all that it finds again, as long as the account remembers them.
func TestForgottenToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := graphd.New(graphd.Options{NewestFirst: true})
		c := near(g)
		g.Post("a", 1)
		time.Sleep(2 * time.Hour)
		g.Post("a", 2)
		found, cursor := drain(t, c, nil)
		if !slices.Equal(found, []int{1, 2, 3}) {
			t.Fatalf("got %v", found)
		}
		g.Forget()
		g.Post("a", 1)
		result := check(t, c, cursor, 10)
		if !result.CursorReset || !slices.Equal(numbers(result), []int{2, 3, 4}) {
			t.Errorf("at once: got %v, reset %t", numbers(result), result.CursorReset)
		}
		time.Sleep(rememberedFor + time.Second)
		g.Forget()
		g.Post("a", 1)
		result = check(t, c, result.Cursor, 10)
		if !result.CursorReset || !slices.Equal(numbers(result), []int{5}) {
			t.Errorf("after a day: got %v, reset %t", numbers(result), result.CursorReset)
		}
		// A round that had not ended begins anew as well.
		g.Post("a", 9)
		result = check(t, c, nil, 2)
		g.Forget()
		if again := check(t, c, result.Cursor, 200); !again.CursorReset || len(again.Messages) != 14 {
			t.Errorf("within a round: got %v, reset %t", numbers(again), again.CursorReset)
		}
	})
}

// A cursor of another folder, sign-in or host is none of this one's.
func TestAnotherFolder(t *testing.T) {
	g := graphd.New(graphd.Options{})
	g.Post("a", 1)
	c := near(g)
	_, cursor := drain(t, c, nil)
	g.Move("a", graphd.ID("a", 1), "archive")
	for _, folder := range []string{"archive", graphd.FolderID("archive")} {
		config := fmt.Appendf(nil, `{"oauth":{"secret":"T"},"folder":%q}`, folder)
		result, err := c.Check(t.Context(), poller.Request{Account: "a", Config: config, Cursor: cursor, Limit: 10})
		if err != nil || !result.CursorReset || !slices.Equal(numbers(result), []int{1}) {
			t.Errorf("%s: got %+v, %v", folder, result, err)
		}
	}
	_, err := c.Check(t.Context(), poller.Request{Account: "a", Config: json.RawMessage(`{"oauth":{"secret":"T"},"folder":"nowhere"}`)})
	if failed := checktest.Failure(t, err); failed.Kind != poller.ConfigInvalid || failed.Code != "graph_folder" {
		t.Errorf("got %v", err)
	}
}

// A message that leaves the folder and comes back has the same id, and one that is deleted before it is
// read is skipped.
func TestMovedAndDeleted(t *testing.T) {
	g := graphd.New(graphd.Options{})
	g.Post("a", 3)
	c := near(g)
	found, cursor := drain(t, c, nil)
	g.Move("a", graphd.ID("a", 2), "archive")
	g.Move("a", graphd.ID("a", 2), "inbox")
	g.Post("a", 1)
	g.Fail("a", graphd.Fault{Step: "value", Times: 1, Status: 404, Code: "ErrorItemNotFound"})
	result := check(t, c, cursor, 10)
	if !slices.Equal(found, []int{1, 2, 3}) || len(result.Messages) != 1 || !slices.Contains([]int{2, 4}, numbers(result)[0]) {
		t.Errorf("got %v, then %v", found, numbers(result))
	}
	if found, _ := drain(t, c, cursor); !slices.Equal(found, []int{2, 4}) && !slices.Equal(found, []int{4, 2}) {
		t.Errorf("without a fault: got %v", found)
	}
}

// A refused access token costs nothing, and a sign-in that is refused is an error of the account.
func TestRefusedTokens(t *testing.T) {
	g := graphd.New(graphd.Options{})
	g.Post("a", 2)
	c := near(g)
	g.Fail("a", graphd.Fault{Step: "value", Times: 1, Status: 401, Code: "InvalidAuthenticationToken"})
	if result := check(t, c, nil, 10); len(result.Messages) != 2 {
		t.Errorf("got %v", numbers(result))
	}
	g.Fail("a", graphd.Fault{Status: 401, Code: "InvalidAuthenticationToken"})
	_, err := c.Check(t.Context(), poller.Request{Account: "a", Config: configOf("")})
	if failed := checktest.Failure(t, err); failed.Kind != poller.AuthFailed || failed.Code != codeToken || strings.Contains(failed.Error(), "t0ken") {
		t.Errorf("got %v", err)
	}
}

// A mail that Graph cannot convert is reported, and does not stop the others.
func TestMailThatCannotBeConverted(t *testing.T) {
	g := graphd.New(graphd.Options{})
	g.Post("a", 1)
	g.Fail("a", graphd.Fault{Step: "value", Status: 500, Code: "ErrorMimeContentConversionFailed"})
	result := check(t, near(g), nil, 10)
	if m := result.Messages; len(m) != 1 || m[0].ID != graphd.ID("a", 1) || string(m[0].Data) != `{"size":0,"damaged":true}` || len(result.Warnings) != 1 {
		t.Errorf("got %+v", result)
	}
}

// Of a long mail only the beginning is read, and Graph does not say how long it is.
func TestLongMail(t *testing.T) {
	g := start(t, graphd.Options{})
	g.Deliver("a", "Subject: x\r\n\r\n"+strings.Repeat("0123456789", 200<<10))
	c := newChecker(t, g)
	result, err := c.Check(t.Context(), poller.Request{Account: "a", Config: configOf(g.URL())})
	if err != nil || len(result.Messages) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	var d email.Data
	if err := json.Unmarshal(result.Messages[0].Data, &d); err != nil || d.Size != 0 || !d.Truncated || len(d.Text) != 64<<10 {
		t.Errorf("size %d, truncated %t, %d bytes of text, %v", d.Size, d.Truncated, len(d.Text), err)
	}
	if files := c.Files(&result.Messages[0]); len(files) != 1 || files[0] != (poller.File{Name: "mail.eml", Type: "message/rfc822"}) {
		t.Errorf("got %+v", files)
	}
}

// Each mailbox has a limit of its own at Microsoft.
func TestRateKeys(t *testing.T) {
	c := near(graphd.New(graphd.Options{}))
	if key := c.RateKey(configOf("")); key != "graph.microsoft.com/T" || !c.LimitsByDefault(key) {
		t.Errorf("got %q", key)
	}
	if key := c.RateKey(configOf("https://graph.microsoft.us/")); key != "graph.microsoft.us/T" {
		t.Errorf("got %q", key)
	}
	if _, err := poller.ParseLimits("graph/* "+c.DefaultLimit(), nil); err != nil {
		t.Error(err)
	}
}
