package cadence_test

import (
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

// A cadence says when an account is checked next. Accounts with the same interval are spread
// over it by their phases, so the next slot depends on the id.
func ExampleParse() {
	now := time.Date(2030, time.January, 5, 8, 30, 0, 0, time.UTC) // a Saturday
	for _, text := range []string{"cron 0 9 * * MON-FRI Asia/Shanghai", "at 2030-12-01T09:00:00Z", "every 10m"} {
		c, err := cadence.Parse(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		next, _ := c.After("news", now, cadence.State{})
		fmt.Printf("%s: %s\n", c, next.UTC().Format(time.DateTime))
	}
	// Output:
	// cron 0 9 * * MON-FRI Asia/Shanghai: 2030-01-07 01:00:00
	// at 2030-12-01T09:00:00Z: 2030-12-01 09:00:00
	// every 10m: 2030-01-05 08:33:19
}
