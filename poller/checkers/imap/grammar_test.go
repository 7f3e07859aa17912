package imap

import (
	"io"
	"net"
	"strings"
	"testing"
)

func TestGrammar(t *testing.T) {
	deep := strings.Repeat("(", maxNesting+1)
	for text, want := range map[string]bool{
		"* OK [CAPABILITY IMAP4rev1] ready\r\n* 1 FETCH (UID 1 BODY[] {5}\r\n((((()\r\nT1 OK done ((((\r\n": true,
		"* OK don't \"quote\r\n* SEARCH 1 2\r\n":                                                            true,
		"* OK {9}\r\n* SEARCH 1\r\n":                                                                        true,
		"+ {9}\r\nT1 NO [X] " + deep + "\r\n":                                                               true,
		"* FLAGS (\\Seen)\r\n* LIST () \"/\" \"a(\\\"(((((((((((((((((((((((((((((\"\r\n":                   true,
		"* 1 FETCH (BODY[] {0}\r\n)\r\n":                                                                    true,
		"\r\n":                                                                                              true,

		"* OK [PERMANENTFLAGS (\\Seen)] x (y)\r\n* OK [CAPABILITY IMAP4rev1] (ready)\r\n": true,

		"* OK [CAPABILITY(00aa":         false, // where the library would look for a space for ever
		"* OK [capability IMAP4rev1  (": false,
		"* CAPABILITY IMAP4rev1 (":      false,

		"* 1 FETCH " + deep:                              false,
		"* 1 FETCH (BODY[] {1}\r\nx " + deep:             false,
		"* OK {999999}\r\n* 1 FETCH " + deep:             false, // a text, no literal
		"* 1 OK {999999}\r\n* 1 FETCH " + deep:           false,
		"* 1 FETCH(\"x":                                  false,
		"*\tOK":                                          false,
		"* OK [X\r\n* 1 FETCH (BODY[] {99}\r\n] " + deep: false, // a code that goes on
		"* LIST () \"\r\n* OK \"" + deep:                 false, // a string that goes on
		"* LIST () \"\\\n":                               false,
		"* 1 FETCH (BODY[] {}\r\n":                       false,
		"* 1 FETCH (BODY[] {5x}\r\n":                     false,
		"* 1 FETCH (BODY[] {99999999999}\r\n":            false,
		"* 1 FETCH (BODY[] {5} x":                        false,
		strings.Repeat("x", 65):                          false,
		"* SEARCH" + strings.Repeat(" 1", maxAnswer/2):   false,
	} {
		var g grammar
		got := true
		for _, b := range []byte(text) {
			if got = g.accept(b); !got {
				break
			}
		}
		if got != want {
			t.Errorf("%.80q: got %t", text, got)
		}
	}
}

// The library sees everything but answers to ID, however the bytes arrive.
func TestAnswersToIDAreHidden(t *testing.T) {
	const said = "* OK hello\r\n* ID (\"name\" NIL \"x\" {4}\r\n* ID)\r\n* IDLE\r\n*\r\n* id nil\r\n\r\n* I"
	const want = "* OK hello\r\n* IDLE\r\n*\r\n\r\n"
	for size := 1; size <= len(said); size++ {
		near, far := net.Pipe()
		go func() {
			_, _ = io.WriteString(far, said)
			_ = far.Close()
		}()
		got, err := io.ReadAll(readsOf{&guarded{Conn: near, below: new(metered)}, size})
		if string(got) != want || err != nil {
			t.Errorf("by %d bytes: got %q, %v", size, got, err)
		}
		_ = near.Close()
	}
}

// readsOf reads at most so many bytes at once.
type readsOf struct {
	io.Reader
	size int
}

func (r readsOf) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), r.size)]) }
