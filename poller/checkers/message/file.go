package message

import (
	"encoding/json"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
)

// Fields returns the members of a stored message's data; nil if it is no JSON object. Strangers made
// it, and Redis may have been written by others too.
func Fields(m *poller.Message) map[string]json.RawMessage {
	if m == nil || !json.Valid(m.Data) {
		return nil
	}
	fields, _ := strict.Members(m.Data)
	return fields
}

// FilesOf returns the files that a kind has found in a message, as poller.FileKeeper returns them.
func FilesOf[T any](all []T, file func(*T) poller.File) []poller.File {
	files := make([]poller.File, len(all))
	for i := range all {
		files[i] = file(&all[i])
	}
	return files
}

// FileAt returns what a message says of the file that a fetch asks for. The error says that there is
// no such file.
func FileAt[T any](all []T, r poller.FileRequest) (one T, failed *poller.CheckError) {
	if r.File < 0 || r.File >= len(all) {
		return one, poller.NoFile("no_file", "the message has no such file")
	}
	return all[r.File], nil
}
