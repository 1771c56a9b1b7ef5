//! Compressed bodies: what is asked for, and taking it apart.

use std::io::{self, Read};

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use super::error::TransportError;
use super::transport::MOST_BODY;

/// The value of `accept-encoding`.
pub(super) const ACCEPTED: &str = "gzip, deflate, br, zstd";

/// Room that is made at a time for what comes out.
const PIECE: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    fn called(name: &str) -> Option<Self> {
        Some(match name {
            "gzip" | "x-gzip" => Self::Gzip,
            "deflate" => Self::Deflate,
            "br" => Self::Brotli,
            "zstd" => Self::Zstd,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// What `body` was before; more than `most` bytes where that is longer, but not all of it.
    fn undo(self, body: &[u8], most: u64) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip => bounded(flate2::read::MultiGzDecoder::new(body), most),
            Self::Deflate => inflated(body, most),
            Self::Brotli => bounded(brotli_decompressor::Decompressor::new(body, PIECE), most),
            Self::Zstd => zstd(body, most),
        }
    }
}

/// Whether the body came in a coding that has to be undone.
pub(super) fn is_encoded(headers: &HeaderMap) -> bool {
    headers.contains_key(CONTENT_ENCODING)
}

/// The body as it was before it was compressed; as it is, where it was not, or in a way that nobody asked for.
pub(super) fn decoded(headers: &HeaderMap, body: Bytes) -> Result<Bytes, TransportError> {
    decoded_up_to(MOST_BODY, headers, body)
}

fn decoded_up_to(most: u64, headers: &HeaderMap, mut body: Bytes) -> Result<Bytes, TransportError> {
    let names = headers.get_all(CONTENT_ENCODING).iter().flat_map(|value| {
        value.to_str().unwrap_or("not text").split(',').map(|name| name.trim().to_ascii_lowercase())
    });
    let codings: Option<Vec<Coding>> = names
        .filter(|name| name != "identity" && !name.is_empty())
        .map(|name| Coding::called(&name))
        .collect();
    // The answer to HEAD, or a 304, says how the body would come.
    let Some(codings) = codings.filter(|_| !body.is_empty()) else { return Ok(body) };
    // The last one named is the outermost.
    for coding in codings.into_iter().rev() {
        let undone = coding
            .undo(&body, most)
            .map_err(|source| TransportError::Encoding { coding: coding.name(), source })?;
        if undone.len() as u64 > most {
            return Err(TransportError::TooLarge);
        }
        body = undone.into();
    }
    Ok(body)
}

fn bounded(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    from.take(most + 1).read_to_end(&mut out)?;
    Ok(out)
}

/// `deflate` is meant to be zlib's format; there are servers that send the bare one.
fn inflated(body: &[u8], most: u64) -> io::Result<Vec<u8>> {
    let is_zlib =
        body.len() >= 2 && body[0] & 0x0f == 8 && u16::from_be_bytes([body[0], body[1]]).is_multiple_of(31);
    let mut state = Decompress::new(is_zlib);
    let mut out = Vec::new();
    loop {
        out.reserve(PIECE);
        let (read, before) = (state.total_in() as usize, out.len());
        let status = state.decompress_vec(&body[read..], &mut out, FlushDecompress::None)?;
        if status == Status::StreamEnd || out.len() as u64 > most {
            return Ok(out);
        }
        if out.len() == before && state.total_in() as usize == read {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// One frame after the other.
fn zstd(mut body: &[u8], most: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    while !body.is_empty() {
        let frame = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(&mut body, MOST_BODY);
        let left = (most + 1).saturating_sub(out.len() as u64);
        frame.map_err(io::Error::other)?.take(left).read_to_end(&mut out)?;
        if out.len() as u64 > most {
            break;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    /// "It was the best of times. ", twenty times, by node's zlib and the zstd command.
    const TIMES: [(&str, &str); 6] = [
        ("br", "GwcC+KVAXFqQQYChTKfABD4JSRVMQEcN"),
        ("zstd", "KLUv/WQIAQ0BANBJdCB3YXMgdGhlIGJlc3Qgb2YgdGltZXMuIAEArrc6x40G5/M="),
        ("zstd", "KLUv/WAIAQ0BANBJdCB3YXMgdGhlIGJlc3Qgb2YgdGltZXMuIAEArrc6xw=="),
        ("gzip", "H4sIAAAAAAAAA/MsUShPLFYoyUhVSEotLlHIT1MoycxNLdZT8ByVGUEyALC4+H8IAgAA"),
        ("deflate", "eJzzLFEoTyxWKMlIVUhKLS5RyE9TKMnMTS3WU/AclRlBMgB8xLEx"),
        ("deflate", "8yxRKE8sVijJSFVISi0uUchPUyjJzE0t1lPwHJUZQTIA"),
    ];

    /// 64 MiB of zeros and one more, by node's zlib.
    const BROTLI_BOMB: &str = "y///P/gnAOKxQCD3/o///3/wTwDEYRGA7v0f////4J8AiMMCAN37P/7//8E/ARCHBQC693/8//+DfwIgDgsAdO//+P//B/8EQBwWAOje//H//w/+CYA4LADQvf/j//8f/BMAcVgAoHv/BwCAAAM=";

    const MOST: u64 = 1 << 20;

    fn decode(codings: &[&str], body: &[u8]) -> Result<Bytes, TransportError> {
        let values = codings.iter().map(|coding| (CONTENT_ENCODING, HeaderValue::from_str(coding).unwrap()));
        decoded_up_to(MOST, &values.collect(), Bytes::copy_from_slice(body))
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_other_programs_compressed_is_read_and_nothing_less_than_all_of_it() {
        let text = "It was the best of times. ".repeat(20);
        for (coding, encoded) in TIMES {
            let body = STANDARD.decode(encoded).unwrap();
            assert_eq!(decode(&[coding], &body).unwrap(), text, "{coding}");
            for length in 1..body.len() {
                let error = decode(&[coding], &body[..length]).unwrap_err();
                assert_eq!(error.class(), "body", "{coding} cut off at {length}");
                assert!(error.to_string().starts_with(&format!("the body is not whole {coding}")), "{error}");
            }
        }
        let twice = |encoded: &str| STANDARD.decode(encoded).unwrap().repeat(2);
        assert_eq!(decode(&["gzip"], &twice(TIMES[3].1)).unwrap(), text.repeat(2));
        assert_eq!(decode(&["zstd"], &twice(TIMES[2].1)).unwrap(), text.repeat(2));
    }

    #[test]
    fn codings_are_undone_in_reverse_and_unknown_ones_are_left() {
        let twice = gzip(&gzip(b"text"));
        for (codings, want) in [
            (&["gzip, GZIP"][..], &b"text"[..]),
            (&["gzip", "x-gzip"], b"text"),
            (&["identity, gzip"], &gzip(b"text")),
            (&["gzip, compress"], &twice),
            (&["snappy"], &twice),
            (&["identity"], &twice),
            (&[], &twice),
        ] {
            assert_eq!(decode(codings, &twice).unwrap(), want, "{codings:?}");
        }
        assert_eq!(decode(&["gzip"], b"").unwrap(), "", "the answer to HEAD");
    }

    #[test]
    fn a_body_that_grows_beyond_all_measure_is_refused() {
        let zeros = vec![0; MOST as usize + 1];
        let (zip, brotli) = (gzip(&zeros), STANDARD.decode(BROTLI_BOMB).unwrap());
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&zeros).unwrap();
        let deflate = encoder.finish().unwrap();
        let zstd = ruzstd::encoding::compress_to_vec(&zeros[..], ruzstd::encoding::CompressionLevel::Fastest);
        for (coding, body) in [("gzip", zip), ("br", brotli), ("deflate", deflate), ("zstd", zstd)] {
            assert!(body.len() < 10_000, "{coding}: {}", body.len());
            let error = decode(&[coding], &body).unwrap_err();
            assert!(matches!(error, TransportError::TooLarge), "{coding}: {error:?}");
        }
        assert_eq!(decode(&["gzip"], &gzip(&zeros[1..])).unwrap().len() as u64, MOST);
    }

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    proptest! {
        #[test]
        fn what_is_compressed_comes_back(
            bytes in proptest::collection::vec(any::<u8>(), 1..3000), again in 1_usize..60,
        ) {
            let bytes = bytes.repeat(again);
            let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            zlib.write_all(&bytes).unwrap();
            let zstd = ruzstd::encoding::compress_to_vec(&bytes[..], ruzstd::encoding::CompressionLevel::Fastest);
            let bodies = [
                ("gzip", gzip(&bytes)), ("deflate", zlib.finish().unwrap()), ("deflate", deflated(&bytes)), ("zstd", zstd),
                ("deflate, gzip", gzip(&deflated(&bytes))),
            ];
            for (coding, body) in bodies {
                prop_assert_eq!(&decode(&[coding], &body).unwrap()[..], &bytes[..], "{}", coding);
            }
        }

        #[test]
        fn hostile_bytes_are_an_error_or_a_body_within_the_bound(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0_usize..60, flip in 1_u8..,
        ) {
            let text = "It was the best of times. ".repeat(20);
            for (coding, encoded) in TIMES {
                let mut flipped = STANDARD.decode(encoded).unwrap();
                let at = at % flipped.len();
                flipped[at] ^= flip;
                for body in [&bytes, &flipped] {
                    match decode(&[coding], body) {
                        Ok(body) => prop_assert!(body.len() as u64 <= MOST),
                        Err(error) => prop_assert_eq!(error.class(), "body"),
                    }
                }
                // A checksum tells what was changed on the way from what was sent.
                if coding == "gzip"
                    && let Ok(body) = decode(&[coding], &flipped)
                {
                    prop_assert_eq!(body, &text);
                }
            }
        }
    }
}
