//! Bytes as text: base64, gzip, PNG.

use std::io::Write as _;

use flate2::{Compression, GzBuilder};

use crate::Picture;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding (RFC 4648).
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let sextet = (bits >> (18 - 6 * i)) as usize & 63;
            text.push(if i <= group.len() { char::from(BASE64[sextet]) } else { '=' });
        }
    }
    text
}

/// Compressed bytes as base64. The header has no time and no name: the same bytes give the same text.
pub(crate) fn gzip_base64(bytes: &[u8]) -> String {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    // Writing to memory cannot fail; an empty block, which the page treats as a missing map, would be the result.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    base64(&written.unwrap_or_default())
}

/// A PNG as a `data:` URL. None if the pixels do not fit the size, or the size is not that of a picture.
pub(crate) fn picture_url(picture: &Picture) -> Option<String> {
    let color = match picture.channels {
        1 => png::ColorType::Grayscale,
        3 => png::ColorType::Rgb,
        _ => return None,
    };
    let n_values = picture.width.checked_mul(picture.height)?.checked_mul(picture.channels)?;
    if n_values == 0 || n_values != picture.pixels.len() {
        return None;
    }
    let mut bytes = Vec::new();
    let (width, height) = (u32::try_from(picture.width).ok()?, u32::try_from(picture.height).ok()?);
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(&picture.pixels).ok()?;
    writer.finish().ok()?;
    Some(format!("data:image/png;base64,{}", base64(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 4648.
    #[test]
    fn base64_of_all_paddings() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn pictures_that_do_not_fit_are_left_out() {
        let picture = |width, height, channels, n| Picture { width, height, channels, pixels: vec![7; n] };
        assert!(picture_url(&picture(2, 3, 1, 6)).unwrap().starts_with("data:image/png;base64,iVBOR"));
        assert!(picture_url(&picture(2, 3, 3, 18)).is_some());
        for wrong in
            [picture(2, 3, 1, 5), picture(0, 3, 1, 0), picture(2, 3, 2, 12), picture(usize::MAX, 2, 3, 6)]
        {
            assert_eq!(picture_url(&wrong), None);
        }
    }
}
