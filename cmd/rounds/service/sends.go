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
			err := sender.PrepareSend(config, &send, answers)
			*o = api.Outgoing{Peer: send.Peer, Type: send.Type, Data: send.Data}
			return err
		}
		return api.Sending{Types: can.Types, Windowed: can.Windowed, Most: can.Most, Fleeting: can.Fleeting, Prepare: prepare}
	}
}
