package api

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/history"
)

// History is figures over time.
type History struct {
	Now     time.Time      `json:"now" doc:"By Redis' clock."`
	From    time.Time      `json:"from" doc:"When the first point begins."`
	Seconds int            `json:"step_seconds" doc:"The time that a point covers. Point i begins at from plus i times that; the last point may not be over yet."`
	Points  int            `json:"points" doc:"How many points each field has."`
	Fields  []HistoryField `json:"fields" nullable:"false" doc:"In the requested order."`
}

// HistoryField is one figure over time.
type HistoryField struct {
	Name   string `json:"name"`
	Values Values `json:"values" nullable:"false" doc:"The mean of each point. null: there was no sample, or the figure was unknown."`
	Min    Values `json:"min,omitempty" doc:"The least value within each point, for checks_per_second and replicas."`
	Max    Values `json:"max,omitempty" doc:"The greatest value within each point, for fields whose peaks matter."`
}

// Values are numbers, of which some may be missing: NaN here, null in JSON.
type Values []float64

// MarshalJSON writes six digits of each number.
func (v Values) MarshalJSON() ([]byte, error) {
	text := make([]byte, 0, 8*len(v)+2)
	text = append(text, '[')
	for i, n := range v {
		if i > 0 {
			text = append(text, ',')
		}
		if math.IsNaN(n) || math.IsInf(n, 0) {
			text = append(text, "null"...)
			continue
		}
		rounded, err := strconv.ParseFloat(strconv.FormatFloat(n, 'e', 5, 64), 64)
		if err != nil {
			return nil, err
		}
		text = strconv.AppendFloat(text, rounded, 'f', -1, 64)
	}
	return append(text, ']'), nil
}

// UnmarshalJSON reads what MarshalJSON has written.
func (v *Values) UnmarshalJSON(text []byte) error {
	var known []*float64
	if err := json.Unmarshal(text, &known); err != nil {
		return err
	}
	*v = make(Values, len(known))
	for i, n := range known {
		if (*v)[i] = math.NaN(); n != nil {
			(*v)[i] = *n
		}
	}
	return nil
}

// Schema describes the values in the API's description.
func (Values) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeNumber, Nullable: true}}
}

type historyRequest struct {
	From   string `query:"from" maxLength:"64" example:"24h" doc:"The beginning: a time, or how long ago, such as 24h; at most 30 days ago. Left out: an hour before to."`
	To     string `query:"to" maxLength:"64" doc:"The end, likewise. Left out: now."`
	Step   string `query:"step" maxLength:"64" example:"4m" doc:"The time that a point covers: a multiple of 10s, and at least 2m for times more than a day ago. At most 500 points are returned. Left out: a step that makes a few hundred points."`
	Fields string `query:"fields" maxLength:"1024" example:"checks_per_second,lateness_p99_seconds" doc:"Names of fields, separated by commas. Left out: all."`
}

// historyRoutes adds the route that returns figures over time.
func (s *Server) historyRoutes(api huma.API) {
	var names []string
	for _, f := range history.Fields() {
		names = append(names, f.String())
	}
	answer(s, api, "get history", huma.Operation{
		OperationID: "get-history", Method: http.MethodGet, Path: "/v1/history", Tags: []string{"service"},
		Summary: "Figures over time",
		Description: "For charts. The monitor on duty stores a sample every ten seconds, for a day, and one every two minutes, for a month. The fields are " + strings.Join(names, ", ") + ". " +
			"Accounts by place and overdue_seconds are counted once a minute; staleness and failing_accounts are from the last scan. Numbers are exact within 0.05 %.",
		Errors: []int{401, 422, 503},
	}, s.getHistory)
}

func (s *Server) getHistory(ctx context.Context, r *historyRequest) (History, error) {
	asked, err := timesOf(r.From, r.To, r.Step)
	if err != nil {
		return History{}, err
	}
	fields, err := fieldsOf(r.Fields)
	if err != nil {
		return History{}, invalid("query.fields", err.Error())
	}
	q := history.Query{From: asked.From, To: asked.To, Before: asked.Before, Until: asked.Until, Step: asked.Step, Fields: fields}
	found, err := s.history.Look(ctx, q)
	switch {
	case errors.Is(err, history.ErrFrom):
		return History{}, invalid("query.from", err.Error())
	case errors.Is(err, history.ErrStep), errors.Is(err, history.ErrFine):
		return History{}, invalid("query.step", err.Error())
	case err != nil:
		return History{}, err
	}
	reply := History{Now: found.Now.UTC().Truncate(time.Millisecond), From: found.From.UTC(), Seconds: int(found.Step / time.Second), Points: found.Points, Fields: []HistoryField{}}
	for _, c := range found.Curves {
		reply.Fields = append(reply.Fields, HistoryField{Name: c.Field.String(), Values: c.Mean, Min: c.Least, Max: c.Most})
	}
	return reply, nil
}

// times are what a request for charts is about, as in history.Query and activity.Query.
type times struct {
	From, To            time.Time
	Before, Until, Step time.Duration
}

// timesOf reads the parameters from, to and step. Its error is an error reply.
func timesOf(from, to, step string) (t times, err error) {
	for _, part := range []struct {
		name string
		read func() error
	}{
		{"from", func() (err error) { t.From, t.Before, err = pointInTime(from); return err }},
		{"to", func() (err error) { t.To, t.Until, err = pointInTime(to); return err }},
		{"step", func() (err error) { t.Step, err = lasting(step); return err }},
	} {
		if err := part.read(); err != nil {
			return t, invalid("query."+part.name, err.Error())
		}
	}
	return t, nil
}

// pointInTime reads a time, or how long ago it was.
func pointInTime(text string) (at time.Time, ago time.Duration, err error) {
	if text == "" {
		return at, 0, nil
	}
	if at, err = time.Parse(time.RFC3339, text); err == nil {
		return at, 0, nil
	}
	if ago, err = time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Time{}, ago, nil
	}
	return at, 0, errors.New("must be a time such as 2026-01-31T12:00:00Z, or how long ago, such as 24h")
}

func lasting(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, errors.New("must be one duration such as 4m")
	}
	return d, nil
}

func fieldsOf(text string) ([]history.Field, error) {
	var all []history.Field
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		f, ok := history.FieldNamed(name)
		if !ok {
			return nil, errors.New("no such field: " + strconv.Quote(name))
		}
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all, nil
}
