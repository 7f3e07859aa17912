package ringtest

import (
	"testing"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// Run holds a server to all that the ring promises. Each test has a namespace of
// its own, so that one server serves them all at once.
func Run(t *testing.T, server redistest.Redis) {
	t.Helper()
	// The group ends only when the parallel tests in it have.
	t.Run("ring", func(t *testing.T) {
		for name, test := range map[string]func(*fixture){
			"claim takes the longest waiting first":               claimInOrder,
			"claim is stamped by Redis' clock":                    claimStamped,
			"claim promotes what is due and no more":              claimPromotesDue,
			"claim says when the next is due":                     claimNextDue,
			"claim drops what is void":                            claimDropsVoid,
			"claim takes one of two copies":                       claimTakesOneCopy,
			"claim sets garbage aside":                            claimSetsGarbageAside,
			"claim tells of changed records":                      claimTellsChanges,
			"return writes all of it":                             returnWritesAll,
			"return of a lost claim writes nothing":               returnLostWritesNothing,
			"return twice is written once":                        returnTwice,
			"return at once goes to the queue":                    returnAtOnce,
			"return tells item by item":                           returnItemByItem,
			"return of many equals many returns":                  returnManyEqualsSingle,
			"cursor short and long":                               cursorShortAndLong,
			"failures and strikes":                                failuresAndStrikes,
			"lanes, urgent first, and none starves":               lanes,
			"lanes of all steps":                                  lanesOfSteps,
			"history and errors":                                  history,
			"probe keeps what it failed with":                     probe,
			"progress writes and renews":                          progressRenews,
			"progress of a lost claim writes nothing":             progressLost,
			"release puts next in line":                           releaseNextInLine,
			"release of what is held unknown":                     releaseHeld,
			"release of a lost claim moves nothing":               releaseLost,
			"requeue takes from the holder":                       requeueTakes,
			"the bare pattern's doubling does not happen":         noDoubling,
			"the bare pattern's loss does not happen":             noLoss,
			"a late push after a return is void":                  latePushIsVoid,
			"a monitor that stops half way leaves no double":      halfRequeue,
			"requeue puts back what MULTI took out for nothing":   requeueIntoMistyped,
			"requeue sets garbage aside":                          requeueSetsGarbageAside,
			"register once":                                       registerOnce,
			"upsert changes and fences":                           upsertFences,
			"upsert revives the failed and not the paused":        upsertRevives,
			"deregister leaves nothing":                           deregisterLeavesNothing,
			"an id registered again does not revive an old entry": reregisterDoesNotRevive,
			"pause and resume":                                    pauseAndResume,
			"resume for one reason":                               resumeForReason,
			"parked accounts, page by page":                       parkedPages,
			"turn tells what is ahead":                            turns,
			"nudge moves earlier, never later":                    nudgeEarlier,
			"nudge of a claimed account":                          nudgeClaimed,
			"nudge brings a hint once":                            nudgeHint,
			"nudges merge":                                        nudgesMerge,
			"a key of a wrong type is set aside":                  mistypedKeys,
			"tickets are never used twice":                        ticketsNeverTwice,
			"scripts flushed are loaded again":                    scriptFlush,
			"messages are trimmed but not unread":                 trimMessages,
			"messages are trimmed to a number":                    trimToANumber,
			"replicas":                                            replicas,
			"only what is due earlier wakes":                      wakes,
			"limit, the rate holds":                               rateHolds,
			"limit, the denied come back in order":                rateLine,
			"limit, who comes back late":                          rateJitter,
			"limit, no herd after an outage":                      rateOutage,
			"limit, a refund":                                     rateRefund,
			"limit, leases hold":                                  leasesHold,
			"limit, leases of the crashed expire":                 leaseCrash,
			"limit, slots follow how long leases are held":        leaseHold,
			"limit, a refund of leases":                           leaseRefund,
			"limit, a change of the limit":                        limitChanges,
			"limit, several at once":                              limitsTogether,
			"limit, bad input":                                    limitBadInput,
			"group reads each message once":                       groupReadsOnce,
			"group from the end":                                  groupFromEnd,
			"group, a read is bounded":                            groupReadIsBounded,
			"group, a lease is alone":                             leaseIsAlone,
			"group redelivers":                                    groupRedelivers,
			"group, dead letters":                                 deadLetters,
			"group, an effect once":                               effectOnce,
			"group, an effect among many":                         effectAmongMany,
			"group, an effect remembers":                          effectRemembers,
			"group states":                                        groupStates,
			"group members":                                       groupMembers,
			"group awaits":                                        groupAwaits,
			"group, bad input":                                    groupBadInput,
			"staleness":                                           staleness,
			"one is on duty":                                      duties,
			"audit finds nothing in a healthy ring":               auditHealthy,
			"audit finds the lost":                                auditFindsLost,
			"audit finds the doubled":                             auditFindsDoubled,
			"audit finds orphans, garbage, missing records":       auditFindsTheRest,
			"audit rebuilds from the records":                     auditRebuilds,
			"audit of long lists":                                 auditLongLists,
			"audit under load finds nothing":                      auditUnderLoad,
			"meta must agree":                                     metaAgrees,
			"bad input is refused":                                badInput,
			"random walk":                                         randomWalk,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(newFixture(t, server))
			})
		}
	})
}
