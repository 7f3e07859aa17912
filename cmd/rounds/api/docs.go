package api

import (
	"embed"
	"net/http"

	"github.com/rounds-dev/rounds/cmd/rounds/locale"
)

// The page is our own and small. It works without the internet, and under a policy that allows
// nothing else.
//
//go:embed assets
var assets embed.FS

// GuidePath is where the guide is shown.
const GuidePath = "/docs/guide"

const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// docs serves the page at /docs, which renders /openapi.json, and its files. The page is in the
// language that the browser asks for. The descriptions of routes are English.
func docs(w http.ResponseWriter, r *http.Request) {
	name, contentType := "docs.html", "text/html; charset=utf-8"
	switch r.PathValue("file") {
	case "":
		w.Header().Set("Vary", "Accept-Language")
		if locale.Asked(r.Header) == locale.Chinese {
			name = "docs.zh.html"
		}
	case "docs.css":
		name, contentType = "docs.css", "text/css; charset=utf-8"
	case "docs.js":
		name, contentType = "docs.js", "text/javascript; charset=utf-8"
	default:
		newErrorReply(http.StatusNotFound, "there is no such page").write(w, r)
		return
	}
	page, err := assets.ReadFile("assets/" + name)
	if err != nil {
		newErrorReply(http.StatusNotFound, "there is no such page").write(w, r)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Security-Policy", docsPolicy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(page) // a caller that has gone needs no answer
}
