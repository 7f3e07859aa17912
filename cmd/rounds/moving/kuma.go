package moving

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// monitor is what is read of a monitor: of toJSON in server/model/monitor.js of Uptime Kuma 1.23,
// or of a row of the table monitor.
type monitor struct {
	ID       json.Number `json:"id"`
	Name     string      `json:"name"`
	Type     string      `json:"type"`
	URL      string      `json:"url"`
	Method   string      `json:"method"`
	Interval int64       `json:"interval"`
	Parent   json.Number `json:"parent"`
	Active   any         `json:"active"` // true, or 1 in a row; missing: true
	User     string      `json:"basic_auth_user"`
	Pass     string      `json:"basic_auth_pass"`
	Tags     []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"tags"`
	line int
	text json.RawMessage
}

// errDatabase says how the monitors of a database become a list.
var errDatabase = errors.New("it is a database; to convert it: sqlite3 -json kuma.db 'SELECT * FROM monitor' > monitors.json")

// readKuma reads a backup, or rows. A monitor of which rounds can do what it is for, to find what is
// new, is that of a feed. Others say whether something is up, which is no message.
func readKuma(text []byte) ([]Entry, error) {
	if bytes.HasPrefix(text, []byte("SQLite")) {
		return nil, unreadable("%v", errDatabase)
	}
	list, before := bytes.TrimLeft(text, " \t\r\n"), 0
	if bytes.HasPrefix(list, []byte("{")) {
		if _, err := listLimits.Check(text); err != nil {
			return nil, unreadable("it is %v", err)
		}
		var backup struct {
			Monitors json.RawMessage `json:"monitorList"`
		}
		if err := json.Unmarshal(text, &backup); err != nil {
			return nil, unreadable("it is not JSON")
		}
		if backup.Monitors == nil {
			return nil, unreadable("it has no monitorList")
		}
		// The list is a part of the text: its lines count from there.
		if at := bytes.Index(text, backup.Monitors); at > 0 {
			before = bytes.Count(text[:at], []byte("\n"))
		}
		list = backup.Monitors
	} else {
		before = bytes.Count(text[:len(text)-len(list)], []byte("\n"))
	}
	elements, err := readArray(list)
	if err != nil {
		return nil, err
	}
	monitors := make([]monitor, len(elements))
	names := make(map[string]*monitor, len(elements))
	for i, e := range elements {
		m := &monitors[i]
		if err := json.Unmarshal(e.text, m); err != nil {
			*m = monitor{}
		}
		m.line, m.text = e.line+before, e.text
		names[m.ID.String()] = m
	}
	var entries []Entry
	for i := range monitors {
		if e, ok := monitors[i].entry(names); ok {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// entry returns the entry of a monitor that is no mere group.
func (m *monitor) entry(all map[string]*monitor) (Entry, bool) {
	e := Entry{Line: m.line}
	switch {
	case m.Type == "":
		e.Faults.Add("monitor", "is not a monitor as Uptime Kuma writes it")
	case m.Type == "group":
		return e, false
	case m.Type != "http" && m.Type != "keyword" && m.Type != "json-query":
		e.Faults.Add("type", fmt.Sprintf("is %.20q: rounds finds messages, and does not say whether something is up", m.Type))
	case m.Method != "" && !strings.EqualFold(m.Method, "GET"):
		e.Faults.Add("method", "must be GET: a feed is not asked otherwise")
	case !looksLikeFeed(m.URL):
		e.Faults.Add("url", "does not look like a feed's: rounds finds messages, and does not say whether a page is up. If it is a feed, add it by itself")
	}
	if e.Faults != nil {
		return e, true
	}
	one := feed{url: m.URL, title: m.Name, folder: m.folder(all), user: m.User, pass: m.Pass, labels: m.labels()}
	if e = one.entry(m.line); e.Faults != nil {
		return e, true
	}
	if m.Interval != 0 {
		rhythm, err := seconds(m.Interval)
		if err != nil {
			e.Faults.Add("interval", err.Error())
			return e, true
		}
		e.Account.Cadence = rhythm
	}
	switch active := m.Active.(type) {
	case bool:
		e.Paused = !active
	case float64:
		e.Paused = active == 0
	}
	e.leftOf(m.text, []string{"body", "expectedValue", "expected_value", "headers", "ignoreTls", "ignore_tls", "invertKeyword", "jsonPath", "json_path", "keyword", "oauth_client_id", "proxyId", "proxy_id", "tlsCert", "tls_cert", "upsideDown", "upside_down"})
	return e, true
}

// folder returns the names of the groups around a monitor.
func (m *monitor) folder(all map[string]*monitor) string {
	var names []string
	for group := all[m.Parent.String()]; group != nil && group.Type == "group" && len(names) < maxDepth; group = all[group.Parent.String()] {
		names = append(names, group.Name)
	}
	slices.Reverse(names)
	return joinFolders(names)
}

// labels returns the tags of a monitor. One without a value says "true".
func (m *monitor) labels() map[string]string {
	labels := make(map[string]string)
	for _, tag := range m.Tags {
		name, value := labelText(tag.Name), labelText(tag.Value)
		if value == "" {
			value = "true"
		}
		if name != "" && len(labels) < maxTags {
			labels[name] = value
		}
	}
	return labels
}

// maxTags leaves room for title and folder among the labels.
const maxTags = 60

// looksLikeFeed reports whether the last parts of a URL are such as feeds have.
func looksLikeFeed(text string) bool {
	u, err := url.Parse(strings.ToLower(strings.TrimSpace(text)))
	if err != nil {
		return false
	}
	switch path.Ext(u.Path) {
	case ".xml", ".rss", ".atom", ".rdf":
		return true
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	parts = append(parts[max(0, len(parts)-2):], u.Query().Get("type"), u.Query().Get("format"), u.Query().Get("feed"))
	return slices.ContainsFunc(parts, func(part string) bool {
		switch part {
		case "feed", "feeds", "rss", "rss2", "atom", "feed.json":
			return true
		}
		return false
	})
}
