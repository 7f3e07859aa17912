package keep_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/files"
	"github.com/rounds-dev/rounds/poller/files/keep"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/processes"
)

// Tests of many minutes or many deaths run without the race detector, which sees the same steps in
// the others.
func TestMain(m *testing.M) {
	faketime.Lean()
	goleak.VerifyTestMain(processes.Apart(m, "TestAFileIsTriedUntilItsEnd", "TestTheStoreMayBeAway", "TestAHostThatIsDownIsAskedRarely", "TestAQuotaStopsFetching", "TestNobodyIsAskedInVain",
		"TestFilesOfAMessageThatComesAgain", "TestKilledWhileAFileIsKept", "TestKilledWhileItCollects"))
}

// world is a ring whose messages carry files, and a store.
type world struct {
	*faketime.World
	chat  *chat
	store *store
	sent  int
}

func inFakeTime(t *testing.T, test func(w *world)) {
	t.Helper()
	faketime.Run(t, 2, func(w *faketime.World) {
		test(&world{World: w, chat: &chat{has: make(map[string]*answer), asked: make(map[string]int)}, store: newStore()})
	})
}

func (w *world) checkers() poller.Checkers { return poller.Checkers{"chat": w.chat} }

func (w *world) register(ids ...string) {
	for _, id := range ids {
		w.Register(circulate.Registration{ID: id, Record: fmt.Appendf(nil, `{"id":%q,"kind":"chat","config":{},"cadence":"every 1h"}`, id)})
	}
}

// attachment is a file as the kind's messages name it.
type attachment struct {
	Name  string    `json:"name"`
	Until time.Time `json:"until,omitzero"`
	Sum   string    `json:"sum,omitempty"`
	Size  int64     `json:"size,omitempty"`
}

// write writes a message with files, and returns its id.
func (w *world) write(account string, carried ...attachment) string {
	w.Helper()
	w.sent++
	id := fmt.Sprint("m", w.sent)
	w.again(account, id, carried...)
	return id
}

// again writes a message that was written before.
func (w *world) again(account, id string, carried ...attachment) {
	w.Helper()
	data, err := json.Marshal(map[string]any{"files": carried})
	if err != nil {
		w.Fatal(err)
	}
	w.Do("XADD", w.Key(w.Ring.ShardOf(account), "messages"), "*", "account", account, "kind", "chat", "id", id, "type", "file", "time", "", "data", string(data))
}

// file returns the row of a message's file.
func (w *world) file(account, id string, place int) circulate.File {
	w.Helper()
	rows, err := w.Ring.Files().Look(w.Context(), false, circulate.NewFileID(account, circulate.FileOfMessage, id, place))
	if err != nil {
		w.Fatal(err)
	}
	return rows[0]
}

// kept expects that a file is kept, and that the store has these bytes.
func (w *world) kept(account, id string, place int, want string) {
	w.Helper()
	row := w.file(account, id, place)
	r, err := w.store.Open(w.Context(), row.Object)
	if row.State != circulate.FileKept || err != nil {
		w.Errorf("%s/%s/%d: %+v, %v", account, id, place, row, err)
		return
	}
	got, err := io.ReadAll(r)
	if string(got) != want || err != nil || row.Size != int64(len(want)) {
		w.Errorf("%s/%s/%d: %d bytes %.20q, %v; want %.20q", account, id, place, row.Size, got, err, want)
	}
}

func (w *world) lost(account, id string, place int, reason string) {
	w.Helper()
	if row := w.file(account, id, place); row.State != circulate.FileLost || !strings.Contains(row.Reason, reason) {
		w.Errorf("%s/%s/%d: %+v; want it lost: %s", account, id, place, row, reason)
	}
}

// letters returns the errors of the group's dead letters.
func (w *world) letters() (texts []string) {
	w.Helper()
	for shard := range w.Ring.Shards() {
		letters, err := group.Of(w.Ring).DeadLetters(w.Context(), shard, circulate.StreamStart, 100)
		if err != nil {
			w.Fatal(err)
		}
		for _, l := range letters {
			texts = append(texts, l.Group+" "+l.Account+"/"+l.Message.ID+": "+l.Error)
		}
	}
	slices.Sort(texts)
	return texts
}

// keeper starts a consumer of the group, with connections of its own, and returns how it ends.
func (w *world) keeper(c keep.Config, decide func(faketime.Step) faketime.Fate) (k *keep.Keeper, stop func()) {
	w.Helper()
	own := &faketime.Faulty{Server: w.Redis}
	own.Set(decide)
	k = keep.New(c, keep.Options{Ring: w.Open(own), Store: w.store, Checkers: w.checkers(), Log: faketime.Log(w), Metrics: keep.NewMetrics(nil)})
	return k, faketime.Go(w, k.Consumer().Run)
}

// collector collects what is due.
func (w *world) collector(retention time.Duration) keep.Collector {
	return keep.Collector{Ring: w.Ring, Store: w.store, Retention: retention, Log: faketime.Log(w)}
}

// empty expects that the list and the store have nothing.
func (w *world) empty() {
	w.Helper()
	totals, err := w.Ring.Files().Totals(w.Context())
	if err != nil || totals.Kept.Files+totals.Lost+totals.Objects.Files+totals.Condemned.Files != 0 {
		w.Errorf("the list has %+v, %v", totals, err)
	}
	if n := w.store.count(); n != 0 {
		w.Errorf("the store has %d objects", n)
	}
}

// chat is a kind whose messages carry files.
type chat struct {
	mu    sync.Mutex
	has   map[string]*answer // by the file's name
	asked map[string]int
	busy  map[string]int // by account, of calls whose body is not closed yet
	most  map[string]int // the most of each; "" is all
}

// answer is what the third party says for a file.
type answer struct {
	bytes string
	err   error
	slow  time.Duration // of each read
	size  int64         // as it claims
}

func (c *chat) set(name string, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.has[name] = &a
}

func (c *chat) calls(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[name]
}

// all returns the number of calls.
func (c *chat) all() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, asked := range c.asked {
		n += asked
	}
	return n
}

// forget begins to count anew.
func (c *chat) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.asked)
}

func (*chat) Kind() string                   { return "chat" }
func (*chat) Validate(json.RawMessage) error { return nil }
func (*chat) RateKey(json.RawMessage) string { return "host" }
func (*chat) Forgets() bool                  { return true }
func (*chat) Check(context.Context, poller.Request) (poller.Result, error) {
	return poller.Result{}, nil
}

func (*chat) Files(m *poller.Message) []poller.File {
	var data struct {
		Files []attachment `json:"files"`
	}
	if json.Unmarshal(m.Data, &data) != nil {
		return nil
	}
	var carried []poller.File
	for _, a := range data.Files {
		if a.Name == "panic" {
			panic("a secret")
		}
		carried = append(carried, poller.File{Name: a.Name, Until: a.Until, SHA256: a.Sum, Size: a.Size})
	}
	return carried
}

func (c *chat) FetchFile(_ context.Context, r poller.FileRequest) (*poller.FileBody, error) {
	name := c.Files(r.Message)[r.File].Name
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[name]++
	a := c.has[name]
	if a == nil {
		return nil, poller.NoFile("404", "there is no such file")
	}
	if a.err != nil {
		return nil, a.err
	}
	if c.busy == nil {
		c.busy, c.most = make(map[string]int), make(map[string]int)
	}
	for _, who := range []string{r.Account, ""} {
		c.busy[who]++
		c.most[who] = max(c.most[who], c.busy[who])
	}
	return &poller.FileBody{ReadCloser: &body{chat: c, account: r.Account, answer: *a, left: strings.NewReader(a.bytes)}, Type: "text/plain", Size: a.size}, nil
}

type body struct {
	chat    *chat
	account string
	answer  answer
	left    *strings.Reader
	closed  bool
}

func (b *body) Read(p []byte) (int, error) {
	time.Sleep(b.answer.slow)
	return b.left.Read(p)
}

func (b *body) Close() error {
	b.chat.mu.Lock()
	defer b.chat.mu.Unlock()
	if !b.closed {
		b.closed = true
		b.chat.busy[b.account]--
		b.chat.busy[""]--
	}
	return nil
}

// store is a files.Store in memory.
type store struct {
	mu      sync.Mutex
	objects map[string]*object
	err     error // of everything
	gone    func(step, name string) error
	given   map[string]bool // names that Put has returned
	disk    int64           // how many bytes it has place for; 0: any number
	tells   bool            // whether it knows how many are free
	checks  int
}

type object struct {
	bytes    []byte
	modified time.Time
}

func newStore() *store {
	return &store{objects: make(map[string]*object), given: make(map[string]bool)}
}

// fails has everything fail from now on; nil: nothing.
func (s *store) fails(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *store) fault(step, name string) error {
	if s.gone != nil {
		if err := s.gone(step, name); err != nil {
			return err
		}
	}
	return s.err
}

func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects)
}

func (s *store) Put(ctx context.Context, r io.Reader, want files.Want) (files.Object, error) {
	s.mu.Lock()
	err := s.fault("put", "")
	s.mu.Unlock()
	if err != nil {
		return files.Object{}, err
	}
	in := files.NewIntake(ctx, r, want)
	content, err := io.ReadAll(in)
	if err != nil {
		return files.Object{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disk > 0 && s.free() < int64(len(content)) {
		return files.Object{}, fmt.Errorf("memory: %w", files.ErrFull)
	}
	name := files.NewName(in.SHA256())
	s.objects[name] = &object{content, time.Now()}
	s.given[name] = true
	if err := s.fault("stored", name); err != nil {
		return files.Object{}, err
	}
	return files.Object{Name: name, SHA256: in.SHA256(), Size: in.Size()}, nil
}

type reader struct {
	*bytes.Reader
	object files.Object
}

func (reader) Close() error           { return nil }
func (r reader) Object() files.Object { return r.object }

func (s *store) Open(_ context.Context, name string) (files.Reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fault("open", name); err != nil {
		return nil, err
	}
	o := s.objects[name]
	if o == nil {
		return nil, files.ErrNotFound
	}
	hash, _ := files.HashOf(name)
	return reader{bytes.NewReader(o.bytes), files.Object{Name: name, SHA256: hash, Size: int64(len(o.bytes)), Modified: o.modified}}, nil
}

func (s *store) Remove(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fault("remove", name); err != nil {
		return err
	}
	delete(s.objects, name)
	return s.fault("removed", name)
}

func (s *store) List(ctx context.Context) iter.Seq2[files.Object, error] {
	return func(yield func(files.Object, error) bool) {
		s.mu.Lock()
		var all []files.Object
		for name, o := range s.objects {
			hash, _ := files.HashOf(name)
			all = append(all, files.Object{Name: name, SHA256: hash, Size: int64(len(o.bytes)), Modified: o.modified})
		}
		err := s.err
		s.mu.Unlock()
		slices.SortFunc(all, func(a, b files.Object) int { return cmp.Compare(a.Name, b.Name) })
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
		if err != nil {
			yield(files.Object{}, err)
		}
	}
}

func (*store) Tidy(context.Context, time.Time) (int, error) { return 0, nil }
func (*store) String() string                               { return "memory" }

func (s *store) Check(context.Context) (files.Room, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks++
	return files.Room{Free: s.free(), Known: s.tells}, s.err
}

// free returns how many bytes the disk has left.
func (s *store) free() int64 {
	free := s.disk
	for _, o := range s.objects {
		free -= int64(len(o.bytes))
	}
	return free
}

// holds gives the store place for so many bytes; 0: for any number.
func (s *store) holds(disk int64, tells bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk, s.tells = disk, tells
}

var errAway = errors.New("the store is away")
