package wecomcrypt

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"time"
)

// EventMessages is the event of a customer-service account that has messages or events to
// fetch (https://developer.work.weixin.qq.com/document/path/94670).
const EventMessages = "kf_msg_or_event"

// TokenLife is how long the token of an EventMessages may be used.
const TokenLife = 10 * time.Minute

// Event is the content of a callback.
type Event struct {
	XMLName    xml.Name `xml:"xml"`
	ToUserName string   `xml:"ToUserName"` // the corp id
	CreateTime int64    `xml:"CreateTime"` // unix seconds
	MsgType    string   `xml:"MsgType"`    // "event"
	Event      string   `xml:"Event"`
	Token      string   `xml:"Token"`    // for kf/sync_msg, for TokenLife
	OpenKfID   string   `xml:"OpenKfId"` // the account
}

// At returns the time of the event, or the zero time if the event has none.
func (e *Event) At() time.Time {
	if e.CreateTime <= 0 {
		return time.Time{}
	}
	return time.Unix(e.CreateTime, 0)
}

// ErrXML reports a text that is not the XML of a callback.
var ErrXML = errors.New("wecomcrypt: it is not the XML of a callback")

// envelope is the body of a callback.
type envelope struct {
	XMLName xml.Name `xml:"xml"`
	Encrypt string   `xml:"Encrypt"`
}

// ParseBody returns the encrypted text of a callback's body, or ErrXML.
func ParseBody(body []byte) (encrypted string, err error) {
	var e envelope
	if err := decode(body, &e); err != nil || e.Encrypt == "" {
		return "", ErrXML
	}
	return e.Encrypt, nil
}

// ParseEvent reads a decrypted message, or returns ErrXML. It ignores unknown fields: WeCom
// adds some from time to time.
func ParseEvent(message []byte) (Event, error) {
	var e Event
	if err := decode(message, &e); err != nil {
		return Event{}, ErrXML
	}
	return e, nil
}

// decode reads one XML element, after which nothing may follow. It knows only the entities of XML
// itself, and ignores a document type.
func decode(text []byte, into any) error {
	d := xml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(into); err != nil {
		return err
	}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if more, ok := token.(xml.CharData); !ok || len(bytes.TrimSpace(more)) > 0 {
			return ErrXML
		}
	}
}
