package command

import (
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestNamespaceRemove(t *testing.T) {
	process := redistest.Start(t)
	server := redistest.Connect(t, process)
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Namespace: "trial", Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		if _, err := ring.Account(id).Register(t.Context(), circulate.Registration{Record: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	where := map[string]string{"ROUNDS_REDIS_URL": "redis://" + process.Addr()}
	rm := func(answer string, atTerminal bool, args ...string) (output, error) {
		var out, errs strings.Builder
		env := testEnvironment(where)
		env.stdin, env.stdout, env.stderr = strings.NewReader(answer), &out, &errs
		env.isTerminal = func(any) bool { return atTerminal }
		err := run(t.Context(), append([]string{"namespace", "rm"}, args...), env)
		return output{out.String(), errs.String()}, err
	}
	process2 := circulate.Process{Name: "p1", Roles: "monitor"}
	if _, err := ring.Roster().Attend(t.Context(), process2, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := rm("", false, "trial", "--dry-run"); err != nil || !strings.Contains(got.out, "with 2 accounts and 0 messages\nin use by process p1 (monitor), heard of ") {
		t.Errorf("dry run: %+v, %v", got, err)
	}
	if _, err := rm("", false, "trial", "--yes"); err == nil || exitCode(err) != 1 || !strings.Contains(err.Error(), "namespace trial is in use by process p1 (monitor) (heard of ") {
		t.Errorf("in use: %v", err)
	}
	if err := ring.Roster().Depart(t.Context(), process2); err != nil {
		t.Fatal(err)
	}
	if _, err := rm("trial\n", false, "trial"); err == nil || exitCode(err) != 2 || !strings.Contains(err.Error(), "use --yes") {
		t.Errorf("nobody to ask: %v", err)
	}
	if got, err := rm("y\n", true, "trial"); err == nil || err.Error() != "that is not its name: nothing was removed" || !strings.Contains(got.err, "Type the namespace's name to go on: ") {
		t.Errorf("another answer: %+v, %v", got, err)
	}
	if _, err := rm("", false, "rounds", "--yes"); err == nil || !strings.Contains(err.Error(), "there is no namespace rounds in Redis at "+process.Addr()) {
		t.Errorf("none: %v", err)
	}
	if _, err := rm("", false, "a*b", "--yes"); err == nil || !strings.Contains(err.Error(), `namespace "a*b"`) {
		t.Errorf("no name: %v", err)
	}
	// --force removes the namespace even while a process uses it.
	if _, err := ring.Roster().Attend(t.Context(), process2, nil); err != nil {
		t.Fatal(err)
	}
	got, err := rm("trial\n", true, "trial", "--force")
	if err != nil || !strings.HasPrefix(got.out, "removed namespace trial from Redis at "+process.Addr()+": ") || !strings.HasSuffix(got.out, " keys, with 2 accounts and 0 messages\n") ||
		!strings.Contains(got.err, " ordered remove-namespace done by="+service.SystemUser()+" via=system namespace=trial keys=") {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := rm("", false, "trial", "--dry-run"); err == nil || !strings.Contains(err.Error(), "there is no namespace trial") {
		t.Errorf("afterwards: %v", err)
	}
	where = nil
	if _, err := rm("", false, "trial"); err == nil || !strings.Contains(err.Error(), "ROUNDS_REDIS_URL must say") {
		t.Errorf("no Redis: %v", err)
	}
}
