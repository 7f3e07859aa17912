package pages

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const shardsPath = "/system/reshard"

// system is what the page about the service itself shows.
type system struct {
	System  api.System
	Law     *lawState // nil: it is unknown now
	Backups *backups  // as Law
	Shards  resharding
	Differ  int // settings in which processes differ
	Reshard *reshardForm
}

// resharding is how far a change of the number of shards has got.
type resharding struct{ api.Resharding }

// Moved returns how many accounts have moved.
func (r *resharding) Moved() int { return max(0, r.Accounts-r.Left) }

// Returnable reports whether the change can still be aborted, because no account has moved.
func (r *resharding) Returnable() bool {
	return r.Phase == "moving" && (len(r.Behind) > 0 || r.Left == r.Accounts && r.Transit+r.Kept == 0)
}

// reshardForm is the form that asks for another number of shards.
type reshardForm struct {
	Shards  string
	Plan    *resharding // what a dry run found
	Tight   bool        // a server has too little memory for it
	Refused *problem
}

func systemPage() *page {
	return &page{name: "system", path: "/system", menu: "system", data: showSystem, actions: map[string]action{
		shardsPath:             reshard,
		shardsPath + "/abort":  func(v *visit) (string, error) { return reshardOrder(v, "abort") },
		shardsPath + "/finish": func(v *visit) (string, error) { return reshardOrder(v, "finish") },
	}}
}

// showSystem asks for everything that the page shows. Even without the law or the shards' state the
// page is useful.
func showSystem(v *visit) (any, error) {
	s := &system{Reshard: &reshardForm{}}
	if err := v.shared("/v1/system", &s.System); err != nil {
		return nil, err
	}
	if l := new(lawState); v.shared("/v1/law", l) == nil {
		s.Law = l
	}
	v.ifMay(backupRoute, "/v1/backup:last", &s.Backups)
	if err := v.shared("/v1/reshard", &s.Shards); err != nil {
		s.Shards = resharding{}
	}
	for _, one := range s.System.Settings {
		if one.Differ {
			s.Differ++
		}
	}
	return s, nil
}

// ranges returns ascending numbers in short: 0–21, 40.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := strconv.Itoa(numbers[i])
		if last > i {
			part = fmt.Sprintf("%d–%d", numbers[i], numbers[last])
		}
		parts, i = append(parts, part), last+1
	}
	return strings.Join(parts, ", ")
}

// reshard plans or begins a change of the number of shards, as the form asks.
func reshard(v *visit) (string, error) {
	if !v.May("POST /v1/reshard") {
		return "", refusal(http.StatusForbidden, v.lang.text("system.reshard.forbidden"))
	}
	form := &reshardForm{Shards: v.r.PostForm.Get("shards")}
	begin := v.r.PostForm.Get("do") == "begin"
	shards, err := strconv.Atoi(strings.TrimSpace(form.Shards))
	if err != nil {
		return "", v.reshardAgain(form, refusal(http.StatusUnprocessableEntity, "",
			&api.Fault{Location: "body.shards", Message: v.lang.text("system.reshard.number")}))
	}
	body := api.ReshardRequest{Shards: shards, DryRun: !begin, Force: begin && v.r.PostForm.Get("force") != ""}
	var plan resharding
	err = v.do(http.MethodPost, "/v1/reshard", body, &plan)
	switch refused := refusedFor(err, http.StatusConflict, http.StatusUnprocessableEntity); {
	case refused != nil:
		form.Tight = refused.Status == http.StatusConflict && begin
		return "", v.reshardAgain(form, refused)
	case err != nil:
		return "", err
	case begin:
		return "/system?said=resharding#shards", nil
	}
	form.Plan = &plan
	form.Tight = slices.ContainsFunc(plan.Room, func(r api.Room) bool { return r.Free < r.Need })
	return "", v.reshardAgain(form, nil)
}

// reshardAgain shows the page with a form.
func (v *visit) reshardAgain(form *reshardForm, refused *problem) error {
	data, err := showSystem(v)
	if err != nil {
		return err
	}
	shown, status := data.(*system), http.StatusOK
	if form.Refused = refused; refused != nil {
		status = refused.Status
	}
	shown.Reshard = form
	return &again{status: status, data: shown}
}

// reshardOrder aborts a change, or finishes it.
func reshardOrder(v *visit, what string) (string, error) {
	if err := v.do(http.MethodPost, "/v1/reshard:"+what, nil, nil); err != nil {
		return "", err
	}
	return "/system?said=reshard-" + what + "#shards", nil
}
