package command

import (
	"context"
	"maps"
	"strings"
	"testing"
)

// spokenBy runs a command as Main does, and returns what it printed.
func spokenBy(ctx context.Context, variables map[string]string, args ...string) (out, errs string) {
	var stdout, stderr strings.Builder
	env := testEnvironment(variables)
	env.stdin, env.stdout, env.stderr = strings.NewReader(""), &stdout, &stderr
	if err := run(ctx, args, env); err != nil {
		env.report(err)
	}
	return stdout.String(), stderr.String()
}

// Errors and results of commands follow the environment. What is made for programs does not.
func TestCommandsFollowTheLanguageOfTheEnvironment(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "news", "--kind", "feed", "--set", "url=u")
	in := func(lang string, args ...string) string {
		variables := map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken, "LANG": lang}
		out, errs := spokenBy(t.Context(), variables, args...)
		return out + errs
	}
	for _, c := range []struct {
		args        []string
		en, chinese string
	}{
		{[]string{"account", "get", "none"}, "rounds: none: no account has this id (404 Not Found)\n", "rounds: none：没有账号使用此 ID（404 未找到）\n"},
		{[]string{"account", "why", "none"}, "rounds: none: no account has this id (404 Not Found)\n", "rounds: none：没有账号使用此 ID（404 未找到）\n"},
		{[]string{"account", "nudge", "none"}, "rounds: none: no account has this id (404 Not Found)\n", "rounds: none：没有账号使用此 ID（404 未找到）\n"},
		{[]string{"account", "pause", "none"}, "rounds: none: no account has this id (404 Not Found)\n", "rounds: none：没有账号使用此 ID（404 未找到）\n"},
		{[]string{"account", "set", "news"}, "rounds: nothing to change: name something, with flags such as --every, --label or --set\n", "rounds: 没有要修改的内容：请用 --every、--label 或 --set 等参数指定\n"},
		{[]string{"account", "set", "news", "--set", "x", "--label", "y"}, "rounds: --set \"x\" must be key=value\n--label \"y\" must be name=value\n", "rounds: --set \"x\" 必须是 key=value\n--label \"y\" 必须是 name=value\n"},
		{[]string{"account", "set", "news", "--cadence", "often"}, "rounds: news: validation failed (422 Unprocessable Entity)\n" +
			"  cadence: \"often\" is not a cadence: a cadence begins with \"every\", \"adaptive\", \"cron\" or \"at\", as in \"every 1m\"\n", "rounds: news：校验未通过（422 内容无法处理）\n" +
			"  cadence：\"often\" 不是周期：周期以 \"every\"、\"adaptive\"、\"cron\" 或 \"at\" 开头，例如 \"every 1m\"\n"},
		{[]string{"account", "add", "x"}, "rounds: --kind is missing: which checker checks it, such as feed or http\n", "rounds: 缺少 --kind：which checker checks it, such as feed or http\n"},
		{[]string{"account", "get"}, "rounds: ID is missing: rounds account get ID\n", "rounds: 缺少 ID：rounds account get ID\n"},
		{[]string{"account", "get", "--evry"}, "rounds: unknown flag: --evry\n", "rounds: 未知参数：--evry\n"},
		{[]string{"account", "impor"}, "rounds: rounds account has no command \"impor\": did you mean import?\n", "rounds: rounds account 没有命令 \"impor\"：是否想用 import？\n"},
		{[]string{"account", "rm", "--all"}, "rounds: it cannot be undone, and nobody can be asked: use --yes, or --dry-run to count\n", "rounds: 此操作无法撤销，而这里无法询问：请使用 --yes，或用 --dry-run 只计数\n"},
		{[]string{"messages", "tail", "--from", "then"}, "rounds: --from is \"then\": must be start or now\n", "rounds: --from 是 \"then\"：必须是 start 或 now\n"},
		{[]string{"stats", "--interval", "0s"}, "rounds: --interval must be more than 0\n", "rounds: --interval 必须大于 0\n"},
		{[]string{"account", "nudge", "news"}, "news nudged\n", "已请求检查 news\n"},
		{[]string{"account", "pause", "--kind", "feed", "--dry-run"}, "1 would be paused, 0 unchanged; 1 of 1 account was selected\n", "将暂停 1 个，未改变 0 个；1 个账号中选中 1 个\n"},
	} {
		for _, lang := range []string{"C", "C.UTF-8", "en_US.UTF-8", "zh_CN.GBK", ""} {
			if got := in(lang, c.args...); got != c.en {
				t.Errorf("%q in %q: %q", c.args, lang, got)
			}
		}
		if got := in("zh_CN.UTF-8", c.args...); got != c.chinese {
			t.Errorf("%q in Chinese: %q, want %q", c.args, got, c.chinese)
		}
	}
	for _, args := range [][]string{{"account", "get", "news", "--json"}, {"account", "list", "--json"}, {"account", "list"}, {"account", "pause", "--kind", "none", "--dry-run", "--json"}, {"settings"}, {"version"}, {"account", "--help"}} {
		if english, chinese := in("C", args...), in("zh_CN.UTF-8", args...); english != chinese || strings.ContainsFunc(chinese, func(c rune) bool { return c >= '一' && c <= '龥' }) {
			t.Errorf("%q: %q in English, %q in Chinese", args, english, chinese)
		}
	}
}

// The error for a service that cannot be reached, or that refuses, is in the language of the
// environment.
func TestWhyACommandGotNoAnswerFollowsTheEnvironment(t *testing.T) {
	s := startAPI(t)
	for want, variables := range map[string]map[string]string{
		"（401 未认证）：请把 ROUNDS_API_TOKEN 设为 " + s.url + " 上的服务的令牌，或一个 API 密钥\n":                                 {"ROUNDS_API_URL": s.url},
		"（401 未认证）：这里的 ROUNDS_API_TOKEN 不是 " + s.url + " 上的服务的\n":                                             {"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": "another-token-1234"},
		"rounds: 无法连接 API（http://127.0.0.1:1）：`rounds serve` 在运行吗？请设置 ROUNDS_API_URL（连接 127.0.0.1:1：连接被拒绝）\n": {"ROUNDS_API_URL": "http://127.0.0.1:1"},
		"rounds: ROUNDS_API_URL 现在是 \"x\"：必须是 URL，例如 http://127.0.0.1:8080 或 unix:///run/rounds/api.sock\n":   {"ROUNDS_API_URL": "x"},
	} {
		variables = maps.Clone(variables)
		variables["LC_ALL"] = "zh_CN.UTF-8"
		if _, got := spokenBy(t.Context(), variables, "account", "list"); !strings.HasSuffix(got, want) {
			t.Errorf("%v: %q, want %q", variables, got, want)
		}
	}
}

// A prompt asks in the language of the environment, and takes the same answers.
func TestPromptsFollowTheLanguageOfTheEnvironment(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "news", "--kind", "feed", "--set", "url=u")
	for answer, want := range map[string]string{
		"n\n": "在 " + s.url + "：1 个账号将被永久删除。要继续吗？ [y/N] rounds: 没有移除任何内容\n",
		"y\n": "在 " + s.url + "：1 个账号将被永久删除。要继续吗？ [y/N] ",
	} {
		env := testEnvironment(map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken, "LANG": "zh_CN.UTF-8"})
		var out, errs strings.Builder
		env.stdin, env.stdout, env.stderr, env.isTerminal = strings.NewReader(answer), &out, &errs, func(any) bool { return true }
		err := run(t.Context(), []string{"account", "rm", "--kind", "feed"}, env)
		if err != nil {
			env.report(err)
		}
		if got := errs.String(); !strings.HasSuffix(got, want) {
			t.Errorf("%q: %q, want %q", answer, got, want)
		}
		if answer == "n\n" {
			continue
		}
		if got := out.String(); got != "删除 1 个，未改变 0 个；1 个账号中选中 1 个\n" {
			t.Errorf("%q: %q", answer, got)
		}
		s.must("account", "add", "news", "--kind", "feed", "--set", "url=u")
	}
}
