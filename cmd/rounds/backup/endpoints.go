package backup

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rounds-dev/rounds/accounts/endpoint"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

// endpointLine is an endpoint that was added while the service ran. It holds no secret.
type endpointLine struct {
	Name   text            `json:"name"`
	Fields json.RawMessage `json:"fields"`
	Start  string          `json:"start"` // where its group begins if there is none
	By     text            `json:"by,omitempty"`
	Set    int64           `json:"set"` // unix ms
}

func (l *endpointLine) check() error {
	switch {
	case l.Name == "" || len(l.Name) > document.MaxName:
		return fmt.Errorf("endpoint: name: must have 1 to %d bytes", document.MaxName)
	case len(l.Fields) == 0 || len(l.Fields) > endpoint.MaxText:
		return fmt.Errorf("endpoint %q: fields: must have 1 to %d bytes", l.Name, endpoint.MaxText)
	}
	if err := circulate.ValidatePosition(l.Start); err != nil {
		return fmt.Errorf("endpoint %q: start: %w", l.Name, err)
	}
	return nil
}

// endpoints writes the endpoints that were added. One that cannot be read is left out.
func (w *writer) endpoints(context.Context, *circulate.Ring) error {
	for _, e := range w.added {
		l := &endpointLine{Name: text(e.Name), Fields: e.Fields, Start: e.Start, By: text(e.By), Set: milli(e.Set)}
		if l.check() != nil {
			continue
		}
		if err := w.write(line{Endpoint: l}); err != nil {
			return err
		}
	}
	return nil
}

func (l *endpointLine) restore(ctx context.Context, ring *circulate.Ring) error {
	_, err := endpoint.Of(ring).Put(ctx, endpoint.Endpoint{Name: string(l.Name), Fields: l.Fields, Start: l.Start, By: string(l.By), Set: ofMilli(l.Set)}, endpoint.Any)
	return err
}
