package service

import (
	"encoding/json"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/poller"
)

// sendingOf returns what the API asks about accounts that send.
func sendingOf(checkers poller.Checkers) func(kind string, config json.RawMessage) api.Sending {
	return func(kind string, config json.RawMessage) api.Sending {
		sender := checkers.Sender(kind)
		if sender == nil {
			return api.Sending{}
		}
		if len(config) == 0 {
			config = json.RawMessage("{}")
		}
		can := sender.Sending(config)
		prepare := func(o *api.Outgoing, answers *circulate.Message) error {
			send := poller.Outgoing{Peer: o.Peer, Type: o.Type, Data: o.Data}
			if o.File != nil {
				send.File = &poller.File{Name: o.File.Name, Type: o.File.Type, Size: o.File.Size}
			}
			err := sender.PrepareSend(config, &send, answers)
			o.Peer, o.Type, o.Data = send.Peer, send.Type, send.Data
			return err
		}
		return api.Sending{Types: can.Types, Windowed: can.Windowed, Most: can.Most, Fleeting: can.Fleeting, Files: can.Files, Prepare: prepare}
	}
}
