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

func TestTranslate(t *testing.T) {
	for text, want := range map[string]string{
		"no account has this id":                       "没有账号使用此 ID",
		"news: no account has this id (404 Not Found)": "news：没有账号使用此 ID（404 未找到）",
		"validation failed (422 Unprocessable Entity)\n  cadence: \"often\" is not a cadence: a cadence begins with \"every\", \"adaptive\", \"cron\" or \"at\", as in \"every 1m\"\n  config.url: missing": "校验未通过（422 内容无法处理）\n  cadence：\"often\" 不是周期：周期以 \"every\"、\"adaptive\"、\"cron\" 或 \"at\" 开头，例如 \"every 1m\"\n  config.url：缺失",
		"must be at most 65536 bytes, has 70000":                        "最多 65536 字节，现有 70000",
		"is not a field of a record; its fields are id, kind and label": "不是记录的字段；字段有 id, kind 和 label",
		"cannot reach the API at http://127.0.0.1:1: is `rounds serve` running? set ROUNDS_API_URL (dial tcp 127.0.0.1:1: connect: connection refused)": "无法连接 API（http://127.0.0.1:1）：`rounds serve` 在运行吗？请设置 ROUNDS_API_URL（连接 127.0.0.1:1：连接被拒绝）",
		"Unauthorized (401 Unauthorized): set ROUNDS_API_TOKEN to that of the service at http://a, or to a key":                                         "未认证（401 未认证）：请把 ROUNDS_API_TOKEN 设为 http://a 上的服务的令牌，或一个 API 密钥",
		"rounds account has no command \"lst\": did you mean list?":                                                                                     "rounds account 没有命令 \"lst\"：是否想用 list？",
		"unknown flag: --evry: did you mean --every?":                                                                                                   "未知参数：--evry：是否想用 --every？",
		"--kind is missing: string":                                                                       "缺少 --kind：string",
		"3 paused, 0 unchanged; 3 of 9 accounts were selected":                                            "暂停 3 个，未改变 0 个；9 个账号中选中 3 个",
		"12 accounts will be removed for good. Go on?":                                                    "12 个账号将被永久删除。要继续吗？",
		"at http://x: 12 accounts will be removed for good. Go on? [y/N] ":                                "在 http://x：12 个账号将被永久删除。要继续吗？ [y/N] ",
		"a saved, revision 2":                                                                             "已保存 a，第 2 版",
		"--set \"x\" must be key=value\n--label \"y\" must be name=value":                                 "--set \"x\" 必须是 key=value\n--label \"y\" 必须是 name=value",
		`ROUNDS_SHARDS is "x": must be a whole number from 0 to 16384`:                                    `ROUNDS_SHARDS 现在是 "x"：必须是 0 到 16384 的整数`,
		"config.url: must not be a private address; rounds serve needs ROUNDS_ALLOW_NETWORKS=127.0.0.2:9": "config.url：不能是私有地址；rounds serve 需要 ROUNDS_ALLOW_NETWORKS=127.0.0.2:9",
		"config.project: unknown field; the fields are url and hold; what the connector itself needs goes into settings, such as settings.project, and what is secret into headers":                      "config.project：未知字段；字段有 url 和 hold；连接器自己需要的值写入 settings，例如 settings.project，机密的值写入 headers",
		"config.url: must not be a private address; add 127.0.0.2:9 to ROUNDS_ALLOW_NETWORKS of rounds serve":                                                                                            "config.url：不能是私有地址；请把 127.0.0.2:9 加入 rounds serve 的 ROUNDS_ALLOW_NETWORKS",
		"ROUNDS_API_ADDR: listen tcp 127.0.0.1:80: bind: address already in use: choose another with ROUNDS_API_ADDR, and ROUNDS_API_URL for the commands":                                               "ROUNDS_API_ADDR：监听 127.0.0.1:80：地址已被占用：请用 ROUNDS_API_ADDR 另选一个，并为命令设置 ROUNDS_API_URL",
		"ROUNDS_OPS_ADDR: listen tcp 127.0.0.1:80: bind: address already in use: rounds v1 with the namespace x is there; stop it, or choose another with ROUNDS_OPS_ADDR":                               "ROUNDS_OPS_ADDR：监听 127.0.0.1:80：地址已被占用：那里已有 rounds v1 with the namespace x；请停止它，或者请用 ROUNDS_OPS_ADDR 另选一个",
		"ROUNDS_API_ADDR: listen tcp 127.0.0.1:80: bind: address already in use: another rounds seems to be there; stop it, or choose another with ROUNDS_API_ADDR, and ROUNDS_API_URL for the commands": "ROUNDS_API_ADDR：监听 127.0.0.1:80：地址已被占用：那里似乎已有另一个 rounds；请停止它，或者请用 ROUNDS_API_ADDR 另选一个，并为命令设置 ROUNDS_API_URL",
		`ROUNDS_LOG_LEVEL (given as --log-level) is "warning": must be one of debug, info, warn, error`:                                                                                                  `ROUNDS_LOG_LEVEL（由 --log-level 给出）现在是 "warning"：必须是 debug, info, warn, error 之一`,
		`ROUNDS_LIMITS is "fed 1/s": rule 1, "fed 1/s": kind "fed" is not known; the kinds are feed, imap`:                                                                                               `ROUNDS_LIMITS 现在是 "fed 1/s"：第 1 条规则 "fed 1/s"：没有种类 "fed"；种类有 feed, imap`,
		`kind: "fed" is not known; the kinds are feed, imap`:                      `kind："fed" 不是种类；种类有 feed, imap`,
		"rounds account has no command \"lst\": did you mean get or list or set?": `rounds account 没有命令 "lst"：是否想用 get、list 或 set？`,
		"unknown flag: --x: did you mean --xa or --xb?":                           "未知参数：--x：是否想用 --xa 或 --xb？",
		"ROUNDS_API_ADR: no setting has this name (is it ROUNDS_API_ADDR?); it is refused because ROUNDS_REDIS_URL is not set and everything would be kept on this machine alone": "ROUNDS_API_ADR：没有这个名称的设置（是否为 ROUNDS_API_ADDR？）；由于没有设置 ROUNDS_REDIS_URL，一切都只会保存在本机，因此拒绝启动",

		"crm has 2 messages that it has not read and 0 that it has not acknowledged; it cannot be undone, and nobody can be asked: use --yes":                                               "crm 有 2 条消息未读取、0 条未确认；此操作无法撤销，而这里无法询问：请使用 --yes",
		"a has 1 messages that it has not read and 2 that it has not acknowledged\nb has 3 messages that it has not read and 4 that it has not acknowledged; the end":                       "a 有 1 条消息未读取、2 条未确认\nb 有 3 条消息未读取、4 条未确认；the end",
		"at http://x: crm has 2 messages that it has not read and 0 that it has not acknowledged":                                                                                           "在 http://x：crm 有 2 条消息未读取、0 条未确认",
		"namespace trial is in use by process p1 (monitor) (heard of 177ms ago); end them first, or use --force":                                                                            "命名空间 trial 正由进程 p1（monitor）（177ms 前有心跳）使用；请先结束它们，或使用 --force",
		"namespace trial is in use by process p1 (api,monitor) (heard of 177ms ago), replica p2 (heard of 1s ago), replica p3 (heard of 2s ago) and 4 more; end them first, or use --force": "命名空间 trial 正由进程 p1（api,monitor）（177ms 前有心跳）、副本 p2（1s 前有心跳）、副本 p3（2s 前有心跳）等使用，另有 4 个；请先结束它们，或使用 --force",
		"in use by process p1 (monitor), heard of 3s ago": "正由进程 p1（monitor）使用，3s 前有心跳",
		"ROUNDS_API_ADDR: listen tcp 127.0.0.1:80: bind: address already in use: rounds v1 (with everything in /var/lib/rounds) is there; stop it, or choose another with ROUNDS_OPS_ADDR": "ROUNDS_API_ADDR：监听 127.0.0.1:80：地址已被占用：那里已有 rounds v1（全部数据保存在 /var/lib/rounds）；请停止它，或者请用 ROUNDS_OPS_ADDR 另选一个",
		"must be api":      "必须是 api",
		"must be a string": "必须是字符串",

		// What a check or a send stores: the kind, the code, and the sentence, with the words of the third party.
		"auth: authenticationfailed: login: the server refused user or password: NO [AUTHENTICATIONFAILED]: no entry":                                     "auth：authenticationfailed：登录：服务器拒绝用户名或密码：NO [AUTHENTICATIONFAILED]: no entry",
		`transient: imap_no: mailbox "News": the server refused: NO: busy`:                                                                                `transient：imap_no：文件夹 "News"：服务器拒绝：NO: busy`,
		"transient: smtp_451: recipient: the SMTP server refused: 451 4.3.0 later":                                                                        "transient：smtp_451：收件人：SMTP 服务器拒绝：451 4.3.0 later",
		"protocol: Telegram's answer: result[3] is not an update":                                                                                         "protocol：Telegram 的回答：result[3] 不是更新",
		"transient: http_502: the API answered 502 Bad Gateway":                                                                                           "transient：http_502：API 回答 502 Bad Gateway",
		"auth: wecom_40001: WeCom refuses the corporation's id or secret: see the secret CORP":                                                            "auth：wecom_40001：企业微信拒绝企业的 id 或 secret：请核对密钥 CORP",
		"transient: wecom_60020: WeCom does not accept calls from our address: an administrator must add it to the application's trusted ones: 192.0.2.1": "transient：wecom_60020：企业微信不接受来自本机地址的调用：管理员须将其加入应用的可信 IP：192.0.2.1",
		"http_401: the connector answered 401 Unauthorized; the account has no signing_secret, so the request was not signed":                             "http_401：连接器回答 401 Unauthorized；该账号没有 signing_secret，请求因此没有签名",
		"gone: file_gone: the file's host has the file no more: it answered 404 Not Found":                                                                "gone：file_gone：文件所在的主机已没有该文件：它回答 404 Not Found",
		"refused_address: refused address: 10.0.0.1 is not among those that may be reached; add 10.0.0.1:80 to ROUNDS_ALLOW_NETWORKS of rounds serve":     "refused_address：不允许访问的地址：10.0.0.1 不在允许访问的地址之中；请把 10.0.0.1:80 加入 rounds serve 的 ROUNDS_ALLOW_NETWORKS",
		"auth: the connector's answer: error.kind: missing":                                                                                               "auth：连接器的回答：error.kind：缺失",
		"secret: PRESS: is neither stored, nor a file of ROUNDS_SECRETS_DIR, nor ROUNDS_SECRET_PRESS":                                                     "密钥：PRESS：没有存储，不是 ROUNDS_SECRETS_DIR 中的文件，也不是 ROUNDS_SECRET_PRESS",
		`secret_refused: secret PRESS: refused: its binding names other hosts than "a.example"`:                                                           `secret_refused：密钥 PRESS：拒绝使用：它的绑定不含主机 "a.example"`,
		"retry budget: 16 failures in a row, the last: tls: the host does not speak TLS on this port":                                                     "重试次数用尽：连续失败 16 次，最后一次：tls：主机在此端口不使用 TLS",

		// What a delivery says, behind the type of its endpoint.
		"postgres: refused with 28P01: the user or the password is wrong; again in 5s":                              "postgres：拒绝（28P01）：用户名或密码错误；5s 后再试",
		"postgres: one of the servers takes no writes, and another fails: the servers cannot be reached":            "postgres：其中一台服务器不接受写入，另一台失败：无法连接服务器",
		"kafka: the broker answers TOPIC_AUTHORIZATION_FAILED (29): allow the user to DESCRIBE and WRITE the topic": "kafka：Broker 回答 TOPIC_AUTHORIZATION_FAILED (29)：请允许该用户对主题执行 DESCRIBE 和 WRITE",
		"nats: the server refused TLS: certificate required: see client_certificate":                                "nats：服务器拒绝 TLS：certificate required：请核对 client_certificate",
		"webhook crm: answered 502":                             "Webhook crm：回答了 502",
		"webhook crm: answered 301: redirects are not followed": "Webhook crm：回答了 301：不跟随重定向",
		"the endpoint asked for a pause: answered 429":          "端点要求暂停：回答了 429",
		"file: write: no space left on device":                  "file：write：磁盘空间不足",
		"kafka: refused address: 10.0.0.1 is not among those that may be reached; rounds serve needs ROUNDS_ALLOW_NETWORKS=10.0.0.1:9092":                      "kafka：不允许访问的地址：10.0.0.1 不在允许访问的地址之中；rounds serve 需要 ROUNDS_ALLOW_NETWORKS=10.0.0.1:9092",
		"postgres: secret DB: refused: it is bound to no hosts, and an endpoint that was added while the service runs uses only secrets that are; again in 5s": "postgres：密钥 DB：拒绝使用：它没有绑定主机，而服务运行时添加的端点只能使用绑定了主机的密钥；5s 后再试",

		// What somebody wrote stays as it is, even if it looks like a message or like a template.
		"nothing: no account has this id":           "nothing：没有账号使用此 ID",
		`--set "must be missing" must be key=value`: `--set "must be missing" 必须是 key=value`,
		"%s saved, revision 7":                      "已保存 %s，第 7 版",
		"missing saved, revision 7":                 "已保存 missing，第 7 版",

		// A message that has no text stays English as a whole.
		"the moon is down":                        "the moon is down",
		"news: the moon is down: no cheese there": "news: the moon is down: no cheese there",
		"a saved, revision two":                   "a saved, revision two",
		"":                                        "",
		"\n":                                      "\n",
		": ":                                      ": ",
	} {
		if got := Chinese.Translate(text); got != want {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
		if got := English.Translate(text); got != text {
			t.Errorf("%q in English: %q", text, got)
		}
	}
}

// Errors come from requests: whatever their text, looking for its template ends soon.
func TestTheWorkIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"a long line": "must be " + strings.Repeat("x", maxLine),
		"a long text": strings.Repeat("no account has this id\n", maxText/10),
	} {
		if got := Chinese.Translate(text); got != text {
			t.Errorf("%s was translated", name)
		}
	}
	x, err := newIndex(map[string]string{"a%sb%sb%sb%sb%sc": "x"})
	if err != nil {
		t.Fatal(err)
	}
	left := steps(maxSteps)
	if _, ok := x.translate("a"+strings.Repeat("b", maxLine), 0, &left); ok || left != 0 {
		t.Errorf("%v, %d steps are left", ok, left)
	}
	left = maxSteps
	if got, _ := x.translate(strings.Repeat("x: ", maxLine)+"abbbbc", 0, &left); strings.HasSuffix(got, "x") {
		t.Error("errors are translated however deep they are")
	}
}

func TestATranslationNamesOnlyItsVerbs(t *testing.T) {
	for _, bad := range []string{"%[2]s", "%[0]s", "%[x]s", "%[1]d", "%[1]", "%[", "%[-1]s"} {
		if _, err := newIndex(map[string]string{"%s is odd": bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	texts, err := Texts(assets, Chinese)
	if err != nil {
		t.Fatal(err)
	}
	for english, other := range texts {
		if strings.Contains(strings.ReplaceAll(other, "%[", ""), "%") {
			t.Errorf("%q: %q has a percent sign that begins no %%[1]s", english, other)
		}
		if other == "" {
			t.Errorf("%q: empty", english)
		}
		if _, verbs := parse(english); strings.Count(other, "%[") < len(verbs) {
			t.Errorf("%q: %q leaves a value out", english, other)
		}
	}
}

func FuzzTranslate(f *testing.F) {
	for _, text := range []string{"news: no account has this id (404 Not Found)", "a%sb", `--set "x" must be key=value`, "\x00", `"`, "at : [y/N]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Chinese.Translate(text)
		if lines := strings.Count(text, "\n"); strings.Count(got, "\n") != lines {
			t.Errorf("%q: %q", text, got)
		}
	})
}

func BenchmarkTranslate(b *testing.B) {
	for name, text := range map[string]string{
		"plain":        "no account has this id",
		"fault":        "must be at most 65536 bytes, has 70000",
		"wrapped":      "news: the account: no account has this id (404 Not Found)",
		"untranslated": "the moon is down, and nobody has a text for it",
		"hostile":      "must be " + strings.Repeat("a: (1 must be, is ", 200),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Chinese.Translate(text)
			}
		})
	}
}
