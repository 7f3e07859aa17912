package wire

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"io/fs"
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

// entryParts, groupParts and timelineParts are shared by many scripts.
var entryParts, groupParts, timelineParts = partsOf("entry"), partsOf("group"), partsOf("timeline")

// partsOf returns a function that cuts a shared text when it is first called.
func partsOf(name string) func() []part {
	return sync.OnceValue(func() []part { return parts(luaFile(name)) })
}

// Script is a step that Redis runs atomically: the step's own text, and the parts of
// entry.lua that it uses.
type Script struct {
	name    string
	code    func() code // puts it together when it is first called: many programs run few scripts, or none
	purpose Purpose     // of its calls
}

// code is a script as Redis gets it.
type code struct{ text, sha string }

// NewScript makes a script. The last text is its own. The script also gets the parts of
// entry.lua and of the earlier texts that it uses.
func NewScript(name string, texts ...string) *Script { return newScript(name, texts, entryParts) }

func newScript(name string, texts []string, more ...func() []part) *Script {
	return &Script{name: name, code: sync.OnceValue(func() code {
		var shared []part
		for _, parts := range more {
			shared = append(shared, parts()...)
		}
		own := len(texts) - 1
		for _, text := range texts[:own] {
			shared = append(shared, parts(text)...)
		}
		text := assemble(shared, texts[own])
		sum := sha1.Sum([]byte(text))
		return code{text, hex.EncodeToString(sum[:])}
	})}
}

// NewVitalScript is NewScript for a step that must not wait behind others.
func NewVitalScript(name string, texts ...string) *Script {
	s := NewScript(name, texts...)
	s.purpose = Vital
	return s
}

// NewGroupScript is NewScript for a step of a consumer group, with group.lua.
func NewGroupScript(name string, texts ...string) *Script {
	s := newScript(name, texts, entryParts, groupParts)
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
	before, _, _ := strings.Cut(s.code().text, text)
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
	c := s.command(keys, args)
	reply, err := call(ctx, conn, "EVALSHA", c[1:]...)
	if HasCode(err, "NOSCRIPT") {
		w.resent.Add(1)
		c[1] = s.code().text
		reply, err = call(ctx, conn, "EVAL", c[1:]...)
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
	batches := make([]Batch, len(calls))
	for i, c := range calls {
		batches[i] = Batch{Key: c.Keys[0], Commands: []Command{s.command(c.Keys, c.Args)}}
	}
	replies := make([]Reply, len(calls))
	for i, r := range w.eachNode(ctx, s.purpose, batches) {
		if HasCode(r.Err, "NOSCRIPT") || Redirected(r.Err) {
			replies[i].Value, replies[i].Err = w.Eval(ctx, s, calls[i].Keys, calls[i].Args)
		} else if replies[i].Err = r.Err; r.Err == nil {
			replies[i].Value = r.Values[0]
		}
	}
	return replies
}

// command returns a call of the script, which Redis must know.
func (s *Script) command(keys []string, args []any) Command {
	c := append(make(Command, 0, 3+len(keys)+len(args)), "EVALSHA", s.code().sha, len(keys))
	for _, k := range keys {
		c = append(c, k)
	}
	return append(c, args...)
}

var setAsideScript = NewScript("set aside", luaFile("setaside"))

// SetAside renames the keys with a wrong type, and returns how many there are. So the
// step can go on, and nothing is destroyed. About has more attributes for the log.
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
