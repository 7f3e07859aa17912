package checktest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/testing/checktest"
)

// fileModel is a third party in memory that has files, and its keeper of files, with at most one flaw.
type fileModel struct {
	*model

	mu     sync.Mutex
	data   map[string][]byte // by the file's name
	faults map[string]string // by account
	told   int
}

func (m *fileModel) Files(found *poller.Message) []poller.File {
	name, ok := nameIn(found)
	if m.flaw == "it panics at strangers' messages" && found != nil && len(found.Data) == 0 {
		panic("no data")
	}
	if !ok {
		return nil
	}
	f := poller.CleanFile(poller.File{Name: name, Type: "text/plain"})
	files := []poller.File{f}
	switch m.flaw {
	case "no files":
		return nil
	case "another order each time":
		m.told++
		files = append(files, poller.File{Size: int64(m.told)})
	case "a name with a folder":
		files[0].Name = "../" + name
	case "too many files":
		files = make([]poller.File, poller.MaxFiles+1)
	case "another size":
		files[0].Size = 7
	case "it writes into the message":
		found.Data[0] = ' '
	case "a secret in a file's name":
		files[0].Name = secret
	}
	return files
}

func (m *fileModel) Forgets() bool { return true }

// nameIn returns the name of a message's file.
func nameIn(m *poller.Message) (string, bool) {
	var name string
	raw := message.Fields(m)["file"]
	return name, len(raw) > 0 && json.Unmarshal(raw, &name) == nil && name != ""
}

func (m *fileModel) FetchFile(ctx context.Context, r poller.FileRequest) (*poller.FileBody, error) {
	if err := m.Validate(r.Config); err != nil && m.flaw != "it fetches with any config" {
		return nil, poller.ConfigError(err)
	}
	name, ok := nameIn(r.Message)
	if (!ok || r.File != 0) && m.flaw != "any place is a file" {
		return nil, poller.NoFile("no_file", "there is no such file")
	}
	if ctx.Err() != nil && m.flaw != "it ignores its context" {
		return nil, &poller.CheckError{Kind: poller.Transient, Code: "canceled", Message: "it was cancelled"}
	}
	m.mu.Lock()
	data, has, fault := m.data[name], m.data[name] != nil, m.faults[r.Account]
	m.mu.Unlock()
	refused := &poller.CheckError{Kind: poller.Transient, Code: "refuse", Message: "it is refused"}
	switch {
	case m.flaw == "it panics":
		panic("no file")
	case !has && m.flaw == "what is forgotten is transient":
		return nil, refused
	case !has:
		return nil, poller.NoFile("file_gone", "it is gone")
	case fault == "refuse":
		switch m.flaw {
		case "a file's fault tells a secret":
			refused.Message += secret
		case "a file's fault has another kind":
			refused.Kind = poller.Protocol
		case "a file's fault is of another type":
			return nil, errors.New("it is refused")
		case "a body beside an error":
			return &poller.FileBody{}, refused
		}
		return nil, refused
	case fault == "hang":
		<-ctx.Done()
		code := "timeout"
		if m.flaw == "a file's time-out has no code" {
			code = "other"
		}
		return nil, &poller.CheckError{Kind: poller.Transient, Code: code, Message: "it took too long"}
	}
	body := &poller.FileBody{Size: int64(len(data))}
	switch from := io.Reader(bytes.NewReader(data)); {
	case fault == "cut" && m.flaw == "a cut file ends":
		body.ReadCloser, body.Size = io.NopCloser(bytes.NewReader(data[:len(data)/2])), 0
	case fault == "cut":
		body.ReadCloser = io.NopCloser(io.MultiReader(bytes.NewReader(data[:len(data)/2]), failing{&poller.CheckError{Kind: poller.Transient, Code: "reset", Message: "it broke off"}}))
	case fault == "endless" && m.flaw == "it reads the whole file at once":
		return nil, refused
	case fault == "endless":
		body.ReadCloser, body.Size = io.NopCloser(&zeros{ctx, m.flaw}), 0
	case m.flaw == "a byte is lost" && len(data) > 1<<16:
		body.ReadCloser, body.Size = io.NopCloser(bytes.NewReader(data[1:])), 0
	case m.flaw == "the body's size is wrong":
		body.ReadCloser = io.NopCloser(from)
		body.Size++
	case m.flaw == "the body's name has a folder":
		body.ReadCloser, body.Name = io.NopCloser(from), "a/b"
	case m.flaw == "it mixes files up" && strings.HasPrefix(r.Account, "many"):
		body.ReadCloser, body.Size = io.NopCloser(strings.NewReader("other")), 0
	default:
		body.ReadCloser = io.NopCloser(from)
	}
	return body, nil
}

// failing is a reader with an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// zeros never end before their context does.
type zeros struct {
	ctx  context.Context
	flaw string
}

func (z *zeros) Read(p []byte) (int, error) {
	if z.ctx.Err() != nil && z.flaw != "a body outlives its context" {
		return 0, &poller.CheckError{Kind: poller.Transient, Code: "canceled", Message: "it was cancelled"}
	}
	return len(p), nil
}

func (m *fileModel) start(*testing.T) checktest.FileParty {
	m = &fileModel{model: &model{flaw: m.flaw}, data: make(map[string][]byte), faults: make(map[string]string)}
	fault := func(name string, kind poller.ErrorKind, code string) checktest.FileFault {
		return checktest.FileFault{Name: name, Kind: kind, Code: code, Cuts: name == "cut", Hangs: name == "hang", Endless: name == "endless", Break: func(account string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.faults[account] = name
		}}
	}
	party := checktest.FileParty{
		New:    func() poller.FileKeeper { return m },
		Config: func(account string) json.RawMessage { return json.RawMessage(`{"account":"` + account + `"}`) },
		Post: func(_ string, data []byte) poller.Message {
			m.mu.Lock()
			defer m.mu.Unlock()
			name := string(rune('a'+len(m.data)%26)) + strings.Repeat("x", len(m.data)/26)
			m.data[name] = append([]byte{}, data...)
			return poller.Message{ID: name, Data: json.RawMessage(`{"file":"` + name + `"}`)}
		},
		Forget: func(_ string, found poller.Message) {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.data, found.ID)
		},
		Heal: func(account string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.faults, account)
		},
		Faults:  []checktest.FileFault{fault("cut", poller.Transient, "reset"), fault("refuse", poller.Transient, "refuse"), fault("hang", "", ""), fault("endless", "", "")},
		Secrets: []string{secret},
	}
	switch m.flaw {
	case "a party without Post of files":
		party.Post = nil
	case "a party that cannot forget":
		party.Forget = nil
	case "no fault of files cuts":
		party.Faults = party.Faults[1:]
	case "no fault of files hangs":
		party.Faults = append(party.Faults[:2:2], party.Faults[3])
	case "no file is endless":
		party.Faults = party.Faults[:3]
	}
	return party
}

func TestFileModel(t *testing.T) {
	m := &fileModel{model: &model{flaw: os.Getenv(flaw)}}
	checktest.RunFiles(t, checktest.FileKind{Start: m.start})
}

func TestTheSuiteOfFilesCondemns(t *testing.T) {
	for name, says := range map[string]string{
		"":         "",
		"no files": "the message has 0 files, want 1", "another order each time": "and the second time", "too many files": "65 files, over the limit of 64",
		"a name with a folder": "and CleanFile makes it", "another size": "its message says 7", "it writes into the message": "Files wrote into the message",
		"a secret in a file's name": `a file tells "0pen-sesame-42"`, "it panics at strangers' messages": "the checker panicked: no data", "it panics": "the checker panicked: no file",
		"it fetches with any config": "a config that is no object: fetched", "any place is a file": "want an error of kind gone", "it ignores its context": "cancelled before: got <nil>",
		"a file's fault tells a secret": `tells "0pen-sesame-42"`, "a file's fault has another kind": "refuse: got protocol: refuse", "a file's fault is of another type": "want a *poller.CheckError",
		"a body beside an error": "there is a body beside the error", "a file's time-out has no code": "hang, timed: got ", "a cut file ends": "cut: no error, and 50000 of 100000 bytes",
		"it reads the whole file at once": "endless: it is not read while it comes", "a body outlives its context": "the context has ended, and the body goes on", "a byte is lost": "of 1048581 bytes came 1048580 others",
		"the body's size is wrong": "the body says that it has", "the body's name has a folder": "the body's head is", "it mixes files up": "account many",
		"what is forgotten is transient": "forgotten: got transient", "a party without Post of files": "FileParty.Post is missing", "a party that cannot forget": "FileParty.Forget is missing",
		"no fault of files cuts": "no fault cuts a file: nothing was tried", "no fault of files hangs": "no fault hangs: nothing was tried", "no file is endless": "no fault is a file without an end: nothing was tried",
	} {
		condemned(t, "TestFileModel", name, says)
	}
}
