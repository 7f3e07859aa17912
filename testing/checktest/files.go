package checktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

// FileKind is a kind whose messages carry files, under test.
type FileKind struct {
	// Start starts a fake third party for one test, and ends it with the test.
	Start func(t *testing.T) FileParty
}

// FileParty is a fake third party that has files. Everything but Forget, Lies and Secrets is required.
type FileParty struct {
	// New makes a keeper of files, as another replica would have one.
	New func() poller.FileKeeper
	// Config is a valid config for an account. An account exists as soon as it is named.
	Config func(account string) json.RawMessage
	// Post has the third party send an account a message with one file, and returns the message as it
	// was found.
	Post func(account string, data []byte) poller.Message
	// Faults are ways in which it fails to give files. One at least must cut a file, one must hang, and
	// one must never end.
	Faults []FileFault
	// Heal ends an account's fault.
	Heal func(account string)
	// Forget makes the third party forget a message's file. It is required if the kind Forgets.
	Forget func(account string, m poller.Message)
	// Secrets are the values of the secrets that Config refers to, and any others that a keeper knows
	// and must not reveal, such as a file's key.
	Secrets []string
}

// FileFault is a way in which a third party fails an account's files until it is healed.
type FileFault struct {
	Name  string
	Break func(account string)
	// Kind and Code are what the error of the call or of the body must have. Code is not judged if it is
	// empty, and neither is with Hangs and Endless.
	Kind    poller.ErrorKind
	Code    string
	Cuts    bool // the connection breaks in the middle of a file of 100,000 bytes
	Hangs   bool // only the context ends the call
	Endless bool // the file never ends
}

// RunFiles runs the suite for a kind whose messages carry files. It holds what poller.FileKeeper
// demands: a message's files are the same each time, whatever strangers wrote into it; a file comes
// whole or with an error, while it is read; errors say what is at fault, and tell no secret.
func RunFiles(t *testing.T, k FileKind) {
	with := func(name string, test func(t *testing.T, p FileParty)) {
		run(t, name, func(t *testing.T) { test(t, k.start(t)) })
	}
	with("files are told", filesAreTold)
	with("files come whole", filesComeWhole)
	with("strangers' messages", strangersMessages)
	with("what has become wrong is not fetched", whatHasBecomeWrongIsNotFetched)
	with("contexts end a fetch", contextsEndAFetch)
	with("faults of files are errors", faultsOfFilesAreErrors)
	with("files are streams", filesAreStreams)
	with("what is forgotten is gone", whatIsForgottenIsGone)
	with("many files at once", manyFilesAtOnce)
}

// start starts the third party, and names what it lacks.
func (k FileKind) start(t *testing.T) FileParty {
	t.Helper()
	if k.Start == nil {
		t.Fatal("FileKind.Start is missing")
	}
	p := k.Start(t)
	for name, missing := range map[string]bool{
		"New": p.New == nil, "Config": p.Config == nil, "Post": p.Post == nil, "Faults": len(p.Faults) == 0, "Heal": p.Heal == nil,
	} {
		if missing {
			t.Errorf("FileParty.%s is missing", name)
		}
	}
	for _, fault := range p.Faults {
		if fault.Break == nil {
			t.Errorf("FileFault.Break of %q is missing", fault.Name)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return p
}

// fileOf returns bytes of which no two pieces are alike.
func fileOf(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i ^ i>>8*7 ^ i>>16*13)
	}
	return data
}

// cutSize is the size of the files that are cut.
const cutSize = 100_000

// JudgeFiles expects of a message's files what poller.FileKeeper demands, and returns them. A fuzz test
// calls it with any data.
func JudgeFiles(t *testing.T, keeper poller.FileKeeper, m *poller.Message) []poller.File {
	t.Helper()
	before := bytes.Clone(m.Data)
	files := keeper.Files(m)
	if !bytes.Equal(before, m.Data) {
		t.Error("Files wrote into the message")
	}
	if again := keeper.Files(m); !slices.Equal(files, again) {
		t.Errorf("the files are %+v, and the second time %+v", files, again)
	}
	if len(files) > poller.MaxFiles {
		t.Errorf("%d files, over the limit of %d", len(files), poller.MaxFiles)
	}
	for i, f := range files {
		if clean := poller.CleanFile(f); clean != f {
			t.Errorf("file %d is %+v, and CleanFile makes it %+v", i, f, clean)
		}
	}
	return files
}

// files returns a message's files, and judges them.
func (p FileParty) files(t *testing.T, keeper poller.FileKeeper, m *poller.Message) []poller.File {
	t.Helper()
	files := JudgeFiles(t, keeper, m)
	for _, f := range files {
		hidesSecrets(t, "a file", f.Name+" "+f.Type+" "+f.SHA256, p.Secrets)
	}
	return files
}

// request asks for the only file of a message.
func (p FileParty) request(account string, m *poller.Message) poller.FileRequest {
	return poller.FileRequest{Account: account, Config: p.Config(account), Message: m}
}

// fetched reads a whole file.
func (p FileParty) fetched(ctx context.Context, t *testing.T, keeper poller.FileKeeper, r poller.FileRequest) ([]byte, error) {
	t.Helper()
	body, err := keeper.FetchFile(ctx, r)
	if err != nil {
		if body != nil {
			t.Errorf("there is a body beside the error %v", err)
		}
		return nil, p.judged(t, err)
	}
	if body == nil || body.ReadCloser == nil {
		t.Fatal("there is neither a body nor an error")
	}
	defer func() {
		if err := body.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}()
	told := poller.File{Name: body.Name, Type: body.Type, Size: body.Size}
	if clean := poller.CleanFile(told); clean != told {
		t.Errorf("the body's head is %+v, and CleanFile makes it %+v", told, clean)
	}
	hidesSecrets(t, "the body's head", body.Name+" "+body.Type, p.Secrets)
	data, err := io.ReadAll(io.LimitReader(body, 64<<20))
	if err != nil {
		return nil, p.judged(t, err)
	}
	if body.Size > 0 && body.Size != int64(len(data)) {
		t.Errorf("the body says that it has %d bytes, and has %d", body.Size, len(data))
	}
	return data, nil
}

// judged judges an error of a fetch.
func (p FileParty) judged(t *testing.T, err error) error {
	t.Helper()
	tellsNothing(t, "a fetch", err, p.Secrets)
	_ = Failure(t, err) // it must be one
	return err
}

func filesAreTold(t *testing.T, p FileParty) {
	keeper := p.New()
	m := p.Post("a", fileOf(1000))
	if files := p.files(t, keeper, &m); len(files) != 1 {
		t.Fatalf("the message has %d files, want 1: %s", len(files), m.Data)
	} else if size := files[0].Size; size != 0 && size != 1000 {
		t.Errorf("the file has 1000 bytes, and its message says %d", size)
	}
	p.noOtherPlaces(t, keeper, &m, 1)
}

// noOtherPlaces asks for files that a message does not have.
func (p FileParty) noOtherPlaces(t *testing.T, keeper poller.FileKeeper, m *poller.Message, files int) {
	t.Helper()
	for _, place := range []int{-1, files} {
		r := p.request("a", m)
		r.File = place
		if _, err := p.fetched(t.Context(), t, keeper, r); err == nil || Failure(t, err).Kind != poller.Gone {
			t.Errorf("place %d of %d files: got %v, want an error of kind gone: %.200s", place, files, err, m.Data)
		}
	}
}

func filesComeWhole(t *testing.T, p FileParty) {
	keeper := p.New()
	for _, size := range []int{0, 1, 15, 16, 17, 1 << 15, 1<<16 - 1, 1 << 16, 1<<20 + 5} {
		want := fileOf(size)
		m := p.Post("a", want)
		got, err := p.fetched(t.Context(), t, keeper, p.request("a", &m))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("of %d bytes came %d others, %v", size, len(got), err)
		}
	}
	want := fileOf(5000)
	m := p.Post("a", want)
	for range 2 { // by other replicas
		if got, err := p.fetched(t.Context(), t, p.New(), p.request("a", &m)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("again: %d bytes, %v", len(got), err)
		}
	}
}

// odd are values that strangers may write anywhere.
func odd() []any {
	return []any{
		nil, true, -1.0, 1e300, json.Number("99999999999999999999999"), "", "../../" + Hidden, "\u202e\x00/" + strings.Repeat("é", 300), "http://[" + Hidden, "https://" + Hidden + "@10.0.0.1/",
		[]any{}, map[string]any{}, []any{nil, 1.0, "x", map[string]any{}},
	}
}

// strangers returns messages in which everything was changed that can be, each in one place.
func strangers(data json.RawMessage) (all []json.RawMessage) {
	for _, raw := range []string{"", "null", "0", `"x"`, "[]", "{}", "{", "\xff", "[[]]", `{"files":7}`, strings.Repeat("[", 20000), strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000)} {
		all = append(all, json.RawMessage(raw))
	}
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if decoder.Decode(&tree) != nil {
		return all
	}
	add := func() {
		if raw, err := json.Marshal(tree); err == nil {
			all = append(all, raw)
		}
	}
	var walk func(value any, set func(any))
	walk = func(value any, set func(any)) {
		for _, other := range odd() {
			set(other)
			add()
		}
		set(value)
		switch v := value.(type) {
		case map[string]any:
			for name, within := range v {
				walk(within, func(other any) { v[name] = other })
			}
		case []any:
			for i, within := range v {
				walk(within, func(other any) { v[i] = other })
			}
			if len(v) > 0 { // very many of them
				many := make([]any, 300)
				for i := range many {
					many[i] = v[i%len(v)]
				}
				set(many)
				add()
				set(value)
			}
		}
	}
	walk(tree, func(other any) { tree = other })
	return all
}

// strangersMessages changes a message as only strangers would. Its files are fetched all the same, for
// as long as the context lets them.
func strangersMessages(t *testing.T, p FileParty) {
	keeper := p.New()
	m := p.Post("a", fileOf(20))
	all := strangers(m.Data)
	for i, data := range all {
		changed := m
		changed.Data = data
		files := p.files(t, keeper, &changed)
		p.noOtherPlaces(t, keeper, &changed, len(files))
		if len(files) > 0 && i%3 == 0 { // it costs a call
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _ = p.fetched(ctx, t, keeper, p.request("a", &changed))
			cancel()
		}
	}
	var none poller.Message
	p.files(t, keeper, &none)
}

func whatHasBecomeWrongIsNotFetched(t *testing.T, p FileParty) {
	keeper := p.New()
	m := p.Post("a", fileOf(20))
	for name, config := range map[string]string{
		"a config that is no object":  `"` + Hidden + `"`,
		"a config without its fields": `{}`,
		"a config of a later version": `{"other":"` + Hidden + `"}`,
	} {
		r := p.request("a", &m)
		r.Config = json.RawMessage(config)
		_, err := p.fetched(t.Context(), t, keeper, r)
		if err == nil {
			t.Errorf("%s: fetched", name)
		} else if kind := Failure(t, err).Kind; kind != poller.ConfigInvalid && kind != poller.Unsupported {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func contextsEndAFetch(t *testing.T, p FileParty) {
	keeper := p.New()
	m := p.Post("a", fileOf(20))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.fetched(over, t, keeper, p.request("a", &m)); err == nil || Failure(t, err).Kind != poller.Transient {
		t.Errorf("cancelled before: got %v", err)
	}
	hung := 0
	for _, fault := range p.Faults {
		if !fault.Hangs {
			continue
		}
		hung++
		fault.Break("a")
		timed, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := p.fetched(timed, t, keeper, p.request("a", &m)); err == nil || Failure(t, err).Kind != poller.Transient || Failure(t, err).Code != "timeout" {
			t.Errorf("%s, timed: got %v", fault.Name, err)
		}
		cancel()
		p.Heal("a")
	}
	if hung == 0 {
		t.Error("no fault hangs: nothing was tried")
	}
	if got, err := p.fetched(t.Context(), t, keeper, p.request("a", &m)); err != nil || len(got) != 20 {
		t.Errorf("healed: %d bytes, %v", len(got), err)
	}
}

func faultsOfFilesAreErrors(t *testing.T, p FileParty) {
	keeper, cut := p.New(), false
	for _, fault := range p.Faults {
		if fault.Hangs || fault.Endless {
			continue
		}
		cut = cut || fault.Cuts
		m := p.Post("a", fileOf(cutSize))
		fault.Break("a")
		got, err := p.fetched(t.Context(), t, keeper, p.request("a", &m))
		switch {
		case err == nil:
			t.Errorf("%s: no error, and %d of %d bytes", fault.Name, len(got), cutSize)
		case Failure(t, err).Kind != fault.Kind || fault.Code != "" && Failure(t, err).Code != fault.Code:
			t.Errorf("%s: got %v, want %s: %s", fault.Name, err, fault.Kind, fault.Code)
		}
		tellsNothing(t, fault.Name, err, p.Secrets)
		p.Heal("a")
		if got, err := p.fetched(t.Context(), t, keeper, p.request("a", &m)); fault.Kind != poller.Gone && (err != nil || !slices.Equal(got, fileOf(cutSize))) {
			t.Errorf("%s, healed: %d bytes, %v", fault.Name, len(got), err)
		}
	}
	if !cut {
		t.Error("no fault cuts a file: nothing was tried")
	}
}

// filesAreStreams reads the beginning of a file that never ends.
func filesAreStreams(t *testing.T, p FileParty) {
	keeper, endless := p.New(), 0
	for _, fault := range p.Faults {
		if !fault.Endless {
			continue
		}
		endless++
		m := p.Post("a", fileOf(20))
		fault.Break("a")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		body, err := keeper.FetchFile(ctx, p.request("a", &m))
		if err != nil {
			t.Errorf("%s: it is not read while it comes: %v", fault.Name, err)
		} else {
			if n, err := io.ReadFull(body, make([]byte, 1<<20)); err != nil {
				t.Errorf("%s: it is not read while it comes: after %d bytes, %v", fault.Name, n, err)
			}
			cancel()
			_, err := io.Copy(io.Discard, io.LimitReader(body, 64<<20))
			var failed *poller.CheckError
			if !errors.As(err, &failed) {
				t.Errorf("%s: the context has ended, and the body goes on: %v", fault.Name, err)
			}
			_ = body.Close()
		}
		cancel()
		p.Heal("a")
	}
	if endless == 0 {
		t.Error("no fault is a file without an end: nothing was tried")
	}
}

func whatIsForgottenIsGone(t *testing.T, p FileParty) {
	keeper := p.New()
	if p.Forget == nil {
		if keeper.Forgets() {
			t.Error("the kind Forgets, and FileParty.Forget is missing")
		}
		return
	}
	m, other := p.Post("a", fileOf(20)), p.Post("a", fileOf(30))
	p.Forget("a", m)
	if _, err := p.fetched(t.Context(), t, keeper, p.request("a", &m)); err == nil || Failure(t, err).Kind != poller.Gone {
		t.Errorf("forgotten: got %v, want an error of kind gone", err)
	}
	if got, err := p.fetched(t.Context(), t, keeper, p.request("a", &other)); err != nil || len(got) != 30 {
		t.Errorf("the other one: %d bytes, %v", len(got), err)
	}
}

func manyFilesAtOnce(t *testing.T, p FileParty) {
	keeper := p.New()
	var group sync.WaitGroup
	for n := range 20 {
		account := fmt.Sprint("many", n)
		config := p.Config(account)
		want := fileOf(1000 * n)
		m := p.Post(account, want)
		group.Go(func() {
			defer contain(t)
			body, err := keeper.FetchFile(t.Context(), poller.FileRequest{Account: account, Config: config, Message: &m})
			if err != nil {
				t.Errorf("account %s: %v", account, err)
				return
			}
			defer func() { _ = body.Close() }()
			if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, want) {
				t.Errorf("account %s: %d bytes, %v", account, len(got), err)
			}
		})
	}
	group.Wait()
}

// Fetching makes a checker of a keeper of files: each check fetches the file of the message that
// message returns for the account's config. With it, RunAddresses judges where fetches go, and where their
// secrets do. A file that came is an error too.
func Fetching(keeper poller.FileKeeper, message func(config json.RawMessage) poller.Message) poller.Checker {
	return fetching{keeper, message}
}

type fetching struct {
	poller.FileKeeper
	message func(config json.RawMessage) poller.Message
}

// Check fetches the file.
func (f fetching) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	m := f.message(r.Config)
	body, err := f.FetchFile(ctx, poller.FileRequest{Account: r.Account, Config: r.Config, Message: &m})
	if err != nil {
		return poller.Result{}, err
	}
	defer func() { _ = body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(body, 64<<20)); err != nil {
		return poller.Result{}, err
	}
	return poller.Result{}, &poller.CheckError{Code: "fetched", Message: "the file came"}
}
