package pages

import (
	"crypto/sha256"
	"encoding/hex"
	"html/template"
	"net/http"
	"net/url"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
	"github.com/rounds-dev/rounds/cmd/rounds/signin"
)

const (
	// loginCookie begins the names of the cookies that store sign-ins' names. The rest of a cookie's
	// name distinguishes several sign-ins in one browser. It is in the address, and no secret.
	loginCookie = "rounds_weixin_"
	loginLasts  = 15 * 60 // seconds

	// typedWithin is for how many seconds a form with digits waits for their result.
	typedWithin = "2"
)

// scanning is what the page of a sign-in shows.
type scanning struct {
	Login api.Login
	There bool          // with the state bound: the account is registered
	Gone  bool          // there is no such sign-in, or another browser has begun it
	Code  template.HTML // an SVG; empty: the code is too long to be drawn, or none is needed
}

// Waits reports whether the phone decides what comes next.
func (s *scanning) Waits() bool { return !s.Gone && !s.Over() && s.Login.State != scan.Digits }

// Over reports whether nothing more happens.
func (s *scanning) Over() bool {
	return s.Login.State == scan.Done || s.Login.State == scan.Bound || s.Login.State == scan.Expired
}

// Open reports whether the sign-in goes on, so that it can be abandoned.
func (s *scanning) Open() bool { return !s.Gone && !s.Over() }

// Done reports whether the account is registered.
func (s *scanning) Done() bool { return !s.Gone && s.Login.State == scan.Done }

// Most is how many codes a sign-in has.
func (s *scanning) Most() int { return scan.MaxDrawn }

func scanPage() *page {
	return &page{
		name: "scan", path: scanPath, menu: "accounts", scripts: []string{"scan.js"}, data: showScan,
		actions: map[string]action{scanPath: typeDigits, scanPath + "/abandon": abandonScan},
	}
}

// storeLogin stores the name of a sign-in in a cookie, and returns the text by which the address
// distinguishes it from others. Neither an address nor a page has the name.
func (v *visit) storeLogin(name string) string {
	at := digestOf(name)
	v.setLogin(at, name, loginLasts)
	return at
}

func (v *visit) setLogin(at, name string, lasts int) {
	http.SetCookie(v.out, &http.Cookie{
		Name: loginCookie + at, Value: name, Path: "/", MaxAge: lasts, HttpOnly: true, Secure: !signin.Loopback(v.r.Host), SameSite: http.SameSiteStrictMode,
	})
}

func digestOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}

// loginOf returns the name of the sign-in in the address, or "".
func (v *visit) loginOf() string {
	at := v.Query("at")
	c, err := v.r.Cookie(loginCookie + at)
	if err != nil || digestOf(c.Value) != at {
		return ""
	}
	return c.Value
}

// loginPath returns the API's path of a sign-in.
func loginPath(name string) string { return "/v1/weixin/logins/" + url.PathEscape(name) }

// showScan looks at a sign-in without waiting. The page of a finished one leads to its account.
func showScan(v *visit) (any, error) {
	if !v.MayScan() {
		return nil, refusal(http.StatusForbidden, v.lang.text("weixin.forbidden"))
	}
	s := &scanning{}
	name := v.loginOf()
	if name == "" {
		s.Gone = true
		return s, nil
	}
	switch err := v.get(loginPath(name)+"?hold=0", &s.Login); {
	case refusedFor(err, http.StatusNotFound) != nil:
		s.Gone = true
		return s, nil
	case err != nil:
		return nil, err
	case s.Done() && !v.lives():
		v.setLogin(v.Query("at"), "", -1)
		return nil, &moved{link("/account", "id", s.Login.Account, "said", "scan.done")}
	}
	if s.Login.State == scan.Bound {
		s.There = v.get(accountPath(s.Login.Account), nil) == nil
	}
	if s.Login.Link != "" {
		if drawing, err := scan.SVG(s.Login.Link); err == nil {
			s.Code = template.HTML(drawing) // #nosec G203: it consists of numbers
		}
	}
	return s, nil
}

// typeDigits passes on the digits that the phone shows.
func typeDigits(v *visit) (string, error) {
	name := v.loginOf()
	here := link(scanPath, "at", v.Query("at"))
	if name == "" {
		return here, nil // the page there says that it is gone
	}
	err := v.do(http.MethodPost, loginPath(name)+"/code?hold="+typedWithin, map[string]string{"digits": v.r.PostForm.Get("digits")}, nil)
	if refusedFor(err) != nil && refusedFor(err, http.StatusForbidden, http.StatusUnprocessableEntity) == nil {
		return here, nil // the page there says what the trouble is
	}
	return here, err
}

// abandonScan ends a sign-in. Nothing of it remains.
func abandonScan(v *visit) (string, error) {
	name := v.loginOf()
	if name == "" {
		return "/accounts", nil
	}
	err := v.do(http.MethodDelete, loginPath(name), nil, nil)
	if err == nil {
		v.setLogin(v.Query("at"), "", -1)
	}
	return link("/accounts", "said", "scan.abandoned"), err
}
