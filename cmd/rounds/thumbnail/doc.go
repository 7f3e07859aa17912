// Package thumbnail makes small images of images that strangers sent. What it returns is encoded
// anew, so nothing of the stranger's bytes reaches a browser.
//
// The bytes alone say what an image is: neither a name nor a media type counts. JPEG, PNG, GIF (its
// first frame) and WebP are decoded. Before that, Make reads how large the image is, and
// refuses what has more than MaxPixels, or what may need more memory than one decoding gets. Decoding
// ends after a while. A Maker decodes one image at a time. The thumbnail of a JPEG
// stands upright, as the orientation in its Exif data says.
package thumbnail
