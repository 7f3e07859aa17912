//go:build !night

package browser

// atNight is whether what takes longest is looked at too: how the dashboard shows the
// death of a poller, and pages in Chinese and without JavaScript.
const atNight = false

// widths are those that every page is measured at. At night there are more.
var widths = []int64{320, 1280}

// taskAccounts is how many accounts there are while people do tasks. taskFailing is how many of them fail.
const taskAccounts, taskFailing = 3000, 240

// ways are how people do the tasks.
var ways = []way{{"en", false}, {"zh-CN", true}}
