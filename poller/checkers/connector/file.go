package connector

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	maxFileURL    = 8 << 10 // bytes
	fileRedirects = 5
	maxTrialFile  = 8 << 20 // bytes of a file that a verification reads
)

var _ poller.FileKeeper = (*Checker)(nil)

// linked is a file that a message names.
type linked struct {
	file poller.File
	url  string // it may be a path of the connector's own host
}

// fileURL is the form of a file's address. Two slashes at its beginning would lead to another host.
var fileURL = regexp.MustCompile(`^(https?://|/($|[^/\\]))`)

// at returns a file's address.
func (l *linked) at(connector string) string {
	if !strings.HasPrefix(l.url, "/") {
		return l.url
	}
	base, err := url.Parse(connector)
	if err != nil {
		return l.url // a config that was read has a URL
	}
	return base.Scheme + "://" + base.Host + l.url
}

// Files returns the files that a message's data names in files. An element that is none is left out,
// and a wrong field besides the URL counts as missing.
func (*Checker) Files(m *poller.Message) []poller.File {
	all, _ := linkedBy(m)
	return message.FilesOf(all, func(l *linked) poller.File { return l.file })
}

// Forgets is true: nobody knows for how long a connector's addresses lead to files.
func (*Checker) Forgets() bool { return true }

// linkedBy returns the files of a message, and what is wrong with the first element that has a fault.
func linkedBy(m *poller.Message) (all []linked, fault error) {
	raw := message.Fields(m)["files"]
	if raw == nil || strict.IsNull(raw) {
		return nil, nil
	}
	var elements []json.RawMessage
	if json.Unmarshal(raw, &elements) != nil {
		return nil, errors.New("files: must be an array")
	}
	if len(elements) > poller.MaxFiles {
		fault = fmt.Errorf("files: %d of them, and at most %d are fetched", len(elements), poller.MaxFiles)
	}
	for i, raw := range elements {
		l, wrong := readFile(raw)
		if wrong != nil && fault == nil {
			fault = fmt.Errorf("files[%d]%w", i, wrong)
		}
		if l.url != "" && len(all) < poller.MaxFiles {
			all = append(all, l)
		}
	}
	return all, fault
}

// readFile reads an element of files. Without a usable URL there is no file. The error begins with a dot
// and the name of the first wrong field.
func readFile(raw json.RawMessage) (l linked, wrong error) {
	var o object
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return l, errors.New(": must be an object")
	}
	address, err := o.text("url")
	if err != nil || len(address) > maxFileURL || !fileURL.MatchString(address) {
		return l, errors.New(".url: must be an address that begins with https:// or http://, or a path of the connector that begins with /, of at most 8 KiB")
	}
	fault := func(err error) {
		if wrong == nil && err != nil {
			wrong = fmt.Errorf(".%w", err)
		}
	}
	l.url = address
	l.file.Name, err = o.text("name")
	fault(err)
	l.file.Type, err = o.text("type")
	fault(err)
	if size := o.take("size"); size != nil && (json.Unmarshal(size, &l.file.Size) != nil || l.file.Size < 0) {
		fault(errors.New("size: must be a whole number of bytes"))
	}
	l.file.SHA256, err = o.text("sha256")
	fault(err)
	until, err := o.text("until")
	fault(err)
	if until != "" {
		if l.file.Until, err = time.Parse(time.RFC3339, until); err != nil {
			fault(errors.New("until: must be RFC 3339, as in 2026-01-31T12:00:00Z"))
		}
	}
	told := l.file
	l.file = poller.CleanFile(told)
	switch {
	case told.Type != "" && l.file.Type == "":
		fault(errors.New("type: must be a media type, such as image/png"))
	case told.SHA256 != "" && l.file.SHA256 == "":
		fault(errors.New("sha256: must be 64 hex digits"))
	case !told.Until.IsZero() && l.file.Until.IsZero():
		fault(errors.New("until: must be a time from 1970 to 9999"))
	}
	return l, wrong
}

// FetchFile fetches a file from where the message says that it is. If that is the connector's own
// scheme, host and port, the request has the config's headers and a signature, and otherwise nothing
// that the config has. All its errors are *poller.CheckError.
func (c *Checker) FetchFile(ctx context.Context, r poller.FileRequest) (*poller.FileBody, error) {
	config, err := c.kept.Read(r.Config)
	if err != nil {
		return nil, poller.ConfigError(err)
	}
	all, _ := linkedBy(r.Message)
	file, failed := message.FileAt(all, r)
	if failed != nil {
		return nil, failed
	}
	call := fetch.Call{URL: file.at(config.url), MaxRedirects: fileRedirects}
	if fetch.SameOrigin(config.url, call.URL) {
		secret, err := config.resolve(ctx, c.secrets, call.URL)
		if err != nil {
			return nil, secrets.CheckError(err)
		}
		if call.Header, err = secret.header(fileID(r), time.Now(), nil); err != nil {
			return nil, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: "secret", Message: err.Error()}
		}
		call.Header.Del("Content-Type")
		call.Header.Set("Accept", "*/*")
		call.Confined = secret.open
	}
	return c.client.File(ctx, "the file's host", call)
}

// fileID returns the webhook-id of a request for a file. It is the same each time that the file is
// fetched.
func fileID(r poller.FileRequest) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d", r.Account, r.Message.ID, r.File))
	return "file-" + hex.EncodeToString(sum[:16])
}

// files judges the files that messages name, and fetches one of them.
func (v *verification) files(ctx context.Context) {
	const advice = `write files as an array of objects with url, and perhaps name, type, size, sha256 and until; rounds connector schema has them`
	switch {
	case v.fileFault != "":
		v.judge(ruleFiles, false, "data."+v.fileFault, advice)
		return
	case v.filed == nil:
		v.notJudged(ruleFiles, "no message has files in its data", "")
		return
	}
	all, _ := linkedBy(v.filed)
	ctx, cancel := context.WithTimeout(ctx, v.trial.Deadline)
	defer cancel()
	seen, err := v.fetchFile(ctx, all[0])
	if err != nil {
		v.judge(ruleFiles, false, err.Error(), "let the url lead to the file for as long as until says, or for a day; a request to the connector's own host is signed")
		return
	}
	v.judge(ruleFiles, true, fmt.Sprintf("%s in one message, as the schema has them, and the first %s", count(len(all), "file"), seen), "")
}

// fetchFile fetches the first file of a message, and says how that went.
func (v *verification) fetchFile(ctx context.Context, told linked) (seen string, err error) {
	body, err := v.fetch(ctx, v.filed)
	if err != nil {
		return "", fmt.Errorf("the first file: %s", poller.Classify(err).Message)
	}
	defer func() { _ = body.Close() }()
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(body, maxTrialFile+1))
	switch file := told.file; {
	case err != nil:
		return "", fmt.Errorf("the first file: %s", poller.Classify(err).Message)
	case n > maxTrialFile:
		return fmt.Sprintf("has more than %d MiB, of which no more was read", maxTrialFile>>20), nil
	case file.Size > 0 && file.Size != n:
		return "", fmt.Errorf("the first file has %d bytes, and its message says %d", n, file.Size)
	case file.SHA256 != "" && file.SHA256 != hex.EncodeToString(sum.Sum(nil)):
		return "", errors.New("the first file has another sha256 than its message says")
	}
	return fmt.Sprintf("came, with %d bytes", n), nil
}

// noteFiles notes what messages show about files.
func (v *verification) noteFiles(messages []poller.Message) {
	for i := range messages {
		m := &messages[i]
		all, fault := linkedBy(m)
		if fault != nil && v.fileFault == "" {
			v.fileFault = fault.Error()
		}
		if len(all) > 0 && v.filed == nil {
			v.filed = m
		}
	}
}
