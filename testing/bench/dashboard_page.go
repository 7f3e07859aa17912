package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// browser asks as a browser does: it keeps connections, takes what is compressed, and shows
// how many bytes came.
var browser = &http.Client{
	Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 2 * viewers},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// pages returns the addresses of all pages, some of them with filters. Each must be there.
func (b *dashboardBench) pages(ctx context.Context, base string) ([]dashboardPage, error) {
	var failing, healthy struct {
		Accounts []struct {
			ID string `json:"id"`
		} `json:"accounts"`
	}
	if err := getJSON(ctx, base+"/v1/accounts?state=failing&limit=1", &failing); err != nil {
		return nil, err
	}
	if err := getJSON(ctx, base+"/v1/accounts?state=scheduled&limit=1", &healthy); err != nil {
		return nil, err
	}
	var problems struct {
		Groups []struct {
			Select map[string][]string `json:"select"`
		} `json:"groups"`
	}
	if err := getJSON(ctx, base+"/v1/problems", &problems); err != nil {
		return nil, err
	}
	var found struct {
		Messages []struct {
			Shard    int    `json:"shard"`
			Position string `json:"position"`
		} `json:"messages"`
	}
	if err := getJSON(ctx, base+"/v1/messages?before=now&limit=1", &found); err != nil {
		return nil, err
	}
	if len(failing.Accounts) == 0 || len(healthy.Accounts) == 0 || len(found.Messages) == 0 || len(problems.Groups) == 0 {
		return nil, errors.New("there is no account, group or message to look at")
	}
	group := url.Values(problems.Groups[0].Select).Encode()
	pages := []dashboardPage{
		{"overview", "/"},
		{"problems", "/problems"},
		{"accounts", "/accounts"},
		{"accounts_failing", "/accounts?state=failing"},
		{"accounts_of_group", "/accounts?" + group},
		{"accounts_parked", "/accounts?state=parked"},
		{"accounts_kind", "/accounts?kind=http"},
		{"accounts_label", "/accounts?label=team%3Dteam-7"},
		{"accounts_host_error", "/accounts?host=trouble-3.example.net&error=http_404"},
		{"accounts_since", "/accounts?since=48h"},
		{"accounts_late", "/accounts?state=late"},
		{"accounts_part", "/accounts?part=" + healthy.Accounts[0].ID[len(healthy.Accounts[0].ID)-6:]},
		{"account", "/account?id=" + healthy.Accounts[0].ID},
		{"account_failing", "/account?id=" + failing.Accounts[0].ID},
		{"account_edit", "/account/edit?id=" + failing.Accounts[0].ID},
		{"account_new", "/account/new"},
		{"messages", "/messages"},
		{"message", "/message?at=" + url.QueryEscape(fmt.Sprint(found.Messages[0].Shard, ":", found.Messages[0].Position))},
		{"delivery", "/delivery"},
		{"limits", "/limits"},
		{"system", "/system"},
	}
	if len(b.only) > 0 {
		pages = slices.DeleteFunc(pages, func(p dashboardPage) bool { return !slices.Contains(b.only, p.name) })
	}
	var missing error
	for i, page := range pages {
		pages[i].address = base + page.address
		_, reply, err := receive(ctx, pages[i].address)
		if err == nil {
			_, text, broken := unpacked(reply)
			if err = broken; err == nil && (!bytes.Contains(text, []byte(`<main`)) || !bytes.Contains(text, []byte(`</html>`))) {
				err = fmt.Errorf("%s is no whole page", page.address)
			}
		}
		missing = errors.Join(missing, err)
	}
	return pages, missing
}

// dashboardPage is a page, with the name that its figures have.
type dashboardPage struct{ name, address string }

func pathOf(page string) string {
	u, err := url.Parse(page)
	if err != nil {
		return page
	}
	return u.RequestURI()
}

// receive asks for something as a browser does. It returns how long the first byte took, and the
// body as it came. Anything but 200 is an error.
func receive(ctx context.Context, address string) (first time.Duration, reply received, err error) {
	began := time.Now()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { first = time.Since(began) }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, received{}, err
	}
	request.Header.Set("Accept-Encoding", "gzip")
	request.Header.Set("Accept-Language", "en")
	answer, err := browser.Do(request)
	if err != nil {
		return 0, received{}, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s is answered %s", pathOf(address), answer.Status)
	}
	return first, received{body, answer.Header}, err
}

// received is a body as it came.
type received struct {
	body   []byte
	header http.Header
}

// unpacked returns the content type and the text of a body.
func unpacked(r received) (contentType string, text []byte, err error) {
	contentType, _, _ = strings.Cut(r.header.Get("Content-Type"), ";")
	if r.header.Get("Content-Encoding") != "gzip" {
		return contentType, r.body, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(r.body))
	if err != nil {
		return contentType, nil, err
	}
	text, err = io.ReadAll(reader)
	return contentType, text, err
}

var (
	// inPages are the attributes with which a page loads something. Links are not among them.
	inPages = regexp.MustCompile(`<(?:link|script|img|source|iframe|use)\b[^>]*?\b(?:href|src)="([^"]+)"|\bdata-source="([^"]+)"`)
	// inModules and inStyles are what modules and styles load.
	inModules = regexp.MustCompile(`(?:\bfrom|\bimport)\s*\(?\s*"([^"]+)"`)
	inStyles  = regexp.MustCompile(`url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)`)
)

// weigh returns how many bytes a browser receives for a page, headers aside: the page and all
// that it loads, and what that loads.
func weigh(ctx context.Context, page string) (bytes int, err error) {
	seen := map[string]bool{page: true}
	for queue := []string{page}; len(queue) > 0; queue = queue[1:] {
		at, err := url.Parse(queue[0])
		if err != nil {
			return 0, err
		}
		_, reply, err := receive(ctx, queue[0])
		if err != nil {
			return 0, err
		}
		bytes += len(reply.body)
		contentType, text, err := unpacked(reply)
		if err != nil {
			return 0, err
		}
		wanted := map[string]*regexp.Regexp{"text/html": inPages, "text/javascript": inModules, "text/css": inStyles}[contentType]
		if wanted == nil {
			continue
		}
		for _, match := range wanted.FindAllStringSubmatch(string(text), -1) {
			for _, address := range match[1:] {
				address = strings.ReplaceAll(address, "&amp;", "&")
				to, err := at.Parse(address)
				if err != nil {
					return 0, fmt.Errorf("%s loads %q: %w", pathOf(queue[0]), address, err)
				}
				to.Fragment = ""
				if address != "" && to.Scheme == "http" && !seen[to.String()] {
					seen[to.String()] = true
					queue = append(queue, to.String())
				}
			}
		}
	}
	return bytes, nil
}

// watch opens the Overview so many times, as browsers do that show it: each listens to its
// live stream, opens it again when it ends, and loads the data of the charts again. The
// returned function waits until all have left, once ctx is done.
func watch(ctx context.Context, base string, viewers int) (left func() error) {
	var all sync.WaitGroup
	errs := make(chan error, 2*viewers)
	for range viewers {
		all.Go(func() { errs <- looks(ctx, base) })
		all.Go(func() { errs <- draws(ctx, base) })
	}
	return func() error {
		all.Wait()
		close(errs)
		var joined error
		for err := range errs {
			joined = errors.Join(joined, err)
		}
		return joined
	}
}

// looks opens the Overview and its live stream until ctx is done.
func looks(ctx context.Context, base string) error {
	if _, _, err := receive(ctx, base+"/"); err != nil {
		return unlessDone(ctx, err)
	}
	for {
		swaps, err := listen(ctx, base+"/live/")
		if err == nil && swaps == 0 {
			err = errors.New("the live stream of the Overview shows nothing")
		}
		if err != nil {
			return unlessDone(ctx, err)
		}
		if pause(ctx, time.Second) != nil {
			return nil
		}
	}
}

// listen reads a live stream to its end, and returns how many blocks changed.
func listen(ctx context.Context, address string) (swaps int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Accept", "text/event-stream")
	answer, err := browser.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s is answered %s", pathOf(address), answer.Status)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch lines.Text() {
		case "event: swap":
			swaps++
		case "event: away":
			return swaps, errors.New("the live stream of the Overview says that the service is away")
		}
	}
	return swaps, lines.Err()
}

// draws loads the data of the Overview's charts, and again after each step of theirs.
func draws(ctx context.Context, base string) error {
	_, reply, err := receive(ctx, base+"/")
	if err != nil {
		return unlessDone(ctx, err)
	}
	_, text, err := unpacked(reply)
	if err != nil {
		return err
	}
	source := regexp.MustCompile(`data-source="([^"]+)"`).FindSubmatch(text)
	if source == nil {
		return errors.New("the Overview has no charts")
	}
	for {
		_, reply, err := receive(ctx, base+strings.ReplaceAll(string(source[1]), "&amp;", "&"))
		if err != nil {
			return unlessDone(ctx, err)
		}
		_, text, err := unpacked(reply)
		if err != nil {
			return err
		}
		var chart struct {
			Step float64 `json:"step_seconds"`
		}
		if err := json.Unmarshal(text, &chart); err != nil {
			return err
		}
		if pause(ctx, time.Duration(min(max(chart.Step, 10), 300)*float64(time.Second))) != nil {
			return nil
		}
	}
}

func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// awaitServed waits until the service is ready.
func awaitServed(ctx context.Context, base string) error {
	for end := time.Now().Add(30 * time.Second); ; {
		_, _, err := receive(ctx, base+"/readyz")
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// leaveGroup makes a consumer group that has read some messages.
func leaveGroup(ctx context.Context, base string) error {
	body := `{"from":"start","limit":10,"leave":true}`
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/groups/archive/read", strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := browser.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("a consumer group is answered %s", answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
