package email

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/mailtest"
)

// sections returns the files of a mail, of which the first bytes are parsed.
func sections(mail string, size int64) []Section {
	return sectionsOf(&poller.Message{Data: Parse([]byte(mail[:min(len(mail), MaxRaw)]), size).Encode()})
}

// Files are found in a mail that comes piece by piece.
func TestSections(t *testing.T) {
	mail, want := mailtest.Nested()
	single := mailtest.Head + mailtest.Attachment("single.pdf", "base64", []byte("single"))
	forwarded := "Subject: x\r\nContent-Type: message/rfc822\r\n\r\nSubject: y\r\n\r\ntext"
	for _, c := range []struct {
		mail string
		size int64
		want map[string][]byte
	}{
		{mail, int64(len(mail)), want},
		{mail, 0, want},
		{single, int64(len(single)), map[string][]byte{"single.pdf": []byte("single")}},
		{forwarded, int64(len(forwarded)), map[string][]byte{"message/rfc822 1": []byte("Subject: y\r\n\r\ntext")}},
	} {
		all := sections(c.mail, c.size)
		if len(all) != len(c.want) {
			t.Errorf("%d files: %+v", len(all), all)
		}
		for n, s := range all {
			name := s.File.Name
			if name == "" {
				name = fmt.Sprint(s.File.Type, " ", n+1)
			}
			content, err := s.In(iotest.HalfReader(strings.NewReader(c.mail)))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got, err := io.ReadAll(content); err != nil || !bytes.Equal(got, c.want[name]) {
				t.Errorf("%s: %d bytes, want %d, %v: %.60q", name, len(got), len(c.want[name]), err, got)
			}
		}
	}
}

func TestSectionsThatAreNotThere(t *testing.T) {
	mail, _ := mailtest.Nested()
	small := mailtest.Head + mailtest.Multipart("x", mailtest.Text)
	broken := errors.New("broken")
	for _, c := range []struct {
		mail io.Reader
		part []int
		want error
	}{
		{strings.NewReader(mail), []int{9}, ErrNoPart},
		{strings.NewReader(mail), []int{1}, ErrNoPart},
		{strings.NewReader(mail), []int{1, 2, 1}, ErrNoPart},
		{strings.NewReader(mail), []int{2, 3}, ErrNoPart},
		{strings.NewReader(mail[:1000]), []int{9}, io.ErrUnexpectedEOF},
		{strings.NewReader(small), []int{2}, ErrNoPart},
		{strings.NewReader("Subject: x\r\n\r\ntext"), []int{2}, ErrNoPart},
		{strings.NewReader("<html>"), []int{1}, ErrNoMail},
		{strings.NewReader("Content-Type: multipart/mixed\r\n\r\n--x\r\n"), []int{1}, ErrNoPart},
		{io.MultiReader(strings.NewReader("Subject: x\r\n"), iotest.ErrReader(broken)), []int{1}, broken},
		{io.MultiReader(strings.NewReader(mail[:1000]), iotest.ErrReader(broken)), []int{9}, broken},
	} {
		if _, err := (Section{Part: c.part}).In(c.mail); !errors.Is(err, c.want) {
			t.Errorf("%v: got %v, want %v", c.part, err, c.want)
		}
	}
}

// What is listed of a mail is found in it, in the size that is told.
func FuzzSections(f *testing.F) {
	mail, _ := mailtest.Nested()
	f.Add([]byte(mail[:2000]))
	all, _ := mails(f)
	for _, mail := range all {
		f.Add(mail)
	}
	for _, c := range malformed {
		f.Add([]byte(c.mail))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) >= MaxRaw {
			return
		}
		d := Parse(raw, int64(len(raw)))
		for _, a := range d.Attachments {
			part, ok := parsePart(a.Part)
			if !ok || d.Damaged || d.Truncated || strings.ContainsFunc(string(raw), func(c rune) bool { return c >= utf8.RuneSelf }) {
				continue // a guess of a charset may depend on what was decoded before
			}
			content, err := Section{Part: part, Encoding: a.Encoding}.In(iotest.HalfReader(bytes.NewReader(raw)))
			if err != nil {
				t.Fatalf("%s: %v", a.Part, err)
			}
			if got, err := io.ReadAll(content); err != nil || len(got) != a.Size {
				t.Errorf("%s: %d bytes, want %d, %v", a.Part, len(got), a.Size, err)
			}
		}
		var m poller.Message
		if m.Data = d.Encode(); !json.Valid(m.Data) {
			t.Fatal("no JSON")
		}
		for _, s := range sectionsOf(&m) {
			_, _ = s.In(bytes.NewReader(raw))
		}
	})
}

// What comes piece by piece is decoded as what is there at once.
func FuzzTransferEncodings(f *testing.F) {
	for _, seed := range []string{"aGVsbG8=", "aGVsbG8=aGVsbG8=", "aGV sbG8\r\n!!", "a", "=C3=A9 =\r\nx= \t\r\ny", "=", "=4", "=zz=", "=  "} {
		f.Add([]byte(seed), uint8(1))
	}
	f.Fuzz(func(t *testing.T, raw []byte, step uint8) {
		pieces := func() io.Reader {
			return io.MultiReader(iotest.OneByteReader(bytes.NewReader(raw[:min(len(raw), int(step))])), bytes.NewReader(raw[min(len(raw), int(step)):]))
		}
		want, _ := decodeBase64(raw)
		if got, err := io.ReadAll(&base64Reader{from: pieces()}); err != nil || !bytes.Equal(got, want) {
			t.Errorf("base64 %q: got %q, want %q, %v", raw, got, want, err)
		}
		if bytes.Contains(raw, bytes.Repeat([]byte(" "), maxBlank/2)) {
			return // very many blanks are left as they are
		}
		want, _ = decodeQuoted(raw)
		if got, err := io.ReadAll(&quotedReader{from: bufio.NewReader(pieces())}); err != nil || !bytes.Equal(got, want) {
			t.Errorf("quoted %q: got %q, want %q, %v", raw, got, want, err)
		}
	})
}
