package pages

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// sendsShown is how many sends of a sort a page shows.
const sendsShown = 100

// sent is a send.
type sent struct{ api.Send }

// Sign returns the colour of the send's state.
func (s *sent) Sign() string {
	switch s.State {
	case "unknown", "rejected", "failed":
		return "bad"
	case "attempting":
		return "warn"
	case "accepted":
		return "good"
	}
	return "dim"
}

// Why says why the send is in its state, or why its last attempt failed.
func (s *sent) Why() string {
	if s.Code != "" && s.Reason != "" {
		return s.Code + ": " + s.Reason
	}
	return s.Code + s.Reason
}

// Text returns the beginning of the text that is sent, or of the data if that has no text.
func (s *sent) Text() string {
	const most = 200
	text := []rune(contentOf(s.Data))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// Files returns the file of the send, if it has one.
func (s *sent) Files() []api.File {
	if s.File == nil {
		return nil
	}
	return []api.File{*s.File}
}

// sendsOf are the sends of one sort, the oldest first.
type sendsOf struct {
	Sort string // unknown, waiting or refused
	All  []*sent
	More bool // there are others
}

// sends is what the page of sends shows.
type sends struct {
	Account string // only its sends; empty: those of all accounts
	Sorts   []*sendsOf
}

func sendsPage() *page {
	return &page{
		name: "sends", path: "/delivery/sends", menu: "delivery",
		data: func(v *visit) (any, error) {
			d := &sends{Account: v.Query("account")}
			for _, sort := range []struct {
				name   string
				states []string
			}{{"unknown", []string{"unknown"}}, {"waiting", []string{"attempting", "queued"}}, {"refused", []string{"rejected", "failed"}}} {
				of := &sendsOf{Sort: sort.name}
				for _, state := range sort.states {
					var list struct {
						Sends []*sent `json:"sends"`
						Next  string  `json:"next"`
					}
					if err := v.get(link("/v1/sends", "account", d.Account, "state", state, "limit", strconv.Itoa(sendsShown)), &list); err != nil {
						return nil, err
					}
					of.All, of.More = append(of.All, list.Sends...), of.More || list.Next != ""
				}
				slices.SortStableFunc(of.All, func(a, b *sent) int { return a.Since.Compare(b.Since) })
				d.Sorts = append(d.Sorts, of)
			}
			return d, nil
		},
		actions: map[string]action{"/delivery/sends": doSend},
	}
}

// doSend says what became of an unknown send, sends it again, or cancels one that waits.
func doSend(v *visit) (string, error) {
	form := v.r.PostForm
	id, do := form.Get("id"), form.Get("do")
	order, said := do, map[string]string{"accepted": "resolved", "rejected": "resolved", "retry": "sent_again", "cancel": "canceled"}[do]
	if said == "" || id == "" {
		return "", v.unknownAction()
	}
	var body map[string]any
	if do != "cancel" {
		// If somebody else has sent it again meanwhile, this is about another attempt.
		body = make(map[string]any)
		if n, err := strconv.Atoi(form.Get("attempts")); err == nil && n > 0 {
			body["attempts"] = n
		}
	}
	if said == "resolved" {
		order, body["state"] = "resolve", do
	}
	var sent any
	if body != nil {
		sent = body
	}
	if err := v.do(http.MethodPost, "/v1/sends/"+segment(id)+"/"+order, sent, nil); err != nil {
		return "", err
	}
	return link("/delivery/sends", "account", form.Get("account"), "said", said), nil
}
