package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// value is a reply as text: one field says which kind of value it is.
type value struct {
	Int    *int64   `json:"i,omitempty"`
	Bulk   *string  `json:"b,omitempty"`
	Status *string  `json:"s,omitempty"`
	Error  *string  `json:"e,omitempty"`
	Array  *[]value `json:"a,omitempty"`
}

func asValue(reply any) value {
	switch r := reply.(type) {
	case int64:
		return value{Int: &r}
	case []byte:
		text := string(r)
		return value{Bulk: &text}
	case string:
		return value{Status: &r}
	case redis.Error:
		text := string(r)
		return value{Error: &text}
	case []any:
		all := make([]value, len(r))
		for i := range r {
			all[i] = asValue(r[i])
		}
		return value{Array: &all}
	}
	return value{}
}

func (v value) reply() any {
	switch {
	case v.Int != nil:
		return *v.Int
	case v.Bulk != nil:
		return []byte(*v.Bulk)
	case v.Status != nil:
		return *v.Status
	case v.Error != nil:
		return redis.Error(*v.Error)
	case v.Array != nil:
		all := make([]any, len(*v.Array))
		for i := range all {
			all[i] = (*v.Array)[i].reply()
		}
		return all
	}
	return nil
}

// cut is the reply of an operation whose outcome is unknown.
const cut = "cut"

// errCut is the error that a client sees then.
var errCut = errors.New("explore: connection cut")

// encode writes the replies of one operation as a text.
func encode(replies []any) (string, error) {
	all := make([]value, len(replies))
	for i := range replies {
		all[i] = asValue(replies[i])
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(all); err != nil {
		return "", err
	}
	return b.String(), nil
}

func decode(text string) ([]any, error) {
	if text == cut {
		return nil, errCut
	}
	var all []value
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("reply %q: %w", text, err)
	}
	replies := make([]any, len(all))
	for i := range all {
		replies[i] = all[i].reply()
	}
	return replies, nil
}
