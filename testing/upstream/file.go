package upstream

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"strconv"

	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

// File is a file that an account's message names.
type File struct {
	Name string
	Type string // the media type; empty: application/octet-stream
	Data []byte
}

// PostFile adds a message with a file to an account and returns its number. The connector's message
// names it in files, and the item of a feed as an enclosure. As its connector, the account gives it
// only to signed requests, if Options.SigningSecret is set.
func (u *Upstream) PostFile(id string, f File) int {
	n := u.Post(id)
	a := u.account(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.files == nil {
		a.files = make(map[int]*File)
	}
	a.files[n] = &f
	return n
}

// ForgetFile makes an account forget the file of a message.
func (u *Upstream) ForgetFile(id string, n int) {
	a := u.account(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files[n] = nil
}

// FailFiles sets what an account does wrong with files, and ends other faults.
func (u *Upstream) FailFiles(id string, fault Fault) {
	a := u.account(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heal()
	a.fileFault, a.healed = &fault, make(chan struct{})
}

// FileURL returns where the file of an account's message is.
func (u *Upstream) FileURL(id string, n int) string {
	return u.URL("file", id) + "/" + strconv.Itoa(n)
}

// filesIn returns what a connector's message says of its file.
func (u *Upstream) filesIn(id string, n int) []map[string]any {
	a := u.account(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.files[n]
	if f == nil {
		return nil
	}
	return []map[string]any{{"url": u.FileURL(id, n), "name": f.Name, "type": f.mediaType(), "size": len(f.Data)}}
}

func (f *File) mediaType() string { return cmp.Or(f.Type, "application/octet-stream") }

// file gives a file.
func (u *Upstream) file(w http.ResponseWriter, r *http.Request) {
	a := u.account(r.PathValue("id"))
	n, _ := strconv.Atoi(r.PathValue("n"))
	a.mu.Lock()
	f, fault, healed := a.files[n], a.fileFault.next(), a.healed
	a.mu.Unlock()
	switch {
	case !u.signed(nil, r.Header):
		w.WriteHeader(http.StatusUnauthorized)
		return
	case fault != nil && fault.Endless:
		serving.Endless(w, r, healed)
		return
	case fault != nil && !fault.Cut && fault.answer(w, r, healed):
		return
	case f == nil:
		http.Error(w, "no such file: "+r.URL.String(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", f.mediaType())
	w.Header().Set("Content-Length", strconv.Itoa(len(f.Data)))
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Name}))
	if fault != nil && fault.Cut {
		w = serving.Cut(w, func() {})
	}
	_, _ = w.Write(f.Data)
}

// enclosure returns the element of a feed's item for its file.
func (u *Upstream) enclosure(id string, n int) string {
	for _, f := range u.filesIn(id, n) {
		return fmt.Sprintf(`<enclosure url="%s" type="%s" length="%d"/>`, escape(fmt.Sprint(f["url"])), escape(fmt.Sprint(f["type"])), f["size"])
	}
	return ""
}
