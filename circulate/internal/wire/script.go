package wire

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

//go:embed *.lua
var scripts embed.FS

var luaFile = TextsOf(scripts)

// TextsOf returns a function that returns the text of an embedded script by its name, without
// .lua. It panics if there is no such script, which happens before anything else does.
func TextsOf(scripts fs.FS) func(name string) string {
	return func(name string) string {
		text, err := fs.ReadFile(scripts, name+".lua")
		if err != nil {
			panic(err)
		}
		return string(text)
	}
}

// entryParts and groupParts are shared by many scripts.
var entryParts, groupParts, timelineParts = parts(luaFile("entry")), parts(luaFile("group")), parts(luaFile("timeline"))

// Script is a step that Redis runs atomically: the step's own text, and the parts of
// entry.lua that it uses.
type Script struct {
	name    string
	text    string
	sha     string
	purpose Purpose // of its calls
}

// NewScript makes a script. The last text is its own. The script also gets the parts of
// entry.lua and of the earlier texts that it uses.
func NewScript(name string, texts ...string) *Script { return newScript(name, nil, texts) }

func newScript(name string, more []part, texts []string) *Script {
	shared := slices.Concat(entryParts, more)
	own := len(texts) - 1
	for _, text := range texts[:own] {
		shared = append(shared, parts(text)...)
	}
	text := assemble(shared, texts[own])
	sum := sha1.Sum([]byte(text))
	return &Script{name: name, text: text, sha: hex.EncodeToString(sum[:])}
}

// NewVitalScript is NewScript for a step that must not wait behind others.
func NewVitalScript(name string, texts ...string) *Script {
	s := NewScript(name, texts...)
	s.purpose = Vital
	return s
}

// NewGroupScript is NewScript for a step of a consumer group, with group.lua.
func NewGroupScript(name string, texts ...string) *Script {
	s := newScript(name, groupParts, texts)
	s.purpose = ForGroups
	return s
}

// Vitally returns the script as one that must not wait behind others.
func (s Script) Vitally() *Script {
	s.purpose = Vital
	return &s
}

// LinesBefore returns how many lines of the script come before one of its texts.
func (s *Script) LinesBefore(text string) int {
	before, _, _ := strings.Cut(s.text, text)
	return strings.Count(before, "\n")
}

// Name returns the script's name in errors.
func (s *Script) Name() string { return s.name }

// Eval runs a script on keys that one node serves. It sends the script's text only if
// Redis does not have it.
func (w *Wire) Eval(ctx context.Context, s *Script, keys []string, args []any) (any, error) {
	began := time.Now()
	conn, err := w.Lend(ctx, keys[0], s.purpose)
	if err != nil {
		w.noteCall(keys[0], began, err)
		return nil, err
	}
	defer conn.Close()
	full := make([]any, 0, 2+len(keys)+len(args))
	full = append(full, s.sha, len(keys))
	for _, k := range keys {
		full = append(full, k)
	}
	full = append(full, args...)
	reply, err := call(ctx, conn, "EVALSHA", full...)
	if HasCode(err, "NOSCRIPT") {
		w.resent.Add(1)
		full[0] = s.text
		reply, err = call(ctx, conn, "EVAL", full...)
	}
	w.noteCall(keys[0], began, err)
	return reply, err
}

// Call is one run of a script among many.
type Call struct {
	Keys []string
	Args []any
}

// Reply is the result of a [Call].
type Reply struct {
	Value any
	Err   error
}

// EvalEach runs a script once for each call, all in one round trip to each node. It
// returns the error of each call: some may have been done and others refused. A call that
// was refused because Redis did not have the script, or because the keys had moved, was
// not done, and is repeated here.
func (w *Wire) EvalEach(ctx context.Context, s *Script, calls []Call) []Reply {
	replies := make([]Reply, len(calls))
	byNode := make(map[string][]int)
	for i := range calls {
		node := w.NodeOf(calls[i].Keys[0])
		byNode[node] = append(byNode[node], i)
	}
	var others sync.WaitGroup
	for _, items := range byNode {
		if len(byNode) == 1 {
			w.evalOnNode(ctx, s, calls, items, replies)
			break
		}
		others.Go(func() { w.evalOnNode(ctx, s, calls, items, replies) })
	}
	others.Wait()
	for i := range replies {
		if r := &replies[i]; HasCode(r.Err, "NOSCRIPT") || Redirected(r.Err) {
			r.Value, r.Err = w.Eval(ctx, s, calls[i].Keys, calls[i].Args)
		}
	}
	return replies
}

// evalOnNode runs the calls that one node serves.
func (w *Wire) evalOnNode(ctx context.Context, s *Script, calls []Call, items []int, replies []Reply) {
	key, began := calls[items[0]].Keys[0], time.Now()
	fail := func(from int, err error) {
		for _, i := range items[from:] {
			replies[i].Err = err
		}
		w.noteCall(key, began, err)
	}
	conn, err := w.Lend(ctx, key, s.purpose)
	if err != nil {
		fail(0, err)
		return
	}
	defer conn.Close()
	timeout, err := Remaining(ctx)
	if err != nil {
		fail(0, err)
		return
	}
	for _, i := range items {
		c := &calls[i]
		full := append(make([]any, 0, 2+len(c.Keys)+len(c.Args)), s.sha, len(c.Keys))
		for _, k := range c.Keys {
			full = append(full, k)
		}
		if err := conn.Send("EVALSHA", append(full, c.Args...)...); err != nil {
			fail(0, err)
			return
		}
	}
	if err := conn.Flush(); err != nil {
		fail(0, err)
		return
	}
	deadline := time.Now().Add(timeout)
	var refused error // of the first call
	serves := false
	for n, i := range items {
		value, err := redis.ReceiveWithTimeout(conn, max(time.Nanosecond, time.Until(deadline)))
		if err != nil && !Replied(err) {
			fail(n, err)
			return
		}
		replies[i] = Reply{value, err}
		serves = serves || err == nil
		if n == 0 {
			refused = err
		}
	}
	if serves {
		refused = nil
	}
	w.noteCall(key, began, refused)
}

var setAsideScript = NewScript("set aside", luaFile("setaside"))

// SetAside renames the keys with a wrong type, and returns how many there are. So the
// step can go on, and nothing is destroyed. About are further attributes for the log.
func (w *Wire) SetAside(ctx context.Context, keys []string, types []any, about ...any) (int, error) {
	suffix := ":set_aside:" + strconv.FormatInt(time.Now().UnixNano(), 36)
	all := append(make([]string, 0, 2*len(keys)), keys...)
	for _, key := range keys {
		all = append(all, key+suffix)
	}
	moved, err := redis.Strings(w.Eval(ctx, setAsideScript, all, types))
	if err != nil {
		return 0, err
	}
	for _, name := range moved {
		w.log.Error("key had the wrong type and was set aside", append([]any{"key", name, "now", name + suffix}, about...)...)
	}
	w.CountSetAside(len(moved))
	return len(moved), nil
}
