package ilink

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// firstID is the message_id before a bot's first. No float and no signed integer can hold it.
const firstID uint64 = 1<<63 + 1<<53

// MessageID returns the message_id of a bot's n-th message, counted from 1.
func MessageID(_ string, n int) string { return strconv.FormatUint(firstID+uint64(n), 10) }

// Post sends a message of a type to a bot and returns its number.
func (w *Ilink) Post(token, kind string) int { return w.post(token, kind, "") }

// Write sends a text to a bot and returns its number.
func (w *Ilink) Write(token, text string) int { return w.post(token, "text", text) }

func (w *Ilink) post(token, kind, text string) int {
	return w.postItem(token, func(n int, now int64) string { return item(kind, n, now, text) })
}

// postItem sends a message with an item that the caller makes from its number and its time.
func (w *Ilink) postItem(token string, item func(n int, now int64) string) int {
	return w.postRaw(token, func(n int) string {
		now := w.options.Now().UnixMilli()
		return fmt.Sprintf(`{"seq":%d,"message_id":%s,"from_user_id":"person@im.wechat","to_user_id":"bot@im.bot","client_id":"c-%d",`+
			`"create_time_ms":%d,"update_time_ms":%d,"session_id":"person#bot","group_id":"","message_type":1,"message_state":2,`+
			`"item_list":[%s],"context_token":"context-%d"}`, n, MessageID("", n), n, now, now, item(n, now), n)
	})
}

// postRaw sends an element of msgs that the caller makes from its number. It returns 0 if no bot
// has the token.
func (w *Ilink) postRaw(token string, element func(n int) string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.bots[token]
	if b == nil {
		return 0
	}
	n := len(b.posted) + 1
	b.posted = append(b.posted, json.RawMessage(element(n)))
	b.wrote, b.answers = w.options.Now(), 0
	b.changed()
	return n
}

// Again gives a message again, as the real server sometimes does: with another seq, with other
// addresses of its media, and perhaps without its message_id. It returns the number under which it
// is given.
func (w *Ilink) Again(token string, n int, withoutID bool) int {
	w.mu.Lock()
	raw := w.bots[token].posted[n-1]
	w.mu.Unlock()
	return w.postRaw(token, func(seq int) string {
		var m map[string]json.RawMessage
		if json.Unmarshal([]byte(strings.ReplaceAll(string(raw), "cGFyYW0=", fmt.Sprintf("again-%d", seq))), &m) != nil {
			return string(raw)
		}
		m["seq"] = json.RawMessage(strconv.Itoa(seq))
		if withoutID {
			delete(m, "message_id")
		}
		text, err := json.Marshal(m)
		if err != nil {
			return string(raw)
		}
		return string(text)
	})
}

// media is a file that the CDN has forgotten. SendFile sends one that it has.
const media = `{"encrypt_query_param":"cGFyYW0=","aes_key":"MDEyMzQ1Njc4OWFiY2RlZg==","encrypt_type":1}`

func item(kind string, n int, now int64, text string) string {
	head := func(number int) string {
		return fmt.Sprintf(`{"type":%d,"create_time_ms":%d,"is_completed":true,"msg_id":%s,`, number, now, MessageID("", n))
	}
	switch kind {
	case "image":
		return head(2) + `"image_item":{"media":` + media + `,"thumb_media":` + media + `,"aeskey":"30313233343536373839616263646566","mid_size":20480}}`
	case "voice":
		return head(3) + `"voice_item":{"media":` + media + `,"encode_type":6,"bits_per_sample":16,"sample_rate":24000,"playtime":2300,"text":"你好"}}`
	case "file":
		return head(4) + `"file_item":{"media":` + media + `,"file_name":"报价.pdf","md5":"0cc175b9c0f1b6a831c399e269772661","len":"20480"}}`
	case "video":
		return head(5) + `"video_item":{"media":` + media + `,"video_size":204800,"play_length":7,"thumb_media":` + media + `}}`
	}
	if text == "" {
		text = fmt.Sprintf("message %d 你好 😀", n)
	}
	quoted, _ := json.Marshal(text) // a text can always be encoded
	return head(1) + `"text_item":{"text":` + string(quoted) + `}}`
}
