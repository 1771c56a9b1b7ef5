//! Bodies of requests: pieces one after the other, so that a file in a form is not copied for each request.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// A body, or what is left of it. No piece is empty.
///
/// As small as can be: most requests have none, and hyper keeps room for 32 requests for each connection.
#[derive(Debug, Clone, Default)]
pub(in crate::runtime::http) struct Payload(Option<Box<Pieces>>);

#[derive(Debug, Clone)]
struct Pieces {
    first: Bytes,
    rest: vec::IntoIter<Bytes>,
}

impl Payload {
    pub(in crate::runtime::http) fn of_pieces(mut pieces: Vec<Bytes>) -> Self {
        pieces.retain(|piece| !piece.is_empty());
        let mut rest = pieces.into_iter();
        Self(rest.next().map(|first| Box::new(Pieces { first, rest })))
    }

    pub(in crate::runtime::http) fn len(&self) -> usize {
        let Some(pieces) = &self.0 else { return 0 };
        pieces.first.len() + pieces.rest.as_slice().iter().map(Bytes::len).sum::<usize>()
    }

    pub(in crate::runtime::http) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Takes the next piece out.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        let mut pieces = self.0.take()?;
        match pieces.rest.next() {
            None => Some(pieces.first),
            Some(next) => {
                let first = std::mem::replace(&mut pieces.first, next);
                self.0 = Some(pieces);
                Some(first)
            }
        }
    }
}

impl<B: Into<Bytes>> From<B> for Payload {
    fn from(whole: B) -> Self {
        let first = whole.into();
        Self((!first.is_empty()).then(|| Box::new(Pieces { first, rest: vec::IntoIter::default() })))
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn pieces_follow_each_other_and_the_length_is_what_is_left() {
        for (pieces, whole) in
            [(vec!["", "ab", "", "c", ""], "abc"), (vec!["a"], "a"), (vec![""], ""), (vec![], "")]
        {
            let pieces: Vec<Bytes> = pieces.into_iter().map(Bytes::from).collect();
            let mut payload = Payload::of_pieces(pieces);
            let mut left = whole.len();
            assert_eq!(payload.clone().collect().await.unwrap().to_bytes(), whole);
            while !payload.is_end_stream() {
                assert_eq!((payload.len(), payload.size_hint().exact()), (left, Some(left as u64)));
                left -= payload.next().unwrap().len();
            }
            assert_eq!((left, payload.next()), (0, None));
        }
    }
}
