package weixin

import (
	"context"
	"crypto/md5" //nolint:gosec // getuploadurl asks for it
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const (
	pathUpload = "getuploadurl"

	typeImage = "image"
	typeVideo = "video"
	typeFile  = "file"

	// sealedHeader is where the CDN's answer to an upload has what a message names the file by.
	sealedHeader = "X-Encrypted-Param"
)

// fileRule is what a send of a file may have. WeChat tells no bound, and takes one item a call.
func fileRule() message.FileRule { return message.FileRule{Who: "WeChat"} }

// sentType returns the numbers of a type, as getuploadurl has it and as an item has it.
func sentType(name string) (media, item int) {
	switch name {
	case typeImage:
		return 1, 2
	case typeVideo:
		return 2, 5
	}
	return 3, 4
}

// uploaded is a file that the CDN has.
type uploaded struct {
	param string
	key   [keySize]byte
	name  string
	size  int64 // of the file itself
}

// item returns the item that names the file.
func (u *uploaded) item(name string) map[string]any {
	_, number := sentType(name)
	within := map[string]any{"media": map[string]any{
		"encrypt_query_param": u.param, "aes_key": base64.StdEncoding.EncodeToString([]byte(hex.EncodeToString(u.key[:]))), "encrypt_type": 1,
	}}
	switch name {
	case typeImage:
		within["mid_size"] = sealedSize(u.size)
	case typeVideo:
		within["video_size"] = sealedSize(u.size)
	default:
		within["file_name"], within["len"] = u.name, strconv.FormatInt(u.size, 10)
	}
	return map[string]any{"type": number, name + "_item": within}
}

// upload encrypts a send's file into the CDN, under a new key. Its error says that the send was not
// made.
func (c *caller) upload(ctx context.Context, r poller.SendRequest) (*uploaded, error) {
	if err := fileRule().Fits(r.File); err != nil {
		return nil, err
	}
	u := &uploaded{name: message.FileName(&r.File.File), size: r.File.Size}
	sum, err := md5Of(ctx, r.File)
	if err != nil {
		return nil, poller.Unsent(err)
	}
	var name [16]byte
	_, _ = rand.Read(name[:]) // it never fails
	_, _ = rand.Read(u.key[:])
	media, _ := sentType(r.Type)
	fields, err := c.ask(ctx, r, pathUpload, map[string]any{
		"filekey": hex.EncodeToString(name[:]), "media_type": media, "to_user_id": r.Peer, "rawsize": u.size, "rawfilemd5": sum,
		"filesize": sealedSize(u.size), "no_need_thumb": true, "aeskey": hex.EncodeToString(u.key[:]), "base_info": c.info(),
	})
	if err != nil {
		return nil, poller.Beforehand(err)
	}
	to, err := c.uploadAddress(fields, hex.EncodeToString(name[:]))
	if err != nil {
		return nil, err
	}
	if u.param, err = c.put(ctx, to, u.key, r.File); err != nil {
		return nil, err
	}
	return u, nil
}

// uploadAddress returns where the server wants a file.
func (c *caller) uploadAddress(fields map[string]json.RawMessage, name string) (string, error) {
	full, _ := textOf(fields["upload_full_url"])
	param, _ := textOf(fields["upload_param"])
	if len(full) > maxAddress || len(param) > maxAddress || full == "" && param == "" {
		return "", poller.Unsent(protocolError("has neither upload_full_url nor upload_param"))
	}
	if full == "" {
		return c.config.cdn + "/upload?encrypted_query_param=" + url.QueryEscape(param) + "&filekey=" + name, nil
	}
	if _, failed := (&medium{fullURL: full}).address(c.config); failed != nil {
		return "", poller.Unsent(protocolError("upload_full_url is neither https:// nor at the account's cdn_url or base_url"))
	}
	return full, nil
}

// put uploads a file, and returns what names it. No secret of the account is sent there.
func (c *caller) put(ctx context.Context, to string, key [keySize]byte, f *poller.SendFile) (param string, err error) {
	body := &fetch.Stream{Length: sealedSize(f.Size), Open: func(ctx context.Context) (io.ReadCloser, error) {
		from, err := f.Whole(ctx)
		if err != nil {
			return nil, err
		}
		return encrypt(from, key), nil
	}}
	answer, err := c.client.Do(ctx, fetch.Call{
		Method: http.MethodPost, URL: to, Header: http.Header{"Content-Type": {"application/octet-stream"}}, Stream: body, NoBody: true,
	})
	switch {
	case err != nil:
		return "", poller.Beforehand(fetch.StreamError(body, err))
	case answer.Status != http.StatusOK:
		return "", poller.Beforehand(fetch.SendStatusError(cdnName, answer))
	}
	param = answer.Header.Get(sealedHeader)
	if param == "" || len(param) > maxAddress {
		return "", poller.Unsent(&poller.CheckError{Kind: poller.Protocol, Code: "protocol", Message: fmt.Sprintf("%s took the file and did not say how to name it", cdnName)})
	}
	return param, nil
}

// md5Of returns the MD5 of a file, in hex.
func md5Of(ctx context.Context, f *poller.SendFile) (string, error) {
	from, err := f.Whole(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = from.Close() }() // it was only read
	sum := md5.New()                    //nolint:gosec // see the import
	if _, err := io.Copy(sum, from); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
