package moving

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// listLimits bound the JSON of a list before it is decoded.
var listLimits = strict.Limits{Depth: 32, Values: 4_000_000, Within: 3}

// readMiniflux reads the reply to GET /v1/feeds. The fields are those of Feed in
// internal/model/feed.go of Miniflux; what a version adds is not read.
func readMiniflux(text []byte) ([]Entry, error) {
	elements, err := readArray(text)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(elements))
	for _, element := range elements {
		var f struct {
			URL      string `json:"feed_url"`
			Title    string `json:"title"`
			Username string `json:"username"`
			Password string `json:"password"`
			Cookie   string `json:"cookie"`
			Disabled bool   `json:"disabled"`
			Category *struct {
				Title string `json:"title"`
			} `json:"category"`
		}
		e := Entry{Line: element.line}
		if err := json.Unmarshal(element.text, &f); err != nil {
			e.Faults.Add("feed", "is not a feed as Miniflux writes it")
			entries = append(entries, e)
			continue
		}
		folder := ""
		if f.Category != nil {
			folder = f.Category.Title
		}
		one := feed{url: f.URL, title: f.Title, folder: folder, user: f.Username, pass: f.Password, cookie: f.Cookie}
		e = one.entry(element.line)
		if e.Faults != nil {
			e.Faults[0].Field = "feed_url"
		} else {
			e.Paused = f.Disabled
			e.leftOf(element.text, minifluxSettings)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// minifluxSettings change what Miniflux fetches, or what it shows of it.
var minifluxSettings = []string{
	"allow_self_signed_certificates", "block_filter_entry_rules", "blocklist_rules", "crawler", "disable_http2", "fetch_via_proxy", "keep_filter_entry_rules", "keeplist_rules",
	"proxy_url", "rewrite_rules", "scraper_rules", "urlrewrite_rules", "user_agent",
}

// leftOf notes which settings of an object are set.
func (e *Entry) leftOf(object json.RawMessage, settings []string) {
	members, _ := strict.Members(object) // it was decoded
	for _, name := range slices.Sorted(slices.Values(settings)) {
		switch value := strings.TrimSpace(string(members[name])); value {
		case "", "null", "false", `""`, "0", "[]", "{}":
		default:
			e.left(name)
		}
	}
}

// element is an element of a JSON array, with the line on which it begins.
type element struct {
	text json.RawMessage
	line int
}

// readArray reads a JSON array of objects.
func readArray(text []byte) ([]element, error) {
	if _, err := listLimits.Check(text); err != nil {
		return nil, unreadable("it is %v", err)
	}
	count := lines{text: text}
	in := json.NewDecoder(bytes.NewReader(text))
	if open, err := in.Token(); err != nil || open != json.Delim('[') {
		return nil, unreadable("it is not a JSON array")
	}
	var elements []element
	for in.More() {
		// More has skipped what is before the element, but for the comma of the one before.
		start := in.InputOffset()
		for start < int64(len(text)) && strings.IndexByte(", \t\r\n", text[start]) >= 0 {
			start++
		}
		e := element{line: count.to(start)}
		if err := in.Decode(&e.text); err != nil {
			return nil, unreadable("line %d: it is not JSON", e.line)
		}
		if elements = append(elements, e); len(elements) > MaxEntries {
			return nil, errMany
		}
	}
	if _, err := in.Token(); err != nil {
		return nil, unreadable("it ends within the array")
	}
	return elements, nil
}
