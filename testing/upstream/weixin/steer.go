package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
)

// steered returns a handler that serves the fake, and below /fake/ lets anybody play the
// person with the phone:
//
//	POST /fake/bots?token=T                bind a bot without a scan
//	POST /fake/post?token=T&type=text&n=3  send messages to it
//	POST /fake/idle?token=T                have it need notifystart
//	POST /fake/void?token=T                have somebody else bind it
//	GET  /fake/stats?token=T               its numbers
//	GET  /fake/codes                       the codes that may be scanned
//	POST /fake/scan?qrcode=Q&user=U&digits=42
//	POST /fake/redirect?qrcode=Q&host=H    have it go on at another host
//	POST /fake/confirm?qrcode=Q
//	POST /fake/expire?qrcode=Q
//	POST /fake/fail?call=getupdates        with a Fault as JSON: {"Status":524,"Times":3}
//	POST /fake/heal
func steered(w *ilinkd.Server) http.Handler {
	routes := http.NewServeMux()
	routes.Handle("/", w)
	handle := func(pattern string, do func(r *http.Request) (any, bool)) {
		routes.HandleFunc(pattern, func(rw http.ResponseWriter, r *http.Request) {
			done, ok := do(r)
			if !ok {
				http.Error(rw, "there is no such bot or code, or it is not so far", http.StatusConflict)
				return
			}
			rw.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(rw).Encode(done) // a client that has hung up misses nothing
		})
	}
	of := func(name string, do func(r *http.Request, value string) bool) func(r *http.Request) (any, bool) {
		return func(r *http.Request) (any, bool) {
			value := r.FormValue(name)
			return map[string]string{name: value}, do(r, value)
		}
	}
	known := func(do func(r *http.Request, token string)) func(r *http.Request) (any, bool) {
		return of("token", func(r *http.Request, token string) bool {
			if !w.Known(token) {
				return false
			}
			do(r, token)
			return true
		})
	}
	handle("POST /fake/bots", of("token", func(_ *http.Request, token string) bool { w.AddBot(token); return true }))
	handle("POST /fake/post", known(func(r *http.Request, token string) {
		n, err := strconv.Atoi(r.FormValue("n"))
		if err != nil {
			n = 1
		}
		for range min(n, 10_000) {
			w.Post(token, r.FormValue("type"))
		}
	}))
	handle("POST /fake/idle", known(func(_ *http.Request, token string) { w.Idle(token) }))
	handle("POST /fake/void", known(func(_ *http.Request, token string) { w.Void(token) }))
	handle("GET /fake/stats", func(r *http.Request) (any, bool) { return w.Stats(r.FormValue("token")), w.Known(r.FormValue("token")) })
	handle("GET /fake/codes", func(*http.Request) (any, bool) { return w.Codes(), true })
	handle("POST /fake/scan", of("qrcode", func(r *http.Request, code string) bool {
		return w.Scan(code, r.FormValue("user"), r.FormValue("digits"))
	}))
	handle("POST /fake/redirect", of("qrcode", func(r *http.Request, code string) bool { return w.Redirect(code, r.FormValue("host")) }))
	handle("POST /fake/confirm", of("qrcode", func(_ *http.Request, code string) bool { return w.Confirm(code) }))
	handle("POST /fake/expire", of("qrcode", func(_ *http.Request, code string) bool { return w.Expire(code) }))
	handle("POST /fake/fail", func(r *http.Request) (any, bool) {
		var f ilinkd.Fault
		if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<20)).Decode(&f); err != nil {
			return nil, false
		}
		w.Fail(r.URL.Query().Get("call"), f)
		return fmt.Sprintf("%+v", f), true
	})
	handle("POST /fake/heal", func(*http.Request) (any, bool) { w.Heal(); return "healed", true })
	return routes
}
