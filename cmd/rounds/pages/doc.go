// Package pages renders the pages on which people see whether everything is checked,
// find what is not, and put it right.
//
// It knows neither Redis nor the registry. It asks the API's own handler inside the process, on
// behalf of the visitor, so a page can do nothing that the API cannot: rights, labels, validation,
// the trail and the words of refusals are the API's. It uses only the types of package api. If a
// page needs more than a reply has, its own type embeds the API's. A page is plain HTML, made on
// the server. Links and forms work without JavaScript. With it, a page listens to its own live
// stream (server-sent events), which sends each block of the page that changed. The stream runs the
// page's own template again, so a block cannot show anything else than the page does.
//
// Text from others is data: html/template escapes it, and the policy of every page
// (Content-Security-Policy) allows neither inline code and styles nor other hosts.
//
// Each page is a file NAME.go, with assets/pages/NAME.html, its texts in
// assets/text/NAME.en.json and NAME.zh.json, and where needed assets/css/NAME.css and
// assets/js/NAME.js.
package pages
