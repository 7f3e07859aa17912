package imap

import (
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller"
)

// bounceOf is a bounce of a mail with a Message-ID.
func bounceOf(id string) string {
	return strings.ReplaceAll("From: mailer-daemon@example.com\nSubject: failed\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\n"+
		"Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 nobody\n\n--b\n"+
		"Content-Type: text/rfc822-headers\n\nMessage-ID: <"+id+">\n\n--b--\n", "\n", "\r\n")
}

// A bounce of a send is found like any mail, and says that the send has failed.
func TestBouncesOfSends(t *testing.T) {
	s := start(t, "none")
	s.Deliver("a", bounceOf("00000000SEND.rounds@example.com"))
	s.Deliver("a", bounceOf("1@example.com"))
	s.Deliver("a", bounceOf("x.rounds@example.com"))
	s.Post("a", 1)
	result, err := newChecker(t, s).Check(t.Context(), poller.Request{Config: configOf(s, "none", "a", "GOOD")})
	if err != nil {
		t.Fatal(err)
	}
	if want := []poller.FailedSend{{ID: "00000000SEND", Code: "5.1.1", Text: "550 nobody"}}; len(result.Messages) != 4 || !slices.Equal(result.FailedSends, want) {
		t.Errorf("got %v, %+v; want %+v", ids(result), result.FailedSends, want)
	}
}
