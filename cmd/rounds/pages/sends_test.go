package pages

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The page shows what is in doubt, what waits and what was refused, the oldest first, and for each
// what somebody may do about it.
func TestSendsShowWhatSomebodyHasToDecide(t *testing.T) {
	var asked []string
	site, _ := newRecorded(t, func(_, path string) string {
		if !strings.HasPrefix(path, "/v1/sends") {
			return `{}`
		}
		asked = append(asked, path)
		return `{"sends":[{"id":"S2","account":"a b","to":"<i>ben</i>","type":"text","data":{"text":"<b>hi</b>"},"state":"unknown","since":"2026-11-22T14:20:00Z","attempts":1,"code":"cut","reason":"the call was cut"},
{"id":"S1","account":"a","to":"anna","type":"text","data":{"text":"hello"},"state":"queued","since":"2026-11-22T14:10:00Z","attempts":0},
{"id":"S3","account":"a","to":"anna","type":"text","data":{},"state":"rejected","since":"2026-11-22T14:30:00Z","attempts":2,"code":"40001"}],"next":"N"}`
	})
	body := ask(site, "GET", "/delivery/sends?account=a").Body.String()
	for _, want := range []string{
		"&lt;i&gt;ben", "<code>&lt;b&gt;hi&lt;/b&gt;</code>", "<code>{}</code>", `href="/account?id=a&#43;b"`, "cut: the call was cut", "1 attempt", "2 attempts", "40001",
		`value="accepted">It arrived`, `value="rejected">It did not arrive`, `value="retry">Send again`, `value="cancel">Cancel`, "may then arrive twice", "These are not all", `name="attempts" value="2"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Index(body, "S1") > strings.Index(body, "S2") || strings.Contains(body, "<b>hi") {
		t.Errorf("the oldest is not first, or a text is obeyed, in\n%s", body)
	}
	if len(asked) != 5 {
		t.Errorf("asked %q", asked)
	}
}

func TestSendsDoWhatTheirFormsAsk(t *testing.T) {
	site, orders := newRecorded(t, func(string, string) string { return `{}` })
	for _, c := range []struct {
		form url.Values
		to   string
		want []string
	}{
		{url.Values{"do": {"accepted"}, "id": {"S1"}, "attempts": {"2"}}, "/delivery/sends?said=resolved", []string{`/v1/sends/S1/resolve {"attempts":2,"state":"accepted"}`}},
		{url.Values{"do": {"rejected"}, "id": {"S1"}, "attempts": {"1"}, "account": {"a b"}}, "/delivery/sends?account=a+b&said=resolved", []string{`/v1/sends/S1/resolve {"attempts":1,"state":"rejected"}`}},
		{url.Values{"do": {"retry"}, "id": {"S1"}, "attempts": {"1"}}, "/delivery/sends?said=sent_again", []string{`/v1/sends/S1/retry {"attempts":1}`}},
		{url.Values{"do": {"cancel"}, "id": {".."}}, "/delivery/sends?said=canceled", []string{`/v1/sends/../cancel `}},
	} {
		*orders = nil
		w := pressed(site, "/delivery/sends", c.form)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != c.to || fmt.Sprint(*orders) != fmt.Sprint(c.want) {
			t.Errorf("%v: %d to %s, ordered %q", c.form, w.Code, w.Header().Get("Location"), *orders)
		}
	}
	*orders = nil
	for _, form := range []url.Values{{"do": {"drop"}, "id": {"S1"}}, {"do": {"retry"}}} {
		if w := pressed(site, "/delivery/sends", form); w.Code != http.StatusUnprocessableEntity || len(*orders) > 0 {
			t.Errorf("%v: %d, ordered %q", form, w.Code, *orders)
		}
	}
}
