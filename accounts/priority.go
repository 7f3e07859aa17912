package accounts

import "github.com/rounds-dev/rounds/circulate"

// The priorities of an account: which of the accounts of its shard that are due
// it is checked before. See circulate.Priority for what each is promised.
const (
	PriorityUrgent = "urgent"
	PriorityNormal = "normal"
	PriorityLow    = "low"
)

func priorities() map[string]circulate.Priority {
	return map[string]circulate.Priority{
		PriorityUrgent: circulate.Urgent,
		PriorityNormal: circulate.Normal,
		PriorityLow:    circulate.Low,
	}
}

var priorityFault = Fault{Field: "priority", Reason: `must be "urgent", "normal" or "low"`}

// lane is the lane of message_queue that the account waits in.
func (a Account) lane() circulate.Priority { return priorities()[a.Priority] }

// laneWord is the word for a lane. One that this version does not know is a
// normal one, as it is to the ring.
func laneWord(lane circulate.Priority) string {
	for word, p := range priorities() {
		if p == lane {
			return word
		}
	}
	return PriorityNormal
}
