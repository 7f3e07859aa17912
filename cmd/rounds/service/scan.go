package service

import (
	"cmp"
	"context"
	"errors"

	"github.com/rounds-dev/rounds/cmd/rounds/login"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/weixin"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// scanAt returns the server at which WeChat accounts are signed in, reached under the pollers'
// rules. It is at base, or at WeChat if base is empty.
func scanAt(client *fetch.Client, base string) *scan.Server {
	return &scan.Server{
		Base: cmp.Or(base, weixin.DefaultBaseURL), Kind: weixin.Kind, Validate: client.Validate,
		NewCode: func(ctx context.Context, base string) (scan.Code, error) {
			code, err := weixin.NewCode(ctx, client, base)
			return scan.Code(code), toldOf(err)
		},
		Ask: func(ctx context.Context, base, qrcode, digits string) (scan.Told, error) {
			told, err := weixin.AskStatus(ctx, client, base, qrcode, digits)
			return scan.Told(told), toldOf(err)
		},
	}
}

// toldOf turns a checker's error into one that may be shown.
func toldOf(err error) error {
	if failed, ok := errors.AsType[*poller.CheckError](err); ok {
		return &login.Error{Code: failed.Code, Text: failed.Message}
	}
	return err
}
