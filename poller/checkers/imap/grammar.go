package imap

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2"
)

const (
	maxNesting = 16      // nested lists; the requested answers have three
	maxAnswer  = 1 << 20 // bytes of one line, without literals
	maxDigits  = 10      // of a literal's size
	maxWords   = 64      // bytes of tag and type

	parkWithin = 10 * time.Second // for the rest of a line
)

// guarded is the plain side of a connection. It checks a server's answers against the
// outline of the grammar before the client library reads them. The library's parser
// recurses for every list within a list of a body structure, even an unrequested one,
// so a megabyte of parentheses would crash the whole process.
type guarded struct {
	net.Conn
	below    *metered
	greeting *strings.Reader // read before anything else; nil: none
	first    []byte          // the first line, at most maxGreeting bytes of it
	greeted  bool            // the first line has ended
	grammar  grammar
	bye      []byte // what follows the word in a line of BYE, at most maxGreeting bytes of it
	held     []byte // the start of a line that may be an answer to ID
	hidden   bool   // the line is one
	ready    []byte // not read by the library yet
	ended    error  // why there is nothing after it

	mu      sync.Mutex
	parking bool // the library is to stop reading at the end of a line
	slow    bool // it was in the middle of one
	atStop  bool // it has stopped
}

// Read returns only bytes that follow the grammar. It leaves out answers to ID, because
// the library takes a value of NIL, which RFC 2971 allows, for the end of IMAP.
func (g *guarded) Read(p []byte) (int, error) {
	if g.greeting != nil && g.greeting.Len() > 0 {
		return g.greeting.Read(p)
	}
	for len(p) > 0 && len(g.ready) == 0 {
		if g.ended != nil {
			return 0, g.ended
		}
		n, err := g.Conn.Read(p)
		if n == 0 && err != nil && g.stops(err) {
			if g.atStop {
				return 0, io.EOF
			}
			continue
		}
		g.ended = err
		for _, b := range p[:n] {
			leaving, answering := g.grammar.bye, g.grammar.answer
			if !g.grammar.accept(b) {
				g.below.unusable.Store(true)
				return 0, net.ErrClosed
			}
			if g.greeted = g.greeted || b == '\n'; !g.greeted && len(g.first) < maxGreeting {
				g.first = append(g.first, b)
			}
			g.pass(b)
			if leaving && len(g.bye) < maxGreeting {
				g.bye = append(g.bye, b)
			}
			if leaving && !g.grammar.bye {
				_, status := statusOf("* BYE " + strings.TrimSpace(string(g.bye)))
				g.below.goodbye.Store(&status)
			}
			if answering && !g.grammar.answer && g.below.goodbye.Load() != nil {
				g.below.followed.Store(true)
			}
		}
		// TLS can end while the connection below it stays open.
		g.below.note(err)
	}
	n := copy(p, g.ready)
	g.ready = g.ready[:copy(g.ready, g.ready[n:])]
	return n, nil
}

// park has the library stop reading, without an end of the connection, once it has read a whole
// line. It may end the connection only after that.
func (g *guarded) park() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parking = true
	g.below.parking.Store(true)
	_ = g.Conn.SetReadDeadline(time.Unix(1, 0))
}

// stops reports whether a read has ended because the connection is being parked. In the middle of a
// line it goes on.
func (g *guarded) stops(err error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.parking || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	if g.grammar.length == 0 && g.grammar.state == atStart {
		g.atStop = true
		return true
	}
	if g.slow {
		return false
	}
	g.slow = true
	_ = g.Conn.SetReadDeadline(time.Now().Add(parkWithin))
	return true
}

// SetReadDeadline implements net.Conn, unless the connection is being parked.
func (g *guarded) SetReadDeadline(t time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.parking {
		return nil
	}
	return g.Conn.SetReadDeadline(t)
}

// Close implements net.Conn. It leaves a parked connection open.
func (g *guarded) Close() error {
	g.mu.Lock()
	parked := g.atStop
	g.mu.Unlock()
	if parked {
		return nil
	}
	return g.Conn.Close()
}

// idAnswer begins an answer to ID.
const idAnswer = "* ID "

// pass takes a byte that the grammar accepted. It makes at most as many bytes ready as were read,
// together with the start of a line.
func (g *guarded) pass(b byte) {
	switch {
	case g.hidden:
	case g.held != nil || g.grammar.length == 1 && g.grammar.state == atStart:
		g.held = append(g.held, b)
		begun := strings.EqualFold(string(g.held), idAnswer[:len(g.held)])
		if g.hidden = begun && len(g.held) == len(idAnswer); !begun {
			g.ready = append(g.ready, g.held...)
		}
		if g.hidden || !begun {
			g.held = nil
		}
	default:
		g.ready = append(g.ready, b)
	}
	if g.grammar.length == 0 && g.grammar.state == atStart { // the line has ended
		g.hidden = false
	}
}

// refusal returns the greeting if the greeting was a refusal, and otherwise nil. It may
// be called once nothing is read any more.
func (g *guarded) refusal() *imap.Error {
	tag, status := statusOf(strings.TrimSuffix(string(g.first), "\r"))
	if !g.greeted || tag != "*" {
		return nil
	}
	switch status.Type {
	case imap.StatusResponseTypeBye, imap.StatusResponseTypeNo, imap.StatusResponseTypeBad:
		return &status
	}
	return nil
}

// grammar follows answers byte by byte (RFC 9051, section 9). It distinguishes lines
// that end in free text, where nothing has a meaning, from lines made of tokens, where
// a quotation mark begins a string and a brace begins a literal. It refuses what the
// library might read differently: a line break in a string or in a response code.
type grammar struct {
	state   state
	line    []byte // the line's first bytes, until its type is known
	length  int    // of the line so far
	depth   int    // of lists
	literal int64  // bytes of the literal that are left
	digits  int    // digits of its size so far
	fresh   bool   // at the start of free text, where a response code may begin
	code    bool   // within a response code
	word    []byte // the first bytes of that code
	caps    bool   // within a list of capabilities
	bye     bool   // in the text of an untagged BYE
	answer  bool   // in the text that completes a command
}

// capability begins a list of capabilities, which must have no list in it: at a parenthesis in
// place of a capability, the library would look for a space for ever.
const capability = "CAPABILITY"

type state uint8

const (
	atStart   state = iota // the start of a line, until its type is known
	inText                 // free text
	inTokens               // tokens
	inString               // a quoted string
	inEscape               // … after a backslash
	inSize                 // a literal's size
	behind                 // after the size's brace, where only a line break may come
	inLiteral              // bytes that have no meaning
)

// accept takes a byte and reports whether it may be there.
func (g *grammar) accept(b byte) bool {
	if g.state == inLiteral {
		if g.literal--; g.literal == 0 {
			g.state = inTokens
		}
		return true
	}
	if g.length++; g.length > maxAnswer {
		return false
	}
	switch g.state {
	case atStart:
		return g.begin(b)
	case inText:
		return g.text(b)
	case inTokens:
		return g.token(b)
	case inString:
		switch b {
		case '"':
			g.state = inTokens
		case '\\':
			g.state = inEscape
		}
		return b != '\r' && b != '\n'
	case inEscape:
		g.state = inString
		return b != '\r' && b != '\n'
	case inSize:
		return g.size(b)
	default: // behind
		if b == '\n' {
			if g.state = inLiteral; g.literal == 0 {
				g.state = inTokens
			}
		}
		return b == '\n' || b == '\r' || b == ' '
	}
}

// begin reads the words that determine the rest of the line: tag and type, sometimes
// with a number between them.
func (g *grammar) begin(b byte) bool {
	switch {
	case b == '\n':
		g.end()
		return true
	case b == '\r':
		return true
	case b != ' ':
		g.line = append(g.line, b)
		return len(g.line) <= maxWords && b > ' ' && !strings.ContainsRune(`(){}[]"\%`, rune(b))
	}
	words := strings.Fields(string(g.line))
	g.line = append(g.line, b)
	if len(words) == 1 && words[0] == "+" {
		g.state = inText
		return true
	}
	if len(words) < 2 || len(words) == 2 && words[1][0] >= '0' && words[1][0] <= '9' {
		return len(g.line) <= maxWords
	}
	switch strings.ToUpper(words[len(words)-1]) {
	case "OK", "NO", "BAD", "BYE", "PREAUTH":
		g.state, g.fresh = inText, true
		g.answer = words[0] != "*"
		g.bye = words[0] == "*" && strings.EqualFold(words[len(words)-1], "BYE")
	default:
		g.state, g.caps = inTokens, strings.EqualFold(words[len(words)-1], capability)
	}
	return true
}

// text skips free text. Within a response code it refuses the end of the line and, after
// capability, a list.
func (g *grammar) text(b byte) bool {
	if g.fresh {
		g.fresh, g.code, g.word = false, b == '[', g.word[:0]
	} else if g.code && len(g.word) < len(capability) {
		g.word = append(g.word, b)
	}
	switch b {
	case ']':
		g.code = false
	case '(':
		return !g.code || !strings.EqualFold(string(g.word), capability)
	case '\n':
		open := g.code
		g.end()
		return !open
	}
	return true
}

func (g *grammar) token(b byte) bool {
	switch b {
	case '(':
		if g.caps {
			return false
		}
		g.depth++
	case ')':
		g.depth--
	case '"':
		g.state = inString
	case '{':
		g.state, g.literal, g.digits = inSize, 0, 0
	case '\n':
		g.end()
	}
	return g.depth <= maxNesting
}

func (g *grammar) size(b byte) bool {
	switch {
	case b == '}':
		g.state = behind
		return g.digits > 0
	case b < '0' || b > '9':
		return false
	}
	g.literal = 10*g.literal + int64(b-'0')
	g.digits++
	return g.digits <= maxDigits
}

// end ends the line and begins the next.
func (g *grammar) end() { *g = grammar{line: g.line[:0]} }
