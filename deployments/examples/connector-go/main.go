// Command connector-go is a connector for rounds in Go, with the standard library alone.
//
// It reports the lines of text files: an account NAME has the file NAME.log in a
// directory, and each of its lines is a message. All state is in the cursor, which is
// the number of bytes read so far, so any number of copies may run. A text that is sent
// to an account becomes a file in NAME.sent. A line that begins with @FILE carries the
// file of that name in NAME.files.
//
//	export CONNECTOR_SECRET=whsec_$(head -c 24 /dev/urandom | base64)
//	go run ./deployments/examples/connector-go --dir /var/log/inbox --port 9000
package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

const maxRequest = 1 << 20 // bytes

func main() {
	dir := flag.String("dir", ".", "where the files are")
	host := flag.String("host", "127.0.0.1", "the address to listen on")
	port := flag.String("port", "9000", "the port to listen on; 0: any")
	flag.Parse()
	if err := run(*dir, net.JoinHostPort(*host, *port)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir, address string) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("CONNECTOR_SECRET"), "whsec_"))
	if err != nil || len(key) == 0 {
		return errors.New("CONNECTOR_SECRET must hold base64, with or without whsec_ before it")
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String() + "/")
	c := &connector{dir, key}
	routes := http.NewServeMux()
	routes.Handle("/", c)
	routes.HandleFunc("GET /files/{account}/{name}", c.file)
	server := &http.Server{Handler: routes, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	return server.Serve(listener)
}

type connector struct {
	dir string
	key []byte
}

// request holds the fields of a request that this connector needs.
type request struct {
	Account struct {
		ID string `json:"id"`
	} `json:"account"`
	Cursor *int64 `json:"cursor"` // nil at first
	Limit  int    `json:"limit"`
}

type page struct {
	Messages    []message `json:"messages"`
	NextCursor  int64     `json:"next_cursor"`
	HasMore     bool      `json:"has_more"`
	CursorReset bool      `json:"cursor_reset"`
}

type message struct {
	ID   string    `json:"id"`
	Type string    `json:"type"`
	Time time.Time `json:"time"`
	Data data      `json:"data"`
}

type data struct {
	Text  string `json:"text"`
	Files []file `json:"files,omitempty"`
}

// failure is an error of the account, which rounds acts on by its kind.
type failure struct {
	Kind    string `json:"kind"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (f failure) Error() string { return f.Message }

func fail(kind, message string) error { return failure{kind, kind, message} }

func (c *connector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	if !signed(c.key, r.Header, body, time.Now()) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.URL.Path == "/send" {
		c.send(w, body)
		return
	}
	var asked request
	if err := json.Unmarshal(body, &asked); err != nil {
		// This connector never returned a cursor of another form.
		var form *json.UnmarshalTypeError
		if errors.As(err, &form) && form.Field == "cursor" {
			reply(w, map[string]any{"error": failure{"cursor_invalid", "cursor_invalid", "the cursor must be a number of bytes"}})
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if asked.Limit < 1 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	found, err := check(c.dir, asked)
	switch {
	case err != nil:
		refuse(w, err)
	case found == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		reply(w, found)
	}
}

// send answers a request to the send_url.
func (c *connector) send(w http.ResponseWriter, body []byte) {
	var asked sendRequest
	if json.Unmarshal(body, &asked) != nil || !plainID.MatchString(asked.SendID) || asked.To == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if err := send(c.dir, asked); err != nil {
		refuse(w, err)
		return
	}
	reply(w, map[string]string{"id": asked.SendID})
}

func refuse(w http.ResponseWriter, err error) {
	var refused failure
	if errors.As(err, &refused) {
		reply(w, map[string]any{"error": refused})
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable) // the fault is ours, not the account's
}

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // after an error the caller has gone
}
