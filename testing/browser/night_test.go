//go:build night

package browser

// atNight is whether what takes longest is looked at too: how the dashboard shows the
// death of a poller, and pages in Chinese and without JavaScript.
const atNight = true

// widths are those that every page is measured at.
var widths = []int64{320, 768, 1280, 2560}

// taskAccounts is how many accounts there are while people do tasks. taskFailing is how many of them fail.
const taskAccounts, taskFailing = 300_000, 9000

// ways are how people do the tasks.
var ways = []way{{"en", false}, {"en", true}, {"zh-CN", false}, {"zh-CN", true}}
