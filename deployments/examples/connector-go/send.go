package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// sendRequest holds the fields of a send that this connector needs.
type sendRequest struct {
	SendID  string `json:"send_id"`
	Account struct {
		ID string `json:"id"`
	} `json:"account"`
	To   string `json:"to"`
	Type string `json:"type"`
	Data data   `json:"data"`
}

var plainID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// send delivers a text: it becomes the file NAME.sent/SEND_ID.json. The file gets its name in one
// step, and only if there is none of that name. So a send that comes again, even after a crash of
// this program, is delivered once.
func send(dir string, asked sendRequest) error {
	name := asked.Account.ID
	if !plainName.MatchString(name) {
		return fail("config", "the account's id must be letters, digits, dots, dashes and underscores")
	}
	if asked.Type != "text" {
		return fail("rejected", "only texts can be sent")
	}
	if _, err := os.Stat(filepath.Join(dir, name+".log")); errors.Is(err, fs.ErrNotExist) {
		return fail("gone", "there is no such file")
	}
	outbox := filepath.Join(dir, name+".sent")
	if err := os.MkdirAll(outbox, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]string{"to": asked.To, "text": asked.Data.Text})
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(outbox, "*.part")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // a file that is left over delivers nothing
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	err = os.Link(file.Name(), filepath.Join(outbox, asked.SendID+".json"))
	if errors.Is(err, fs.ErrExist) {
		return nil // it was delivered before
	}
	return err
}
