package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const (
	typeImage = "image"
	typeVoice = "voice"
	typeVideo = "video"
	typeFile  = "file"

	maxCaption = 1024     // characters
	maxPhoto   = 10 << 20 // bytes
	maxUpload  = 50 << 20 // bytes of any other file
)

// fileTypes are the types of sends that are files, in the order of Sending.
func fileTypes() []string { return []string{typeImage, typeVoice, typeVideo, typeFile} }

// methodOf returns the method that sends files of a type, and the field that has the file. It returns
// "" if the type is no file.
func methodOf(name string) (method, field string) {
	switch name {
	case typeImage:
		return "sendPhoto", "photo"
	case typeVoice:
		return "sendVoice", "voice"
	case typeVideo:
		return "sendVideo", "video"
	case typeFile:
		return "sendDocument", "document"
	}
	return "", ""
}

// fileRule is what a send of a type of files may have. A Bot API server of one's own takes larger
// ones.
func fileRule(name, base string) message.FileRule {
	rule := message.FileRule{Who: "Telegram", Caption: maxCaption, Most: maxUpload}
	switch {
	case base != defaultBaseURL:
		rule.Most = 0
	case name == typeImage:
		rule.Most = maxPhoto
	}
	return rule
}

// readFile returns the caption of a file's data, and the number of the message that it answers; 0:
// none.
func readFile(rule message.FileRule, data json.RawMessage, f *poller.File) (caption string, number int64, err error) {
	rest, number, err := answered(replyField, data)
	caption, wrong := rule.Read(rest, f)
	return caption, number, errors.Join(wrong, err)
}

// answered takes the field with the number of a message out of a send's data.
func answered(field string, data json.RawMessage) (rest json.RawMessage, number int64, err error) {
	fields, ok := strict.Members(data)
	named := fields[field]
	if !ok || len(named) == 0 {
		return data, 0, nil
	}
	delete(fields, field)
	if rest, err = json.Marshal(fields); err != nil {
		return data, 0, errors.New("data: cannot be encoded")
	}
	if number, err = strconv.ParseInt(string(named), 10, 64); err != nil || number <= 0 {
		return rest, 0, errors.New("data." + field + ": must be the number of a message")
	}
	return rest, number, nil
}

// sendFile sends a file by one call, which has its bytes.
func (c *caller) sendFile(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	rule := fileRule(r.Type, c.base)
	caption, number, err := readFile(rule, r.Data, nil)
	if err != nil {
		return poller.Sent{}, poller.Refused("data", err.Error())
	}
	if err := rule.Fits(r.File); err != nil {
		return poller.Sent{}, err
	}
	fields := []fetch.FormField{{Name: "chat_id", Value: r.Peer}}
	if caption != "" {
		fields = append(fields, fetch.FormField{Name: "caption", Value: caption})
	}
	if number > 0 {
		fields = append(fields, fetch.FormField{Name: "reply_parameters", Value: `{"message_id":` + strconv.FormatInt(number, 10) + `,"allow_sending_without_reply":true}`})
	}
	method, field := methodOf(r.Type)
	body, kind, err := fetch.FileForm(fields, field, message.FileName(&r.File.File), r.File)
	if err != nil {
		return poller.Sent{}, poller.Refused("data", "cannot be encoded")
	}
	return c.sendBody(ctx, method, fetch.Call{Stream: body}, kind)
}
