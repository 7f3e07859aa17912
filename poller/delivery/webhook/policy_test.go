package webhook_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
)

// When an endpoint answers with errors for hours, its messages must not become dead letters.
func TestBackoffLastsAboutADay(t *testing.T) {
	var least, most time.Duration
	for n := 1; n < webhook.MaxDeliveries; n++ {
		pause := webhook.Backoff(n)
		full := min(webhook.LongestPause, webhook.FirstPause<<min(n-1, 16))
		if pause <= full-full/10-time.Millisecond || pause > full {
			t.Errorf("pause %d is %v", n, pause)
		}
		least, most = least+full-full/10, most+full
	}
	if least < 20*time.Hour || most > 26*time.Hour {
		t.Errorf("a message is dead after %v to %v", least, most)
	}
}

// The package's documentation and the guide state the policy that applies.
func TestThePolicyIsTheOneThatIsStated(t *testing.T) {
	words := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\n//", "\n")), " ")
	}
	short := func(d time.Duration) string {
		switch {
		case d%time.Hour == 0:
			return fmt.Sprintf("%d h", d/time.Hour)
		case d%time.Minute == 0:
			return fmt.Sprintf("%d min", d/time.Minute)
		}
		return fmt.Sprintf("%d s", d/time.Second)
	}
	mine := fmt.Sprintf("After a failed delivery a message waits %s, and after each further one twice as long, up to %s. After %d failed deliveries, which take about a day, it is a dead letter.",
		short(webhook.FirstPause), short(webhook.LongestPause), webhook.MaxDeliveries)
	for _, path := range []string{"doc.go", "../../../deployments/guide/messages.md"} {
		if !strings.Contains(words(path), mine) {
			t.Errorf("%s does not state: %s", path, mine)
		}
	}
	library := fmt.Sprintf("After a failed delivery a message waits %s, and after each further one four times as long, up to %s, minus a random part of up to a half. After %d failed deliveries it is a dead letter",
		short(delivery.FirstPause), short(delivery.LongestPause), delivery.MaxDeliveries)
	for _, path := range []string{"../doc.go", "../../../deployments/guide/messages.md"} {
		if !strings.Contains(words(path), library) {
			t.Errorf("%s does not state: %s", path, library)
		}
	}
	chinese := words("../../../deployments/guide/zh-CN/messages.md")
	translated := strings.NewReplacer(" h", " 小时", " min", " 分钟", " s", " 秒")
	for _, stated := range []string{
		fmt.Sprintf("第一次投递失败后等 %s，之后每次加倍，最长 %s。投递失败 %d 次（大约一天）后成为死信。",
			translated.Replace(short(webhook.FirstPause)), translated.Replace(short(webhook.LongestPause)), webhook.MaxDeliveries),
		fmt.Sprintf("第一次投递失败后等 %s，之后每次是前一次的四倍，最长 %s，再随机缩短至多一半。投递失败 %d 次后成为死信。",
			translated.Replace(short(delivery.FirstPause)), translated.Replace(short(delivery.LongestPause)), delivery.MaxDeliveries),
	} {
		if !strings.Contains(chinese, stated) {
			t.Errorf("the Chinese page does not state: %s", stated)
		}
	}
}
