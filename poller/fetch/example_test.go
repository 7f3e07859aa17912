package fetch_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// A client calls addresses that strangers chose. It refuses private ones, whatever name leads to
// them, and bounds every answer.
func ExampleClient_Do() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "a letter of 22 letters")
	}))
	defer server.Close()

	// The server is on loopback.
	lenient := fetch.New(fetch.Options{AllowPrivate: true})
	defer lenient.Close()
	answer, err := lenient.Do(context.Background(), fetch.Call{URL: server.URL, MaxBody: 1 << 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d %s\n", answer.Status, answer.Body)

	// A checker returns what CheckError says of a failed call.
	_, err = lenient.Do(context.Background(), fetch.Call{URL: server.URL, MaxBody: 10})
	failed := fetch.CheckError(err)
	fmt.Println(failed.Kind == poller.Protocol, failed.Code)

	client := fetch.New(fetch.Options{})
	defer client.Close()
	_, err = client.Do(context.Background(), fetch.Call{URL: server.URL, MaxBody: 1 << 10})
	fmt.Println(fetch.CheckError(err).Code)
	// Output:
	// 200 a letter of 22 letters
	// true too_large
	// refused_address
}

// A file is read while it comes. Its name, its type and its errors can be shown.
func ExampleClient_File() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/plan" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/pdf")
		w.Header().Set("Content-Disposition", `attachment; filename="../plan.pdf"`)
		_, _ = fmt.Fprint(w, "a plan")
	}))
	defer server.Close()
	client := fetch.New(fetch.Options{AllowPrivate: true}) // the server is on loopback
	defer client.Close()

	body, err := client.File(context.Background(), "the host", fetch.Call{URL: server.URL + "/plan"})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := io.ReadAll(io.LimitReader(body, 100<<20))
	fmt.Println(body.Name, body.Type, body.Size, string(text), err, body.Close())

	_, err = client.File(context.Background(), "the host", fetch.Call{URL: server.URL + "/other?token=secret"})
	fmt.Println(err)
	// Output:
	// plan.pdf application/pdf 6 a plan <nil> <nil>
	// gone: file_gone: the host has the file no more: it answered 404 Not Found
}
