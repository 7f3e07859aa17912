package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// file is a file that a message carries.
type file struct {
	URL  string `json:"url"` // a path at this connector
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// filesOf returns the file that a line names: "@plan.pdf Here it is" is about the file plan.pdf in the
// folder NAME.files.
func filesOf(dir, account, line string) []file {
	named, ok := strings.CutPrefix(line, "@")
	name, _, _ := strings.Cut(named, " ")
	if !ok || !plainName.MatchString(name) {
		return nil
	}
	stat, err := os.Stat(filepath.Join(dir, account+".files", name))
	if err != nil || !stat.Mode().IsRegular() {
		return nil
	}
	return []file{{"/files/" + account + "/" + name, name, stat.Size()}}
}

// file gives a file to a signed request.
func (c *connector) file(w http.ResponseWriter, r *http.Request) {
	account, name := r.PathValue("account"), r.PathValue("name")
	switch {
	case !signed(c.key, r.Header, nil, time.Now()):
		w.WriteHeader(http.StatusUnauthorized)
	case !plainName.MatchString(account) || !plainName.MatchString(name):
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeFile(w, r, filepath.Join(c.dir, account+".files", name))
	}
}
