package email

import (
	"strings"
	"testing"
)

// reportOf is a bounce with a report and what it returns of the mail.
func reportOf(report, returned string) string {
	return "Content-Type: multipart/report; report-type=\"delivery-status\"; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nSorry.\r\n" +
		"--b\r\nContent-Type: message/delivery-status\r\n\r\n" + strings.ReplaceAll(report, "\n", "\r\n") + "\r\n--b\r\n" + strings.ReplaceAll(returned, "\n", "\r\n") + "\r\n--b--\r\n"
}

// A bounce is a stranger's mail. Whatever it has, what is read of it is short and one line.
func FuzzBounce(f *testing.F) {
	f.Add([]byte(reportOf("Original-Envelope-Id: E1\n\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 no\n such  person\n", "Content-Type: message/rfc822\n\nMessage-ID: <1@x>\n\nhello")))
	f.Add([]byte(reportOf("Action: delayed\n", "Content-Type: text/rfc822-headers\n\nMessage-ID: <1@x>")))
	f.Add([]byte(reportOf(strings.Repeat("Action: relayed\n\n", 100), "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nTWVzc2FnZS1JRDogPDFAeD4NCg0KaGVsbG8=")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, ok := ReadBounce(raw)
		if !ok {
			return
		}
		if b.MessageID+b.EnvelopeID == "" || !statusPattern.MatchString(b.Status) {
			t.Errorf("got %+v", b)
		}
		for _, text := range []string{b.MessageID, b.EnvelopeID, b.Text} {
			if strings.ContainsAny(text, "\r\n") || len(text) > 2*maxLine {
				t.Errorf("a text of %d bytes: %.100q", len(text), text)
			}
		}
	})
}

func TestBounces(t *testing.T) {
	const mail = "Content-Type: message/rfc822\n\nReceived: x\nMessage-ID: <1@x>\n\nhello"
	const failed = "Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; a@b\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 no\n such  person\n"
	ok := Bounce{MessageID: "1@x", Status: "5.1.1", Text: "550 5.1.1 no such person"}
	with := func(change func(*Bounce)) Bounce {
		b := ok
		change(&b)
		return b
	}
	for name, c := range map[string]struct {
		raw  string
		want Bounce // without ids: it is none
	}{
		"a mail":                         {reportOf(failed, mail), ok},
		"only a header":                  {reportOf(failed, "Content-Type: text/rfc822-headers\n\nMessage-ID: <1@x>\nSubject: x"), ok},
		"in base64":                      {reportOf(failed, "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nTWVzc2FnZS1JRDogPDFAeD4NCg0KaGVsbG8="), ok},
		"the second of three recipients": {reportOf("Reporting-MTA: dns; mx\n\nAction: delivered\nStatus: 2.0.0\n\nAction: Failed\nStatus: 5.1.1 (x)\nDiagnostic-Code: smtp; 550 5.1.1 no such person\n\nAction: failed\nStatus: 5.9.9\n", mail), ok},
		"an envelope's id":               {reportOf("Original-Envelope-Id: E1\n\nAction: failed\n", "Content-Type: text/plain\n\nx"), Bounce{EnvelopeID: "E1", Status: "5.0.0"}},
		"a status that is none":          {reportOf(strings.Replace(failed, "5.1.1\n", "x\n", 1), mail), with(func(b *Bounce) { b.Status = "5.0.0" })},
		"given up after days":            {reportOf(strings.Replace(failed, "Status: 5.1.1", "Status: 4.4.7", 1), mail), with(func(b *Bounce) { b.Status = "4.4.7" })},
		"control characters":             {reportOf(strings.Replace(failed, "no\n such", "no\x1b\x00\x7f such", 1), mail), ok},
		"cut off":                        {strings.TrimSuffix(reportOf(failed, mail), "\r\nhello\r\n--b--\r\n"), ok},

		"a delay":            {reportOf(strings.Replace(failed, "failed", "delayed", 1), mail), Bounce{}},
		"a delivery":         {reportOf(strings.Replace(failed, "failed", "delivered", 1), mail), Bounce{}},
		"no ids":             {reportOf(failed, "Content-Type: message/rfc822\n\nSubject: x\n\nx"), Bounce{}},
		"no report":          {reportOf("", mail), Bounce{}},
		"too many groups":    {reportOf(strings.Repeat("Action: relayed\n\n", 1000)+failed, mail), Bounce{}},
		"another report":     {strings.Replace(reportOf(failed, mail), "delivery-status", "disposition-notification", 1), Bounce{}},
		"no multipart":       {"Content-Type: text/plain\r\n\r\n" + failed, Bounce{}},
		"a forwarded bounce": {"Content-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: message/rfc822\r\n\r\n" + reportOf(failed, mail) + "\r\n--c--\r\n", Bounce{}},
		"nothing":            {"", Bounce{}},
	} {
		got, is := ReadBounce([]byte(c.raw))
		if is != (c.want != Bounce{}) || is && got != c.want {
			t.Errorf("%s: got %+v, %t; want %+v", name, got, is, c.want)
		}
	}
}
