package pages

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// try asks the API for a trial, and shows its report beside the form.
func (e *edited) try(v *visit, r record) error {
	e.Tried = new(api.Trial)
	err := v.do(http.MethodPost, "/v1/accounts:check", map[string]any{"account": r}, e.Tried)
	switch refused := refusedFor(err); {
	case refused != nil:
		e.Tried = nil
		e.refuse(refused)
		return e.again(v, refused.Status)
	case err != nil:
		return err
	}
	for _, page := range e.Tried.Pages {
		for i := range page.Messages {
			var lines bytes.Buffer
			if json.Indent(&lines, page.Messages[i].Data, "", "  ") == nil {
				page.Messages[i].Data = lines.Bytes()
			}
		}
	}
	return e.again(v, http.StatusOK)
}
