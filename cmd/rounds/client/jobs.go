package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// StartJob has an action applied to all selected accounts as a job, which goes on without the
// caller.
func (c *Client) StartJob(ctx context.Context, b accounts.Bulk) (j api.Job, err error) {
	path := queryPath("/v1/accounts:"+string(b.Action), append(ordered(b), "job", "true")...)
	if b.Action == accounts.SetAll {
		values, err := settingOf(b.Set)
		if err != nil {
			return j, err
		}
		path += "&" + values.Encode() // an empty value counts
	}
	return j, c.call(ctx, http.MethodPost, path, nil, &j)
}

// settingOf returns the parameters for a merge patch of cadence, priority and labels. An empty one
// stands for the default.
func settingOf(patch json.RawMessage) (url.Values, error) {
	var set struct {
		Cadence, Priority json.RawMessage
		Labels            map[string]*string
	}
	if err := json.Unmarshal(patch, &set); err != nil {
		return nil, err
	}
	values := make(url.Values)
	for name, raw := range map[string]json.RawMessage{"cadence": set.Cadence, "priority": set.Priority} {
		if len(raw) == 0 {
			continue
		}
		var text string // stays empty for null
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
		values.Set(name, text)
	}
	for name, value := range set.Labels {
		if value == nil {
			values.Add("remove_label", name)
			continue
		}
		values.Add("set_label", name+"="+*value)
	}
	return values, nil
}

// ordered returns the parameters for the selected accounts and how fast they change.
func ordered(b accounts.Bulk) []string {
	pairs := selection(b.Selector)
	if b.All {
		pairs = append(pairs, "all", "true")
	}
	if b.Rate != 0 {
		pairs = append(pairs, "rate", strconv.FormatFloat(b.Rate, 'f', -1, 64))
	}
	return pairs
}

// Jobs returns all jobs, the latest first.
func (c *Client) Jobs(ctx context.Context) (api.JobList, error) {
	return get[api.JobList](ctx, c, "/v1/jobs")
}

// Job returns a job.
func (c *Client) Job(ctx context.Context, id string) (api.Job, error) {
	return get[api.Job](ctx, c, jobPath(id))
}

// StopJob stops a job after its current step.
func (c *Client) StopJob(ctx context.Context, id string) (api.Job, error) {
	return c.changeJob(ctx, id, "stop")
}

// ResumeJob goes on with a stopped job.
func (c *Client) ResumeJob(ctx context.Context, id string) (api.Job, error) {
	return c.changeJob(ctx, id, "resume")
}

// UndoJob takes a job back by another job, which it returns.
func (c *Client) UndoJob(ctx context.Context, id string) (api.Job, error) {
	return c.changeJob(ctx, id, "undo")
}

func (c *Client) changeJob(ctx context.Context, id, verb string) (j api.Job, err error) {
	return j, c.call(ctx, http.MethodPost, jobPath(id)+"/"+verb, nil, &j)
}

func jobPath(id string) string { return "/v1/jobs/" + url.PathEscape(id) }
