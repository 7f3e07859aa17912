package weixin

import (
	"bytes"
	"crypto/aes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
)

func fileConfig(base, account string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"token": {"secret": "T_%s"}, "base_url": %q, "cdn_url": %q}`, account, base, base+"/c2c"))
}

func startFileParty(t *testing.T, kind string, spell ilink.Spelling) checktest.FileParty {
	w, stop, err := ilinkd.Serve(ilink.Options{Hold: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	client := checktest.Client(t, fetch.Options{})
	numbers := make(map[string]int) // by the message's data
	var last poller.Message
	fault := func(name string, f ilinkd.Fault, kind poller.ErrorKind, code string) checktest.FileFault {
		return checktest.FileFault{Name: name, Kind: kind, Code: code, Cuts: f.Cut, Hangs: f.Hang, Endless: f.Endless, Break: func(string) { w.Fail(ilinkd.Download, f) }}
	}
	party := checktest.FileParty{
		New: func() poller.FileKeeper { return New(client, source()) },
		Config: func(account string) json.RawMessage {
			w.AddBot(tokenOf(account))
			return fileConfig(w.URL(), account)
		},
		Post: func(account string, data []byte) poller.Message {
			w.AddBot(tokenOf(account))
			n := w.SendFile(tokenOf(account), kind, ilink.File{Name: "报价.pdf", Data: data, Spell: spell})
			raw := w.Message(tokenOf(account), n)
			numbers[string(raw)] = n
			last, _ = readMessage(raw)
			return last
		},
		Forget: func(account string, m poller.Message) { w.ForgetFile(tokenOf(account), numbers[string(m.Data)]) },
		Heal:   func(string) { w.Heal() },
		Faults: []checktest.FileFault{
			fault("cut", ilinkd.Fault{Cut: true}, poller.Transient, "reset"),
			fault("reset", ilinkd.Fault{Reset: true}, poller.Transient, "reset"),
			fault("503", ilinkd.Fault{Status: 503}, poller.Transient, "http_503"),
			fault("429", ilinkd.Fault{Status: 429}, poller.RateLimited, "http_429"),
			fault("403", ilinkd.Fault{Status: 403}, poller.Transient, "http_403"),
			fault("204", ilinkd.Fault{Status: 204}, poller.Protocol, "protocol"),
			fault("206", ilinkd.Fault{Status: 206}, poller.Protocol, "protocol"),
			fault("404", ilinkd.Fault{Status: 404}, poller.Gone, "file_gone"),
			fault("hang", ilinkd.Fault{Hang: true}, "", ""),
			fault("endless", ilinkd.Fault{Endless: true}, "", ""),
		},
		Secrets: []string{tokenOf("a"), tokenOf("many1"), "encrypted_query_param"},
	}
	if spell != ilink.Unencrypted {
		other := fault("other bytes", ilinkd.Fault{}, poller.Protocol, "file_padding")
		other.Break = func(string) { w.Fail(ilinkd.Download, ilinkd.Fault{Body: unpadded(t, &last)}) }
		party.Faults = append(party.Faults, fault("garbage", ilinkd.Fault{Garbage: true}, poller.Protocol, "file_length"), other)
	}
	return party
}

// unpadded returns what a message's key decrypts to zeros, which are no padding. Of other bytes, one in 256
// would be.
func unpadded(t *testing.T, m *poller.Message) string {
	t.Helper()
	key, _, failed := mediaOf(m)[0].key()
	if failed != nil {
		t.Fatal(failed)
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, aes.BlockSize)
	block.Encrypt(zeros, zeros)
	return strings.Repeat(string(zeros), 256)
}

func TestFileSuite(t *testing.T) {
	for kind, spell := range map[string]ilink.Spelling{
		"image": ilink.SpelledHex, "voice": ilink.SpelledBase64, "file": ilink.SpelledBase64Hex, "video": ilink.Unencrypted,
	} {
		t.Run(kind, func(t *testing.T) {
			checktest.RunFiles(t, checktest.FileKind{Start: func(t *testing.T) checktest.FileParty { return startFileParty(t, kind, spell) }})
		})
	}
}

// The address of a file is a stranger's, and no secret of the account is sent there.
func TestFileAddresses(t *testing.T) {
	t.Parallel()
	witness := func(full bool) func(json.RawMessage) poller.Message {
		return func(raw json.RawMessage) poller.Message {
			var config struct {
				CDN string `json:"cdn_url"`
			}
			_ = json.Unmarshal(raw, &config)
			at := media{Param: checktest.Hidden, Key: "MDEyMzQ1Njc4OWFiY2RlZg=="}
			if full {
				at = media{FullURL: config.CDN + "/" + checktest.Hidden + "?token=" + checktest.Hidden, Key: at.Key}
			}
			data, _ := json.Marshal(map[string]any{"item_list": []any{map[string]any{"type": 4, "file_item": map[string]any{"media": at}}}})
			return poller.Message{Data: data}
		}
	}
	for _, full := range []bool{false, true} {
		checktest.RunAddresses(t, checktest.HTTP{
			New: func(client *fetch.Client) poller.Checker {
				return checktest.Fetching(New(client, source()), witness(full))
			},
			Config: func(url string) json.RawMessage {
				base, _, _ := strings.Cut(url, "?")
				return json.RawMessage(fmt.Sprintf(`{"token": {"secret": "T_a"}, "base_url": "https://example.com", "cdn_url": %q}`, base))
			},
		})
	}
}

// A message's files are those of its items, with what the items say.
func TestFilesOfAMessage(t *testing.T) {
	w := newFake(ilink.Options{Hold: -1})
	c := New(fetch.New(fetch.Options{Transport: w}), source())
	for kind, want := range map[string]poller.File{
		"image": {}, "voice": {Type: "audio/silk"}, "file": {Name: "报价.pdf", Size: 20480}, "video": {Type: "video/mp4"},
	} {
		data := w.Message(tokenOf("a"), w.Post(tokenOf("a"), kind))
		if files := c.Files(&poller.Message{Data: data}); len(files) != 1 || files[0] != want {
			t.Errorf("%s: %+v", kind, files)
		}
	}
	if files := c.Files(&poller.Message{Data: w.Message(tokenOf("a"), w.Post(tokenOf("a"), "text"))}); len(files) > 0 {
		t.Errorf("a text: %+v", files)
	}
}

// The whole address that a message gives goes before the CDN of the config, over TLS or to the account's
// own servers only.
func TestAddressOfAFile(t *testing.T) {
	at := config{base: "http://127.0.0.1:7", cdn: "https://cdn.example/c2c"}
	for _, tt := range []struct{ full, param, want string }{
		{"", "a+/=&b", "https://cdn.example/c2c/download?encrypted_query_param=a%2B%2F%3D%26b"},
		{"https://other.example/x?y=z", "p", "https://other.example/x?y=z"},
		{"http://127.0.0.1:7/x", "p", "http://127.0.0.1:7/x"},
		{"http://127.0.0.1:8/x", "p", ""},
		{"file:///etc/passwd", "p", ""},
		{"", strings.Repeat("p", maxAddress+1), ""},
	} {
		m := medium{fullURL: tt.full, param: tt.param}
		if got, failed := m.address(at); got != tt.want || (failed != nil) != (tt.want == "") || failed != nil && failed.Kind != poller.Gone {
			t.Errorf("%q, %q: %q, %v", tt.full, tt.param, got, failed)
		}
	}
}

// A key is read in each of its spellings, whichever field it stands in, and nothing else is.
func TestSpellingsOfAKey(t *testing.T) {
	raw := []byte("\x00\x01\xfe\xff0123456789ab")
	hexed := hex.EncodeToString(raw)
	for _, text := range []string{
		hexed, strings.ToUpper(hexed), base64.StdEncoding.EncodeToString(raw), base64.URLEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw),
		base64.StdEncoding.EncodeToString([]byte(hexed)), base64.RawURLEncoding.EncodeToString([]byte(strings.ToUpper(hexed))),
	} {
		if key, ok := parseKey(text); !ok || !bytes.Equal(key[:], raw) {
			t.Errorf("%s: %x, %t", text, key, ok)
		}
	}
	for _, text := range []string{"", "=", hexed[1:], hexed + "0", strings.Repeat("g", 32), base64.StdEncoding.EncodeToString(raw[1:]), strings.Repeat("A", 1000)} {
		if key, ok := parseKey(text); ok {
			t.Errorf("%.40s: %x", text, key)
		}
	}
	both := medium{keys: []string{"no key", base64.StdEncoding.EncodeToString(raw)}}
	if key, encrypted, failed := both.key(); failed != nil || !encrypted || !bytes.Equal(key[:], raw) {
		t.Errorf("the second one: %x, %v", key, failed)
	}
	bad := medium{keys: []string{"no key"}}
	if _, _, failed := bad.key(); failed == nil || failed.Kind != poller.Gone || failed.Code != "file_key" {
		t.Errorf("no key: %v", failed)
	}
}

// sealed encrypts as WeChat does, with a padding of its own if one is given.
func sealed(key [keySize]byte, plain []byte, padding ...byte) []byte {
	if padding == nil {
		n := keySize - len(plain)%keySize
		padding = bytes.Repeat([]byte{byte(n)}, n)
	}
	out := append(bytes.Clone(plain), padding...)
	block, _ := aes.NewCipher(key[:])
	for at := 0; at+keySize <= len(out); at += keySize {
		block.Encrypt(out[at:], out[at:at+keySize])
	}
	return out
}

func TestDecrypt(t *testing.T) {
	key := [keySize]byte([]byte("0123456789abcdef"))
	read := func(from io.Reader) ([]byte, error) { return io.ReadAll(decrypt(io.NopCloser(from), key)) }
	for _, size := range []int{0, 1, 15, 16, 17, 255, sealedAtOnce - 1, sealedAtOnce, sealedAtOnce + 1, sealedAtOnce + keySize, 3*sealedAtOnce + 7} {
		plain := bytes.Repeat([]byte("abcdefg"), size/7+1)[:size]
		for name, from := range map[string]io.Reader{
			"at once": bytes.NewReader(sealed(key, plain)), "by bytes": iotest.OneByteReader(bytes.NewReader(sealed(key, plain))),
			"by halves": iotest.HalfReader(bytes.NewReader(sealed(key, plain))), "the end with the last bytes": iotest.DataErrReader(bytes.NewReader(sealed(key, plain))),
		} {
			if got, err := read(from); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%d bytes %s: %d, %v", size, name, len(got), err)
			}
		}
	}
	for name, tt := range map[string]struct {
		sealed []byte
		code   string
	}{
		"nothing":              {nil, "file_length"},
		"half a block":         {sealed(key, []byte("x"))[:8], "file_length"},
		"a block and a half":   {sealed(key, make([]byte, 20))[:24], "file_length"},
		"a padding of 0":       {sealed(key, make([]byte, 15), 0), "file_padding"},
		"a padding of 17":      {sealed(key, make([]byte, 15), 17), "file_padding"},
		"a padding of 255":     {sealed(key, make([]byte, 15), 255), "file_padding"},
		"paddings that differ": {sealed(key, make([]byte, 13), 2, 3, 3), "file_padding"},
		"another key":          {sealed([keySize]byte{}, make([]byte, 100)), "file_padding"},
	} {
		var failed *poller.CheckError
		if _, err := read(bytes.NewReader(tt.sealed)); !errors.As(err, &failed) || failed.Kind != poller.Protocol || failed.Code != tt.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	broken := errors.New("it broke")
	if got, err := read(io.MultiReader(bytes.NewReader(sealed(key, make([]byte, 100))), iotest.ErrReader(broken))); !errors.Is(err, broken) || len(got) > 100 {
		t.Errorf("a broken file: %d bytes, %v", len(got), err)
	}
}

func FuzzKey(f *testing.F) {
	for _, text := range []string{"30313233343536373839616263646566", "MDEyMzQ1Njc4OWFiY2RlZg==", "MzAzMTMyMzMzNDM1MzYzNzM4Mzk2MTYyNjM2NDY1NjY=", "=", "zz"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, ok := parseKey(text)
		if !ok {
			return
		}
		for _, again := range []string{hex.EncodeToString(key[:]), base64.StdEncoding.EncodeToString(key[:]), base64.RawURLEncoding.EncodeToString([]byte(hex.EncodeToString(key[:])))} {
			if other, ok := parseKey(again); !ok || other != key {
				t.Errorf("%q is %x, and as %q %x, %t", text, key, again, other, ok)
			}
		}
	})
}

// Whatever is decrypted, in whatever pieces it comes: it is what was encrypted, or an error.
func FuzzDecrypt(f *testing.F) {
	key := [keySize]byte([]byte("0123456789abcdef"))
	for _, data := range [][]byte{nil, []byte("x"), sealed(key, nil), sealed(key, []byte("hello")), sealed(key, make([]byte, 100)), make([]byte, 64)} {
		f.Add(data, uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		plain, err := io.ReadAll(decrypt(io.NopCloser(&steps{data, int(step) + 1}), key))
		var failed *poller.CheckError
		switch {
		case err == nil && !bytes.Equal(sealed(key, plain), data):
			t.Errorf("%x was decrypted to %x", data, plain)
		case err != nil && (!errors.As(err, &failed) || failed.Kind != poller.Protocol):
			t.Errorf("%x: %v", data, err)
		}
	})
}

// steps gives some bytes at a time.
type steps struct {
	rest []byte
	step int
}

func (s *steps) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest[:min(s.step, len(s.rest))])
	s.rest = s.rest[n:]
	return n, nil
}

func FuzzFiles(f *testing.F) {
	w := newFake(ilink.Options{Hold: -1})
	for _, kind := range ilinkd.Types() {
		f.Add([]byte(w.Message(tokenOf("a"), w.Post(tokenOf("a"), kind))))
	}
	c := New(fetch.New(fetch.Options{Transport: w}), source())
	f.Fuzz(func(t *testing.T, data []byte) { checktest.JudgeFiles(t, c, &poller.Message{Data: data}) })
}
