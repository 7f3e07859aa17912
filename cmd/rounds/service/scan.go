package service

import (
	"cmp"
	"context"
	"errors"

	"github.com/rounds-dev/rounds/cmd/rounds/login"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/weixin"
	"github.com/rounds-dev/rounds/poller/egress"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// scanAt returns the server at which WeChat accounts are signed in, reached under the pollers'
// rules. It is at base, or at WeChat if base is empty.
func scanAt(client *fetch.Client, base string) *scan.Server {
	return &scan.Server{
		Base: cmp.Or(base, weixin.DefaultBaseURL), Kind: weixin.Kind, Validate: client.Validate,
		NewCode: func(ctx context.Context, base string) (scan.Code, error) {
			code, err := weixin.NewCode(signsIn(ctx, weixin.Kind), client, base)
			return scan.Code(code), toldOf(err)
		},
		Ask: func(ctx context.Context, base, qrcode, digits string) (scan.Told, error) {
			told, err := weixin.AskStatus(signsIn(ctx, weixin.Kind), client, base, qrcode, digits)
			return scan.Told(told), toldOf(err)
		},
	}
}

// signsIn returns a context for the sign-in of an account of a kind. Its labels are not known yet, so
// its kind decides by which way the calls go.
func signsIn(ctx context.Context, kind string) context.Context {
	return egress.For(ctx, &egress.Account{Kind: kind})
}

// toldOf turns a checker's error into one that may be shown.
func toldOf(err error) error {
	if failed, ok := errors.AsType[*poller.CheckError](err); ok {
		return &login.Error{Code: failed.Code, Text: failed.Message}
	}
	return err
}
