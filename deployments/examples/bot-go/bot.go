// Command bot-go is a bot for rounds: it answers each message that the webhook brings.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

type message struct {
	Account, Kind, ID, Type, Handle string
	Data                            json.RawMessage // as the third party has it
}

func answer(message) string { return "Thank you, we have your message." }

func main() {
	secret := os.Getenv("BOT_SECRET")
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil || secret == "" {
		log.Fatal("BOT_SECRET is missing, or is not whsec_ and base64")
	}
	rounds := client.New(cmp.Or(os.Getenv("ROUNDS_API_URL"), "http://127.0.0.1:8080"), os.Getenv("ROUNDS_API_TOKEN"))
	bot := func(w http.ResponseWriter, r *http.Request) {
		var event struct{ Data message }
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || webhook.Verify(body, r.Header) != nil || json.Unmarshal(body, &event) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(send(r.Context(), rounds, w.Header(), r.Header.Get("webhook-id"), event.Data))
	}
	server := &http.Server{Addr: "127.0.0.1:" + cmp.Or(os.Getenv("BOT_PORT"), "9100"), Handler: http.HandlerFunc(bot), ReadTimeout: 30 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// send queues the answer, and returns the status for rounds. Under one key the answer is queued once, however
// often rounds brings the message.
func send(ctx context.Context, rounds *client.Client, header http.Header, key string, m message) int {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	text, err := json.Marshal(map[string]string{"text": answer(m)})
	if err != nil {
		return http.StatusInternalServerError
	}
	_, err = rounds.Send(ctx, m.Account, key, api.SendRequest{ReplyTo: m.Handle, Data: text})
	if err == nil {
		return http.StatusNoContent
	}
	log.Print(m.Account, " ", m.ID, ": ", err)
	switch client.Status(err) {
	case http.StatusConflict, http.StatusUnprocessableEntity: // refused for good
		return http.StatusNoContent
	case 0, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout: // 0: there was no answer
		header.Set("Retry-After", "1")
	}
	return http.StatusServiceUnavailable // rounds brings the message again
}
