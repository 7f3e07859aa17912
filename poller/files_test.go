package poller

import (
	"strings"
	"testing"
	"time"
)

func TestCleanFile(t *testing.T) {
	long := strings.Repeat("名", 100)
	sum := strings.Repeat("0aF3", 16)
	for _, tt := range []struct{ file, want File }{
		{File{}, File{}},
		{File{Name: "a.pdf", Type: "application/pdf", Size: 7, SHA256: sum}, File{Name: "a.pdf", Type: "application/pdf", Size: 7, SHA256: strings.ToLower(sum)}},
		{File{Name: `C:\temp\..\a.pdf`}, File{Name: "a.pdf"}},
		{File{Name: "../../etc/passwd"}, File{Name: "passwd"}},
		{File{Name: ".."}, File{}},
		{File{Name: "a/"}, File{}},
		{File{Name: " \x00a\r\nb\u202efdp.exe\xff "}, File{Name: "abfdp.exe"}},
		{File{Name: long + ".docx"}, File{Name: long[:3*83] + ".docx"}},
		{File{Name: long + "." + long}, File{Name: long[:3*85]}},
		{File{Type: "Text/HTML; charset=utf-8"}, File{Type: "text/html"}},
		{File{Type: `image/svg+xml; a="b`}, File{Type: "image/svg+xml"}},
		{File{Type: "image"}, File{}},
		{File{Type: "image/<script>"}, File{}},
		{File{Type: strings.Repeat("a", 200) + "/b"}, File{}},
		{File{Size: -1, SHA256: "zz"}, File{}},
		{File{SHA256: strings.Repeat("g", 64)}, File{}},
		{File{Until: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, File{}},
		{File{Until: time.Date(2026, 1, 1, 1, 0, 0, 0, time.FixedZone("", 3600))}, File{Until: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}},
	} {
		if got := CleanFile(tt.file); got != tt.want {
			t.Errorf("%+v: got %+v, want %+v", tt.file, got, tt.want)
		}
	}
}

// A clean file stays as it is, and its texts are short.
func FuzzCleanFile(f *testing.F) {
	f.Add("../a\u202e.pdf", "text/html; x")
	f.Add(strings.Repeat("é", 300)+".x", "A/b")
	f.Fuzz(func(t *testing.T, name, kind string) {
		clean := CleanFile(File{Name: name, Type: kind})
		if again := CleanFile(clean); again != clean || len(clean.Name) > MaxFileName || len(clean.Type) > 127 || strings.ContainsAny(clean.Name, "/\\\r\n\x00") {
			t.Errorf("%q, %q: %+v, then %+v", name, kind, clean, again)
		}
	})
}
