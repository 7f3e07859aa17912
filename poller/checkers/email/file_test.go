package email

import (
	"bufio"
	"bytes"
	"io"
	"testing"
	"testing/iotest"
)

// What comes piece by piece is decoded as what is there at once.
func FuzzTransferEncodings(f *testing.F) {
	for _, seed := range []string{"aGVsbG8=", "aGVsbG8=aGVsbG8=", "aGV sbG8\r\n!!", "a", "=C3=A9 =\r\nx= \t\r\ny", "=", "=4", "=zz=", "=  "} {
		f.Add([]byte(seed), uint8(1))
	}
	f.Fuzz(func(t *testing.T, raw []byte, step uint8) {
		pieces := func() io.Reader {
			return io.MultiReader(iotest.OneByteReader(bytes.NewReader(raw[:min(len(raw), int(step))])), bytes.NewReader(raw[min(len(raw), int(step)):]))
		}
		want, _ := decodeBase64(raw)
		if got, err := io.ReadAll(&base64Reader{from: pieces()}); err != nil || !bytes.Equal(got, want) {
			t.Errorf("base64 %q: got %q, want %q, %v", raw, got, want, err)
		}
		if bytes.Contains(raw, bytes.Repeat([]byte(" "), maxBlank/2)) {
			return // very many blanks are left as they are
		}
		want, _ = decodeQuoted(raw)
		if got, err := io.ReadAll(&quotedReader{from: bufio.NewReader(pieces())}); err != nil || !bytes.Equal(got, want) {
			t.Errorf("quoted %q: got %q, want %q, %v", raw, got, want, err)
		}
	})
}
