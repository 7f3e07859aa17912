package command

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller/checkers/connector"
	"github.com/rounds-dev/rounds/testing/upstream"
)

func TestConnectorVerify(t *testing.T) {
	const key = "whsec_c2lnbmluZy1rZXktb2YtMjQtYnl0ZXMh"
	u := startUpstream(t, upstream.Options{SigningSecret: key, Deduplicates: true})
	u.PostN("a", 60)
	variables := map[string]string{"ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true", "ROUNDS_SECRET_CRM": key}
	args := []string{"connector", "verify", u.URL("connector", "a") + "?key=s3cret", "--secret", "CRM", "--account", "a"}
	got, err := runWith(t.Context(), variables, "", args...)
	if err != nil || !strings.Contains(got.out, "24 passed, 0 failed, 6 not judged") || strings.Contains(got.out, key) {
		t.Errorf("got %v\n%s", err, got.out)
	}
	got, err = runWith(t.Context(), variables, "", append(args, "--json")...)
	report := jsonReport(t, got.out)
	if err != nil || report.Verdict != "pass" || report.Passed != 24 || len(report.Findings) != 30 || report.Findings[0].Rule != "reachable" || report.Findings[5].Why == "" || strings.Contains(got.out, "s3cret") {
		t.Errorf("got %v\n%s", err, got.out)
	}
	got, err = runWith(t.Context(), variables, "", append(args, "--set", "send_url="+u.URL("send", "a"), "--set", "deduplicates=true", "--send-to", "anna")...)
	if err != nil || !strings.Contains(got.out, "28 passed, 0 failed, 2 not judged") || len(u.Sent("a")) != 1 || u.Sent("a")[0].To != "anna" {
		t.Errorf("with a send: %v, and %+v was taken\n%s", err, u.Sent("a"), got.out)
	}
	variables["ROUNDS_SECRET_CRM"] = "whsec_" + base64.StdEncoding.EncodeToString([]byte("another-key-of-24-bytes-!"))
	got, err = runWith(t.Context(), variables, "", args...)
	if !errors.Is(err, errNotConformant) || exitCode(err) != 1 || !strings.Contains(got.out, "FAIL") || !strings.Contains(got.out, "→ sign with the secret") {
		t.Errorf("with another key: %v\n%s", err, got.out)
	}
}

type report struct {
	URL, Verdict   string
	Passed, Failed int
	NotJudged      int `json:"not_judged"`
	Findings       []struct{ Rule, Why, Verdict, Seen, Advice string }
}

func jsonReport(t *testing.T, text string) (r report) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	return r
}

func TestConnectorVerifyWhatCannotBeJudged(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{"config.url", []string{"ftp://x"}},
		{"nor ROUNDS_SECRET_NONE, and stored secrets are in Redis and are not found here: put it into one of the two", []string{"http://localhost:1/", "--secret", "NONE"}},
		{"unknown flag", []string{"http://localhost:1/", "--secrets", "NONE"}},
		{"URL is missing", nil},
		{"--set", []string{"http://localhost:1/", "--set", "x"}},
		{"ROUNDS_CHECK_TIMEOUT", []string{"http://localhost:1/", "--check-timeout", "0s"}},
	} {
		_, err := runWith(t.Context(), private, "", append([]string{"connector", "verify"}, c.args...)...)
		if err == nil || exitCode(err) != 2 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, code %d", c.args, err, exitCode(err))
		}
	}
	got, err := runWith(t.Context(), private, "", "connector", "verify", "http://127.0.0.1:1/")
	if !errors.Is(err, errUnreached) || exitCode(err) != 2 || got.out != "127.0.0.1:1: no connection to the host: connection refused\n→ start the connector, or correct the address\n" {
		t.Errorf("got %v\n%s", err, got.out)
	}
	got, err = runWith(t.Context(), private, "", "connector", "verify", "http://127.0.0.1:1/", "--json")
	if r := jsonReport(t, got.out); exitCode(err) != 2 || r.Verdict != "not judged" || r.Failed != 1 || r.NotJudged != 29 || r.Findings[1].Seen != "the connector could not be reached" {
		t.Errorf("got %v\n%s", err, got.out)
	}
	got, err = runWith(t.Context(), nil, "", "connector", "verify", "http://localhost:1/")
	if exitCode(err) != 2 || !strings.Contains(err.Error(), "; this command needs ROUNDS_ALLOW_NETWORKS=localhost:1") {
		t.Errorf("got %v\n%s", err, got.out)
	}
}

func TestConnectorSchemaIsTheGuides(t *testing.T) {
	file, err := os.ReadFile(filepath.Join(top, "deployments/guide/connector.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := runWith(t.Context(), nil, "", "connector", "schema"); err != nil || got.out != string(file) {
		t.Errorf("got %v\n%s", err, got.out)
	}
}

func TestTheGuideHasEveryRule(t *testing.T) {
	read := func(name string) string {
		page, err := os.ReadFile(filepath.Join(top, "deployments/guide", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(page)
	}
	var table strings.Builder
	var names []string
	for _, rule := range connector.Rules() {
		table.WriteString("| " + rule.Name + " | " + strings.TrimSuffix(rule.Why, ".") + " |\n")
		names = append(names, rule.Name)
	}
	if !strings.Contains(read("connectors.md"), "\n| rule | why |\n|---|---|\n"+table.String()+"\n") {
		t.Errorf("the guide's table of rules is not\n%s", &table)
	}

	// The Chinese table has the names as the command prints them, each with its translation.
	_, rows, _ := strings.Cut(read("zh-CN/connectors.md"), "\n| 规则 | 原因 |\n|---|---|\n")
	rows, _, _ = strings.Cut(rows, "\n\n")
	var translated []string
	for row := range strings.Lines(rows) {
		name, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), "（")
		translated = append(translated, name)
	}
	if !slices.Equal(translated, names) {
		t.Errorf("the rules of the Chinese page are %q, want %q", translated, names)
	}
}
