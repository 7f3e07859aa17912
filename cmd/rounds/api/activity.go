package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/activity"
)

// Activity is what checks did between two times.
type Activity struct {
	Now     time.Time `json:"now" doc:"By Redis' clock."`
	From    time.Time `json:"from" doc:"When the first point begins."`
	Seconds int       `json:"step_seconds" doc:"The time that a point covers. Point i begins at from plus i times that."`
	Points  int       `json:"points" doc:"How many points each curve has."`

	Whole    ActivityCurves `json:"whole" doc:"Of all checks, or of those that of names."`
	Kinds    []Active       `json:"kinds" nullable:"false" doc:"All kinds."`
	Hosts    []Active       `json:"hosts" nullable:"false" doc:"The hosts with the most checks, where one that failed counts as ten."`
	Labels   []Active       `json:"labels" nullable:"false" doc:"Likewise, as NAME=VALUE."`
	Noisiest []Active       `json:"noisiest" nullable:"false" doc:"The accounts that found the most messages."`
	Slowest  []Active       `json:"slowest" nullable:"false" doc:"The accounts with the longest checks."`
	Rows     []ActivityRow  `json:"shards" nullable:"false" doc:"How late checks began, by shard, or by groups of neighbouring shards if there are more than 64."`
	Marks    []ActivityMark `json:"marks" nullable:"false" doc:"What happened meanwhile."`
}

// ActivityCurves are figures over time. null: nothing is known of the time.
type ActivityCurves struct {
	Checks   Values `json:"checks" nullable:"false"`
	Failures Values `json:"failures" nullable:"false"`
	Messages Values `json:"messages" nullable:"false" doc:"That checks found, before those that were given again are left out."`
	Lateness Values `json:"lateness_seconds" nullable:"false" doc:"How late checks began, on average."`
	Latest   Values `json:"lateness_most_seconds" nullable:"false"`
	Duration Values `json:"duration_seconds" nullable:"false" doc:"From claim to result, on average."`
	Longest  Values `json:"duration_most_seconds" nullable:"false"`
}

// Active is a kind, a host, a label or an account, with its sums over all points.
type Active struct {
	Name     string  `json:"name"`
	Checks   uint64  `json:"checks"`
	Failures uint64  `json:"failures"`
	Messages uint64  `json:"messages"`
	Lateness float64 `json:"lateness_seconds" doc:"On average."`
	Latest   float64 `json:"lateness_most_seconds"`
	Duration float64 `json:"duration_seconds" doc:"On average."`
	Longest  float64 `json:"duration_most_seconds"`
	Curve    Values  `json:"curve" nullable:"false" doc:"The figure that the parameter figure names, by point."`
}

// ActivityRow is how late the checks of some shards began.
type ActivityRow struct {
	First    int    `json:"first" doc:"The first shard."`
	Last     int    `json:"last"`
	Lateness Values `json:"lateness_seconds" nullable:"false" doc:"On average, by point."`
	Latest   Values `json:"lateness_most_seconds" nullable:"false"`
}

// ActivityMark is something that happened at a time.
type ActivityMark struct {
	At      time.Time `json:"at"`
	What    string    `json:"what" enum:"start,stop,death,bulk" doc:"A poller started or stopped, a process went silent, or many accounts were changed."`
	Subject string    `json:"subject" doc:"The replica; of a bulk change, the action."`
	Count   int       `json:"count,omitempty" doc:"How many accounts were changed."`
}

type activityRequest struct {
	From    string `query:"from" maxLength:"64" example:"24h" doc:"The beginning: a time, or how long ago, such as 24h; at most 30 days ago. Left out: an hour before to."`
	To      string `query:"to" maxLength:"64" doc:"The end, likewise. Left out: now."`
	Step    string `query:"step" maxLength:"64" example:"20m" doc:"The time that a point covers: a multiple of 1m within the last 3 hours, of 10m within the last 48, and of 2h before that; at most 120 points. Left out: one that makes some dozens of points."`
	Of      string `query:"of" maxLength:"300" example:"host:news.example.org" doc:"Whose curves whole has: kind, host, label or account, a colon, and the name. Left out: all."`
	Figures string `query:"figure" enum:"checks,failures,messages,lateness,duration" default:"checks" doc:"What each curve shows."`
}

// activityRoutes adds the route that returns what checks did.
func (s *Server) activityRoutes(api huma.API) {
	answer(s, api, "get activity", huma.Operation{
		OperationID: "get-activity", Method: http.MethodGet, Path: "/v1/activity", Tags: []string{"service"},
		Summary: "What checks did, by kind, host, label, account and shard",
		Description: "For charts. Pollers add up each minute. Sums of all checks, kinds and shards are exact. Of hosts, labels and accounts only the foremost are known; their figures are at least so much, and never too great. " +
			"The newest minute is there 20 s after its end.",
		Errors: []int{401, 422, 503},
	}, s.getActivity)
}

func (s *Server) getActivity(ctx context.Context, r *activityRequest) (Activity, error) {
	asked, err := timesOf(r.From, r.To, r.Step)
	if err != nil {
		return Activity{}, err
	}
	whole, err := wholeOf(r.Of)
	if err != nil {
		return Activity{}, invalid("query.of", err.Error())
	}
	c, err := activity.NewReader(s.options.Ring).Look(ctx, activity.Query(asked))
	switch {
	case errors.Is(err, activity.ErrFrom):
		return Activity{}, invalid("query.from", err.Error())
	case errors.Is(err, activity.ErrStep):
		return Activity{}, invalid("query.step", err.Error())
	case err != nil:
		return Activity{}, err
	}
	a := Activity{
		Now: c.Now.UTC().Truncate(time.Millisecond), From: c.From.UTC(), Seconds: int(c.Step / time.Second), Points: len(c.Points), Whole: curvesOf(c, whole),
		Rows: rowsOf(c), Marks: []ActivityMark{},
	}
	for part, list := range map[activity.Part]*[]Active{activity.Kinds: &a.Kinds, activity.Hosts: &a.Hosts, activity.Labels: &a.Labels, activity.Noisiest: &a.Noisiest, activity.Slowest: &a.Slowest} {
		*list = activeIn(c, part, r.Figures)
	}
	for _, m := range c.Sum.Marks {
		if word := markWord(m.Kind); word != "" && !m.At.Before(c.From) && m.At.Before(c.To()) {
			a.Marks = append(a.Marks, ActivityMark{At: m.At.UTC(), What: word, Subject: m.Subject, Count: m.Count})
		}
	}
	return a, nil
}

// activeNames is how many names of each part a reply has.
const activeNames = 20

func activeIn(c *activity.Course, part activity.Part, figure string) []Active {
	all := []Active{}
	for _, r := range c.Sum.First(part, activeNames) {
		one := Active{Name: r.Name, Checks: r.Checks, Failures: r.Failures, Messages: r.Messages,
			Lateness: mean(r.Late, r.Timed), Latest: r.LateMost.Seconds(), Duration: mean(r.Took, r.Timed), Longest: r.TookMost.Seconds()}
		one.Curve = make(Values, len(c.Points))
		for i, s := range c.Points {
			if s == nil {
				continue
			}
			if f := s.Parts[part][r.Name]; f != nil { // otherwise it was not among the foremost
				one.Curve[i] = valueOf(f, figure)
			}
		}
		all = append(all, one)
	}
	return all
}

// valueOf returns what the parameter figure names.
func valueOf(f *activity.Figures, figure string) float64 {
	switch figure {
	case "failures":
		return float64(f.Failures)
	case "messages":
		return float64(f.Messages)
	case "lateness":
		return mean(f.Late, f.Timed)
	case "duration":
		return mean(f.Took, f.Timed)
	}
	return float64(f.Checks)
}

// mean returns an average in seconds, or 0 of nothing.
func mean(sum time.Duration, n uint64) float64 {
	if n == 0 {
		return 0
	}
	return sum.Seconds() / float64(n)
}

// wholeOf reads whose figures are asked for.
func wholeOf(of string) (func(*activity.Sheet) *activity.Figures, error) {
	if of == "" {
		return func(s *activity.Sheet) *activity.Figures { return &s.All }, nil
	}
	what, name, ok := strings.Cut(of, ":")
	parts := map[string][]activity.Part{"kind": {activity.Kinds}, "host": {activity.Hosts}, "label": {activity.Labels}, "account": {activity.Noisiest, activity.Slowest}}[what]
	if !ok || name == "" || len(parts) == 0 {
		return nil, errors.New("must be kind, host, label or account, a colon, and a name, such as host:news.example.org")
	}
	return func(s *activity.Sheet) *activity.Figures {
		var found *activity.Figures
		for _, p := range parts {
			if f := s.Parts[p][name]; f != nil && (found == nil || f.Checks > found.Checks) {
				found = f
			}
		}
		return found
	}, nil
}

func curvesOf(c *activity.Course, of func(*activity.Sheet) *activity.Figures) ActivityCurves {
	n := len(c.Points)
	curves := ActivityCurves{Checks: make(Values, n), Failures: make(Values, n), Messages: make(Values, n), Lateness: make(Values, n), Latest: make(Values, n), Duration: make(Values, n), Longest: make(Values, n)}
	for i, s := range c.Points {
		var f *activity.Figures
		if s != nil {
			f = of(s)
		}
		none := math.NaN()
		if f == nil {
			f = &activity.Figures{}
		} else {
			none = 0
		}
		curves.Checks[i], curves.Failures[i], curves.Messages[i] = float64(f.Checks)+none, float64(f.Failures)+none, float64(f.Messages)+none
		if f.Timed == 0 {
			none = math.NaN()
		}
		curves.Lateness[i], curves.Latest[i] = mean(f.Late, f.Timed)+none, f.LateMost.Seconds()+none
		curves.Duration[i], curves.Longest[i] = mean(f.Took, f.Timed)+none, f.TookMost.Seconds()+none
	}
	return curves
}

// rowsOf returns the rows of shards. Points of another number of shards, from before it was changed,
// have none.
func rowsOf(c *activity.Course) []ActivityRow {
	rows := make([]ActivityRow, len(c.Sum.Rows))
	for i := range rows {
		first, last := c.Sum.RowShards(i)
		rows[i] = ActivityRow{First: first, Last: last}
		curves := curvesOf(c, func(s *activity.Sheet) *activity.Figures {
			if s.Shards != c.Sum.Shards || len(s.Rows) != len(rows) {
				return nil
			}
			return &s.Rows[i]
		})
		rows[i].Lateness, rows[i].Latest = curves.Lateness, curves.Latest
	}
	return rows
}

func markWord(k activity.MarkKind) string {
	return map[activity.MarkKind]string{activity.MarkStart: "start", activity.MarkStop: "stop", activity.MarkDeath: "death", activity.MarkBulk: "bulk"}[k]
}
