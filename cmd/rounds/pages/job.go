package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	jobsPath = "/jobs"
	jobPath  = "/job"

	// jobWait is how long the page waits for a job to end before it is shown. Most jobs are
	// small, and a page without JavaScript then shows their end at once.
	jobWait  = 2 * time.Second
	jobLooks = 100 * time.Millisecond
)

// shownJob is a change of many accounts that goes on in the background.
type shownJob struct {
	api.Job
	Selects []choiceOf
	Sets    []string // the values that it sets, such as "cadence: every 5m"
	Which   string   // the list of the selected accounts
	May     bool     // the visitor may stop it, resume it and take it back
}

// Sign returns the colour of the job's state.
func (j *shownJob) Sign() string {
	switch j.State {
	case "ended":
		return "good"
	case "running":
		return ""
	}
	return "warn"
}

// CanStop, CanResume and CanUndo report what the visitor may do with the job now.
func (j *shownJob) CanStop() bool { return j.May && j.State == "running" }

// CanResume reports whether the job can go on.
func (j *shownJob) CanResume() bool { return j.May && j.State == "stopped" && j.Undone == "" }

// CanUndo reports whether the job can be taken back.
func (j *shownJob) CanUndo() bool { return j.May && time.Now().Before(j.UndoUntil) }

func newShownJob(v *visit, j *api.Job) *shownJob {
	chosen := url.Values(j.Select)
	s := &shownJob{Job: *j, Which: address("/accounts", chosen), May: v.May("POST /v1/accounts:" + string(j.Action))}
	s.Selects = chipsOf(chosen, func(string, []string) string { return "" })
	set, _ := j.Set.(map[string]any)
	for _, name := range []string{"cadence", "priority"} {
		if value, ok := set[name]; ok {
			s.Sets = append(s.Sets, v.lang.text("column."+name)+": "+textOr(value, v.lang.text("job.default")))
		}
	}
	labels, _ := set["labels"].(map[string]any)
	for name, value := range labels {
		if value == nil {
			s.Sets = append(s.Sets, v.lang.text("job.unlabel", name))
			continue
		}
		s.Sets = append(s.Sets, v.lang.text("column.labels")+": "+name+"="+textOr(value, ""))
	}
	slices.Sort(s.Sets)
	return s
}

func textOr(value any, otherwise string) string {
	if text, ok := value.(string); ok {
		return text
	}
	return otherwise
}

func jobsPage() *page {
	return &page{name: "jobs", path: jobsPath, menu: "accounts", data: func(v *visit) (any, error) { return v.jobs(func(*api.Job) bool { return true }) }}
}

// jobs returns the wanted jobs, the latest first.
func (v *visit) jobs(wanted func(*api.Job) bool) ([]*shownJob, error) {
	var list api.JobList
	err := v.shared("/v1/jobs", &list)
	var jobs []*shownJob
	for i := range list.Jobs {
		if wanted(&list.Jobs[i]) {
			jobs = append(jobs, newShownJob(v, &list.Jobs[i]))
		}
	}
	return jobs, err
}

func jobPage() *page {
	return &page{
		name: "job", path: jobPath, menu: "accounts",
		data: func(v *visit) (any, error) {
			var j api.Job
			if err := v.get(pathOfJob(v.Query("id")), &j); err != nil {
				return nil, err
			}
			return newShownJob(v, &j), nil
		},
		actions: map[string]action{jobPath: changeJob},
	}
}

func pathOfJob(id string) string { return "/v1/jobs/" + url.PathEscape(id) }

// changeJob stops a job, resumes it or takes it back.
func changeJob(v *visit) (string, error) {
	do := v.r.PostForm.Get("do")
	if !slices.Contains([]string{"stop", "resume", "undo"}, do) {
		return "", refusal(http.StatusUnprocessableEntity, v.lang.text("bulk.unknown"))
	}
	var j api.Job
	if err := v.do(http.MethodPost, pathOfJob(v.r.PostForm.Get("id"))+"/"+do, nil, &j); err != nil {
		return "", err
	}
	v.settled(j.ID)
	return link(jobPath, "id", j.ID), nil
}

// settled waits a moment for a job to end.
func (v *visit) settled(id string) {
	look := time.NewTicker(jobLooks)
	defer look.Stop()
	for range int(jobWait / jobLooks) {
		var j api.Job
		if err := v.get(pathOfJob(id), &j); err != nil || j.State == "ended" || j.State == "stopped" {
			return // the page says what is wrong
		}
		select {
		case <-v.r.Context().Done():
			return
		case <-look.C:
		}
	}
}

// setQuery adds the values that the form sets to the API's parameters. A field that was left
// empty stays as it is.
func (b *bulk) setQuery(q url.Values) {
	for name, value := range map[string]string{"cadence": b.Set.Cadence, "priority": b.Set.Priority} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, text := range map[string]string{"set_label": b.Set.Labels, "remove_label": b.Set.Unlabel} {
		for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == ',' }) {
			if line = strings.TrimSpace(line); line != "" {
				q.Add(name, line)
			}
		}
	}
}

// orderBulk has the confirmed change done as a job. If the API refuses the values, the form is
// shown again.
func orderBulk(v *visit) (string, error) {
	b, err := readBulk(v, v.r.PostForm)
	if err != nil {
		return "", err
	}
	q := b.query()
	q.Set("job", "true")
	if b.Paced() {
		q.Set("rate", b.Rate)
	}
	b.setQuery(q)
	var j api.Job
	err = v.do(http.MethodPost, address("/v1/accounts:"+b.Do, q), nil, &j)
	if refused := refusedFor(err, http.StatusUnprocessableEntity); refused != nil {
		shown, askErr := askBulk(v, v.r.PostForm)
		if askErr != nil {
			return "", err
		}
		shown.Refused = refused
		return "", &again{http.StatusUnprocessableEntity, shown}
	}
	if err != nil {
		return "", err
	}
	v.settled(j.ID)
	return link(jobPath, "id", j.ID), nil
}
