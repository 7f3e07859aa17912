package byhand

import (
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/poller"
)

// failureOf describes an error as a poller does.
func failureOf(err error) *trial.Failure {
	known := poller.Classify(err)
	kind, scope := known.Kind, known.Scope
	f := &trial.Failure{
		Kind: string(kind), Scope: string(scope), Code: known.Code, Message: known.Message, RetryAfter: known.RetryAfter.Seconds(), Final: known.Final,
	}
	then, parking := thenOf(known)
	if f.Then = then; then != trial.Retry && then != trial.Park {
		f.Budget = parking.After
	}
	f.Pool = poolWould(f, kind, known.RetryAfter, parking.Over)
	return f
}

// thenOf returns what a poller does about a failure, and what parks the account.
func thenOf(e *poller.CheckError) (trial.Then, cadence.Parking) {
	if e.Kind == poller.Unsupported {
		return trial.Retry, cadence.Parking{}
	}
	parking := cadence.Policy{}.Parking(e.Class(), cadence.State{})
	switch {
	case parking.Rule == "":
		return trial.Retry, parking
	case parking.After == 1, e.Final && parking.Rule == cadence.RuleAuth:
		return trial.Park, parking
	case parking.Rule == cadence.RuleAuth:
		return trial.RefusalsThenPark, parking
	case e.Kind == poller.CursorInvalid:
		return trial.DropCursor, parking
	}
	return trial.RetryThenPark, parking
}

// poolWould says in words what a pool would do after a failure.
func poolWould(f *trial.Failure, kind poller.ErrorKind, after, over time.Duration) string {
	again := "checks again after a backoff"
	if after > 0 {
		again = fmt.Sprintf("checks again after %v at the earliest", after)
	}
	switch {
	case kind == poller.Unsupported:
		return "leaves the account to replicas of a version that knows it; does not count against the account"
	case kind == poller.RateLimited:
		return again + "; does not count against the account"
	case f.Then == trial.Retry:
		return again + "; does not count against the account, which is not to blame"
	case f.Then == trial.Park && kind == poller.AuthFailed:
		return "parks the account at once, because trying again may do harm"
	case f.Then == trial.RefusalsThenPark:
		return fmt.Sprintf("checks again, and parks the account after %d refusals over at least %v", f.Budget, over)
	case f.Then == trial.Park:
		return "parks the account at once"
	case f.Then == trial.DropCursor:
		return fmt.Sprintf("drops the cursor, and %s without one; parks the account after %d failures in a row", again, f.Budget)
	}
	return fmt.Sprintf("%s; parks the account after %d failures in a row", again, f.Budget)
}
