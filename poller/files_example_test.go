package poller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rounds-dev/rounds/poller"
)

// charts is a kind whose messages carry files.
type charts struct{ tides }

// chartIn returns what a message says of its chart. Strangers wrote it.
func chartIn(m *poller.Message) (chart struct{ Name, Text string }) {
	_ = json.Unmarshal(m.Data, &chart) // what cannot be read has no chart
	return chart
}

func (charts) Files(m *poller.Message) []poller.File {
	chart := chartIn(m)
	if chart.Name == "" {
		return nil
	}
	return []poller.File{poller.CleanFile(poller.File{Name: chart.Name, Type: "image/svg+xml; charset=utf-8"})}
}

func (charts) Forgets() bool { return false }

// FetchFile reads the chart. A kind over HTTP returns fetch.Client.File in its place, which is read
// while it comes.
func (c charts) FetchFile(_ context.Context, r poller.FileRequest) (*poller.FileBody, error) {
	if r.File != 0 || len(c.Files(r.Message)) == 0 {
		return nil, poller.NoFile("no_file", "the message has no such file")
	}
	return &poller.FileBody{ReadCloser: io.NopCloser(strings.NewReader(chartIn(r.Message).Text))}, nil
}

// The files of a message are listed from its data at any time, and fetched one by one.
func ExampleFileKeeper() {
	var keeper poller.FileKeeper = charts{}
	m := poller.Message{ID: "1", Data: json.RawMessage(`{"name":"../../harbour.svg","text":"<svg/>"}`)}
	for n, file := range keeper.Files(&m) {
		body, err := keeper.FetchFile(context.Background(), poller.FileRequest{Account: "harbour", Message: &m, File: n})
		if err != nil {
			fmt.Println(err)
			return
		}
		bytes, err := io.ReadAll(io.LimitReader(body, 100<<20))
		if err := body.Close(); err != nil {
			fmt.Println(err)
		}
		fmt.Println(file.Name, file.Type, string(bytes), err)
	}
	_, err := keeper.FetchFile(context.Background(), poller.FileRequest{Account: "harbour", Message: &m, File: 1})
	fmt.Println(err)
	// Output:
	// harbour.svg image/svg+xml <svg/> <nil>
	// gone: no_file: the message has no such file
}
