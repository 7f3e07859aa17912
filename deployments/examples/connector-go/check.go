package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	maxLine = 64 << 10 // bytes of one message; the rest of a longer line is left out
	maxPage = 4 << 20  // bytes of lines on a page
)

var plainName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$`)

// check returns one page, the lines after the cursor, or nil if there are none.
func check(dir string, asked request) (*page, error) {
	if !plainName.MatchString(asked.Account.ID) {
		return nil, fail("config", "the account's id must be letters, digits, dots, dashes and underscores")
	}
	found := page{Messages: []message{}}
	if asked.Cursor != nil {
		found.NextCursor = *asked.Cursor
	}
	if found.NextCursor < 0 {
		return nil, fail("cursor_invalid", "the cursor must be a number of bytes")
	}
	file, err := os.Open(filepath.Join(dir, asked.Account.ID+".log"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail("gone", "there is no such file")
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the file is only read
	stat, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if found.NextCursor > stat.Size() { // the file was replaced by a new one
		found.NextCursor, found.CursorReset = 0, true
	}
	lines, err := io.ReadAll(io.NewSectionReader(file, found.NextCursor, min(maxPage, stat.Size()-found.NextCursor)))
	if err != nil {
		return nil, err
	}
	whole := found.NextCursor+int64(len(lines)) >= stat.Size()
	for {
		line, rest, ended := bytes.Cut(lines, []byte("\n"))
		if !ended {
			// Text after the last end of line is still being written, or on the next page.
			found.HasMore = len(found.Messages) > 0 && !whole
			break
		}
		if len(found.Messages) == asked.Limit {
			found.HasMore = true
			break
		}
		// The text is part of the id, because another file may have taken the name.
		sum := sha256.Sum256(line)
		text := textOf(line)
		found.Messages = append(found.Messages, message{
			ID:   fmt.Sprintf("%d-%s", found.NextCursor, hex.EncodeToString(sum[:8])),
			Type: "line", Time: stat.ModTime().UTC(), Data: data{text, filesOf(dir, asked.Account.ID, text)},
		})
		found.NextCursor += int64(len(line)) + 1
		lines = rest
	}
	if len(found.Messages) == 0 && len(lines) == maxPage {
		return nil, fail("config", fmt.Sprintf("a line is longer than %d bytes", maxPage))
	}
	if len(found.Messages) == 0 && !found.CursorReset {
		return nil, nil
	}
	return &found, nil
}

// textOf returns the text of a line, cut if it is too long.
func textOf(line []byte) string {
	line = line[:min(len(line), maxLine)]
	return strings.TrimSuffix(strings.ToValidUTF8(string(line), "\uFFFD"), "\r")
}
