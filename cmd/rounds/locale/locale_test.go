package locale

import (
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
)

func TestAsked(t *testing.T) {
	for accept, want := range map[string]Language{
		"": English, "zh-CN": Chinese, "zh": Chinese, "zh-CN,zh;q=0.9,en;q=0.8": Chinese, "en-US,zh;q=0.5": English,
		"fr": English, "*": English, "-;;": English, strings.Repeat("zh,", 80): English,
	} {
		if got := Asked(http.Header{"Accept-Language": {accept}}); got != want {
			t.Errorf("%q: %q", accept, got)
		}
	}
	if got := Asked(nil); got != English {
		t.Errorf("without a header: %q", got)
	}
}

func TestOfEnvironment(t *testing.T) {
	for _, c := range []struct {
		all, messages, lang string
		want                Language
	}{
		{"", "", "zh_CN.UTF-8", Chinese},
		{"", "", "zh_CN.utf8", Chinese},
		{"", "", "zh_TW", Chinese},
		{"", "", "zh", Chinese},
		{"", "", "zh_CN.UTF-8@pinyin", Chinese},
		{"", "", "zh_CN.GBK", English}, // which a terminal would show as something else
		{"", "", "C", English},
		{"", "", "C.UTF-8", English},
		{"", "", "POSIX", English},
		{"", "", "zhx_YY", English},
		{"", "", "", English},
		{"C", "zh_CN.UTF-8", "zh_CN.UTF-8", English},
		{"", "en_US.UTF-8", "zh_CN.UTF-8", English},
		{"", "zh_CN.UTF-8", "C", Chinese},
		{"zh_CN.UTF-8", "C", "C", Chinese},
	} {
		lookup := func(name string) (string, bool) {
			value := map[string]string{"LC_ALL": c.all, "LC_MESSAGES": c.messages, "LANG": c.lang}[name]
			return value, value != ""
		}
		if got := OfEnvironment(lookup); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if got := OfEnvironment(nil); got != English {
		t.Errorf("of none: %q", got)
	}
}

func TestTexts(t *testing.T) {
	files := fstest.MapFS{
		"assets/text/a.en.json": {Data: []byte(`{"a":"A"}`)}, "assets/text/b.en.json": {Data: []byte(`{"b":"B"}`)},
		"assets/text/a.zh.json": {Data: []byte(`{"a":"甲"}`)},
	}
	if got, err := Texts(files, English); err != nil || len(got) != 2 || got["b"] != "B" {
		t.Errorf("%v, %v", got, err)
	}
	files["assets/text/c.en.json"] = &fstest.MapFile{Data: []byte(`{"b":"C"}`)}
	if _, err := Texts(files, English); err == nil {
		t.Error("two files have one key")
	}
	files["assets/text/c.en.json"] = &fstest.MapFile{Data: []byte(`{`)}
	if _, err := Texts(files, English); err == nil {
		t.Error("a file is broken")
	}
}
