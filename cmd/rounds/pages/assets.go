package pages

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// static serves the files that pages load. Their addresses have a digest of all files, so a browser
// may cache them for ever, and a new version is loaded as a whole.
type static struct {
	prefix string // /assets/DIGEST/
	files  map[string][]byte
}

// newStatic reads the files. All style sheets are one: css/base.css and then the others by name.
func newStatic(files fs.FS) (*static, error) {
	s := &static{files: make(map[string][]byte)}
	sum := sha256.New()
	err := fs.WalkDir(files, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		short := strings.TrimPrefix(name, "assets/")
		folder, _, _ := strings.Cut(short, "/")
		if folder != "css" && folder != "js" && folder != "vendor" && folder != "img" {
			return nil
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		_, _ = sum.Write(append([]byte(name+"\x00"), content...)) // a hash takes everything
		switch {
		case short == "css/base.css":
			s.files["style.css"] = append(bytes.Clone(content), s.files["style.css"]...)
		case folder == "css":
			s.files["style.css"] = append(s.files["style.css"], content...)
		default:
			s.files[short] = content
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.prefix = "/assets/" + hex.EncodeToString(sum.Sum(nil)[:6]) + "/"
	return s, nil
}

func (s *static) has(name string) bool {
	_, ok := s.files[name]
	return ok
}

// At returns the address of a file, such as js/main.js.
func (s *static) At(name string) string { return s.prefix + name }

// ServeHTTP serves a file.
func (s *static) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, s.prefix)
	content, known := s.files[name]
	if !ok || !known {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	switch path.Ext(name) { // the machine's own table may be wrong
	case ".js", ".mjs":
		h.Set("Content-Type", "text/javascript; charset=utf-8")
	case ".css":
		h.Set("Content-Type", "text/css; charset=utf-8")
	case ".svg":
		h.Set("Content-Type", "image/svg+xml")
	default:
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}
