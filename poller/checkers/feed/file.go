package feed

import (
	"context"
	"encoding/json"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

var _ poller.FileKeeper = (*Checker)(nil)

// enclosed is an enclosure that is a file.
type enclosed struct {
	file poller.File
	url  string
}

// Files returns the enclosures of an item.
func (*Checker) Files(m *poller.Message) []poller.File {
	return message.FilesOf(enclosedIn(m), func(e *enclosed) poller.File { return e.file })
}

// Forgets is false: most feeds name files that stay, and very large ones.
func (*Checker) Forgets() bool { return false }

// enclosedIn returns the enclosures of an item whose addresses can be called.
func enclosedIn(m *poller.Message) (all []enclosed) {
	var listed []json.RawMessage
	if json.Unmarshal(message.Fields(m)["enclosures"], &listed) != nil {
		return nil
	}
	for _, raw := range listed {
		var e enclosure
		if json.Unmarshal(raw, &e) != nil || len(e.URL) > maxLine || !strings.HasPrefix(e.URL, "https://") && !strings.HasPrefix(e.URL, "http://") {
			continue
		}
		f := poller.File{Type: e.Type}
		if u, err := url.Parse(e.URL); err == nil {
			f.Name = path.Base(u.Path)
		}
		f.Size, _ = strconv.ParseInt(strings.TrimSpace(e.Length), 10, 64) // many feeds have none, or 0
		if all = append(all, enclosed{poller.CleanFile(f), e.URL}); len(all) == poller.MaxFiles {
			break
		}
	}
	return all
}

// FetchFile fetches an enclosure. The config's login and headers are sent only to the feed's own scheme,
// host and port. All its errors are *poller.CheckError.
func (c *Checker) FetchFile(ctx context.Context, r poller.FileRequest) (*poller.FileBody, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return nil, poller.ConfigError(err)
	}
	file, failed := message.FileAt(enclosedIn(r.Message), r)
	if failed != nil {
		return nil, failed
	}
	call := fetch.Call{URL: file.url, MaxRedirects: maxRedirects}
	if fetch.SameOrigin(config.url, file.url) {
		use := secrets.ForURL(Kind, file.url)
		header, sent, err := config.headers.Resolve(ctx, c.secrets, use)
		if err != nil {
			return nil, secrets.CheckError(err)
		}
		call.Header, call.Confined = header, len(sent) > 0 && use.Open()
	}
	return c.client.File(ctx, "the file's host", call)
}
