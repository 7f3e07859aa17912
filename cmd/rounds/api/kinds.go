package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
)

// Kind is a kind of accounts, and what a form for it needs.
type Kind struct {
	Name     string         `json:"name"`
	Fields   []strict.Field `json:"fields,omitempty" doc:"The fields of its config, in the order in which people fill them in; left out if the kind declares none."`
	Replicas int            `json:"replicas" doc:"How many living pollers check it."`
}

// KindList are the kinds that accounts can have.
type KindList struct {
	Kinds []Kind `json:"kinds" nullable:"false"`
}

type kindsReply struct{ Body KindList }

func (r Intake) addKinds() {
	huma.Register(r.API, huma.Operation{
		OperationID: "list-kinds", Method: http.MethodGet, Path: "/v1/kinds", Tags: []string{"accounts"},
		Summary: "List the kinds of accounts", Description: "The kinds that this process knows, and so can register, with the fields of their configs for a form.",
		Errors: []int{401, 503},
	}, r.listKinds)
}

func (r Intake) listKinds(ctx context.Context, _ *struct{}) (*kindsReply, error) {
	replicas, now, err := r.Ring.Replicas(ctx)
	if err != nil {
		return nil, r.Problem(ctx, "list kinds", err)
	}
	checked, outage := make(map[string]int), r.Ring.LastOutage(now)
	for _, one := range replicas {
		var report accounts.Report
		// A replica of another version may report something else, and is then not counted.
		if !outage.Alive(one.Beat, now, r.DeadAfter) || json.Unmarshal(one.Report, &report) != nil {
			continue
		}
		for _, kind := range report.Kinds {
			checked[kind]++
		}
	}
	list := KindList{Kinds: make([]Kind, len(r.Kinds))}
	for i, k := range r.Kinds {
		list.Kinds[i] = Kind{Name: k.Name, Fields: k.Fields, Replicas: checked[k.Name]}
	}
	return &kindsReply{list}, nil
}
