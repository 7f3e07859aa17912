package main

import (
	"bytes"
	"encoding/json"
)

// row is a row of panels. The layout follows from their order.
type row struct {
	title  string
	panels []panel
}

// panel is one graph, or one figure where levels are given.
type panel struct {
	title, about, unit string
	queries            []query
	levels             []level // of a figure: from which value on it has which colour
	stacked            bool
}

// query is a PromQL expression and how its series are called.
type query struct{ expr, legend string }

// level is from which value on a figure has a colour; the first has none.
type level struct {
	colour string
	from   float64
}

const (
	boardWidth   = 24
	figureHeight = 4
	figureWidth  = 3
	graphHeight  = 8
	graphWidth   = 8
)

// object is a JSON object. Its keys are written in alphabetical order.
type object map[string]any

// dashboardOf lays rows out, each panel right of the one before as long as there is room.
func dashboardOf(rows []row) object {
	var panels []object
	id, y := 0, 0
	place := func(x, y, width, height int) object { return object{"h": height, "w": width, "x": x, "y": y} }
	for _, r := range rows {
		id++
		panels = append(panels, object{"id": id, "type": "row", "title": r.title, "collapsed": false, "gridPos": place(0, y, boardWidth, 1), "panels": []object{}})
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			width, tall := p.size()
			if x+width > boardWidth {
				x, y, height = 0, y+height, 0
			}
			id++
			drawn := p.drawn()
			drawn["id"], drawn["gridPos"] = id, place(x, y, width, tall)
			panels = append(panels, drawn)
			x, height = x+width, max(height, tall)
		}
		y += height
	}
	return object{
		"title": "rounds", "uid": "rounds", "tags": []string{"rounds"}, "schemaVersion": 39, "version": 1, "editable": true,
		"refresh": "30s", "time": object{"from": "now-3h", "to": "now"}, "timezone": "browser",
		"templating": object{"list": []object{{
			"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": object{}, "hide": 0,
		}}},
		"annotations": object{"list": []object{}}, "links": []object{}, "panels": panels,
	}
}

func (p panel) size() (width, height int) {
	if p.levels != nil {
		return figureWidth, figureHeight
	}
	return graphWidth, graphHeight
}

// drawn is the panel as Grafana has it, but for its number and place.
func (p panel) drawn() object {
	source := object{"type": "prometheus", "uid": "${datasource}"}
	targets := make([]object, len(p.queries))
	for i, q := range p.queries {
		targets[i] = object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend}
	}
	defaults := object{"unit": p.unit, "min": 0}
	if p.stacked {
		defaults["custom"] = object{"stacking": object{"mode": "normal"}, "fillOpacity": 30}
	}
	drawn := object{
		"type": "timeseries", "title": p.title, "description": p.about, "datasource": source, "targets": targets,
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}},
		"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}},
	}
	if p.levels != nil {
		steps := make([]object, len(p.levels))
		for i, l := range p.levels {
			steps[i] = object{"color": l.colour, "value": l.from}
			if i == 0 {
				steps[i]["value"] = nil
			}
		}
		defaults["thresholds"] = object{"mode": "absolute", "steps": steps}
		drawn["type"] = "stat"
		drawn["options"] = object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "colorMode": "background"}
	}
	return drawn
}

// encode writes a dashboard as it is kept.
func encode(dashboard object) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(dashboard)
	return text.Bytes(), err
}
