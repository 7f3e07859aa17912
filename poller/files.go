package poller

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"mime"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/circulate"
)

// A FileKeeper is a Checker whose messages may carry files: images, voices, attachments. What a
// message names, the third party may forget, so rounds fetches it and keeps it. It must be safe for
// concurrent use.
type FileKeeper interface {
	Checker

	// Files returns the files that a message of this kind carries, in an order that never changes.
	// It reads the message and nothing else, so the files of a message can be told at any time.
	// Strangers made the message: Files returns at most MaxFiles, each as CleanFile leaves it, and
	// never fails.
	Files(m *Message) []File

	// Forgets reports whether the third party forgets files after some time, so that they should be
	// fetched when their message is found.
	Forgets() bool

	// FetchFile makes the calls that give a file. Its errors, and those of reading the body, are
	// *CheckError, and say like those of Check what is at fault, with two differences. Gone says
	// that the file cannot be had, now or later: the third party has forgotten it, or what the
	// message says of it is of no use. Protocol says that what came is not the file, as when it
	// breaks off or cannot be decrypted.
	//
	// The bytes come as they are read. The caller closes the body, ends ctx only after that, and
	// reads at most its own bound, because all sizes may be wrong.
	FetchFile(ctx context.Context, r FileRequest) (*FileBody, error)
}

// MaxFiles is the most files that a message has.
const MaxFiles = circulate.MaxMessageFiles

// MaxFileName is the most bytes that a file's name has.
const MaxFileName = 255

// File is a file that a message carries, as the message tells it. Nothing of it is trusted.
type File struct {
	Name   string    // for people; empty: it has none
	Type   string    // the media type, without parameters; empty: unknown
	Size   int64     // bytes, of the file as it is kept; 0: unknown
	SHA256 string    // of its bytes, in hex; empty: unknown
	Until  time.Time // from when the third party may have forgotten it; zero: unknown
}

// FileRequest is what a FileKeeper gets for one file.
type FileRequest struct {
	Account string
	Config  json.RawMessage // as registered; it may have changed since the message was found
	Message *Message
	File    int // its place in what Files returned
}

// FileBody is a file while it is fetched. Type and Name are what the third party says of it now,
// as CleanFile leaves them; empty if it says nothing.
type FileBody struct {
	io.ReadCloser
	Name string
	Type string
	Size int64 // bytes; 0: unknown
}

// FileKinds returns the kinds whose messages carry files, in alphabetical order.
func (c Checkers) FileKinds() []string {
	return slices.DeleteFunc(c.Kinds(), func(kind string) bool { return c.FileKeeper(kind) == nil })
}

// FileKeeper returns the FileKeeper of a kind, or nil if its messages carry no files.
func (c Checkers) FileKeeper(kind string) FileKeeper {
	k, _ := c[kind].(FileKeeper)
	return k
}

// Files returns the files that a message of a kind carries, each as CleanFile leaves it, and
// MaxFiles at most. There are none if the kind knows no files, or panics.
func (c Checkers) Files(kind string, m *Message) (files []File) {
	keeper := c.FileKeeper(kind)
	if keeper == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			files = nil
		}
	}()
	files = keeper.Files(m)
	files = files[:min(len(files), MaxFiles)]
	for i := range files {
		files[i] = CleanFile(files[i])
	}
	return files
}

// NoFile returns the error of FetchFile for a file that cannot be had, now or later.
func NoFile(code, message string) *CheckError {
	return &CheckError{Kind: Gone, Scope: ScopeAccount, Code: code, Message: message}
}

// CleanFile returns a file without what could mislead its readers. A name is one line of at most
// MaxFileName bytes of UTF-8 without a folder, or empty. A type has no parameters. What is not a
// type, a size, a hash or a time that RFC 3339 has becomes unknown.
func CleanFile(f File) File {
	clean := File{Name: fileName(f.Name), Type: mediaType(f.Type), Size: max(0, f.Size)}
	if sum := strings.ToLower(f.SHA256); len(sum) == 64 {
		if _, err := hex.DecodeString(sum); err == nil {
			clean.SHA256 = sum
		}
	}
	if year := f.Until.UTC().Year(); !f.Until.IsZero() && year >= 1970 && year <= 9999 {
		clean.Until = f.Until.UTC()
	}
	return clean
}

// fileName returns a name without folders, control characters and characters that only change how
// the others are shown, such as U+202E, behind which exe.fdp reads as pdf.exe.
func fileName(name string) string {
	if len(name) > 4*MaxFileName {
		name = name[len(name)-4*MaxFileName:]
	}
	name = strings.Map(func(char rune) rune {
		switch {
		case char == utf8.RuneError, unicode.IsControl(char), unicode.Is(unicode.Cf, char), unicode.Is(unicode.Zl, char), unicode.Is(unicode.Zp, char):
			return -1
		}
		return char
	}, name)
	name = strings.TrimSpace(name[strings.LastIndexAny(name, `/\`)+1:])
	if strings.Trim(name, ". ") == "" {
		return ""
	}
	if len(name) <= MaxFileName {
		return name
	}
	stem, end := name, "" // a short end of the name stays: it says what the file is
	if dot := strings.LastIndexByte(name, '.'); dot > 0 && len(name)-dot <= 16 {
		stem, end = name[:dot], name[dot:]
	}
	cut := MaxFileName - len(end)
	for cut > 0 && !utf8.RuneStart(stem[cut]) {
		cut--
	}
	return strings.TrimSpace(stem[:cut] + end)
}

// mediaType returns a media type in lower case and without parameters, or "" if it is none.
func mediaType(text string) string {
	if len(text) > 256 {
		return ""
	}
	kind, _, _ := mime.ParseMediaType(text) // a parameter that cannot be read does not matter
	kind, sub, ok := strings.Cut(kind, "/")
	if !ok || kind == "" || sub == "" || len(kind)+len(sub) > 126 || strings.ContainsFunc(kind+sub, notInType) {
		return ""
	}
	return kind + "/" + sub
}

// notInType reports whether a character is not one of RFC 6838's restricted names.
func notInType(char rune) bool {
	return (char < 'a' || char > 'z') && (char < '0' || char > '9') && !strings.ContainsRune("!#$&-^_.+", char)
}
