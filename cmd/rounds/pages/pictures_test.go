package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// unpictured are the pages without a picture in the guide, each with the reason. Each is a step on the
// way to a page that has one, or the answer to a refusal.
var unpictured = map[string]string{
	"bulk":     "asks whether many accounts shall be changed; the job that follows has its picture",
	"weixin":   "asks for the id of the WeChat account; the code that follows has its picture",
	"mailcode": "waits until a mailbox is signed in at its provider, as the page with WeChat's code does",
	"mailback": "shows nothing: a provider sends the browser there, and it leads on",
	"auditrun": "is the answer to a button of System while an audit goes on, and no address opens it",
	"failure":  "says why something was refused, and has no address",
}

// Every page has its picture in the guide, in both languages, or stands above with the reason. A picture
// has its page's name.
func TestEveryPageHasItsPictureInTheGuide(t *testing.T) {
	guide := filepath.Join("..", "..", "..", "deployments", "guide")
	for _, language := range []struct{ tag, sources, assets string }{{"en", "*.md", "assets/en/"}, {"zh-CN", "zh-CN/*.md", "../assets/zh-CN/"}} {
		files, err := filepath.Glob(filepath.Join(guide, language.sources))
		if err != nil || len(files) < 10 {
			t.Fatalf("%s: the guide has %d pages: %v", language.tag, len(files), err)
		}
		var shown []string
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(`!\[[^\]]{10,}\]\(`+regexp.QuoteMeta(language.assets)+`(\w+)\.png\)`).FindAllStringSubmatch(string(text), -1) {
				shown = append(shown, match[1])
			}
		}
		for _, p := range allPages() {
			_, without := unpictured[p.name]
			switch pictured := slices.Contains(shown, p.name); {
			case without && pictured:
				t.Errorf("%s: the page %s has a picture, and is said to have none", language.tag, p.name)
			case !without && !pictured:
				t.Errorf("%s: the page %s at %s has no picture in the guide: make it with testing/browser/shots -guide", language.tag, p.name, p.path)
			}
		}
	}
	for name := range unpictured {
		if !slices.ContainsFunc(allPages(), func(p *page) bool { return p.name == name }) {
			t.Errorf("%s is said to have no picture, and there is no such page", name)
		}
	}
}
